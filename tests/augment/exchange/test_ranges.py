import pytest
import torch

from covary.augment import Affine2d, Composed, Correlated, FiniteGroup, Mirror3d, Rotation2d
from covary.augment.exchange.ranges import Flips, drawn_elements, flips_of, ranges_of
from covary.errors import StructureError
from covary.groups import act


def test_parts_of_parts_are_found():
    inner = Composed(FiniteGroup(("identity", "flip_x"), 0.2), Affine2d(("rotation",), padding="border"))
    found = ranges_of(Composed(inner, Mirror3d(("mirror_z",), 0.4)))
    assert found.widths == {"rotation": pytest.approx(0.05)}
    assert found.elements == {"identity": pytest.approx(0.8), "flip_x": pytest.approx(0.2)}
    assert found.mirrors == {"mirror_z": pytest.approx(0.4)}
    assert found.padding == "border"
    assert found.notes == ()


def test_small_correlations_are_not_mentioned():
    base = Affine2d(("rotation", "shift_x"), padding="reflection")
    assert ranges_of(Correlated(base)).notes == ()
    assert ranges_of(Correlated(base)).padding == "reflection"
    assert ranges_of(Correlated(base, torch.tensor([[0.3, 0.0], [0.01, 0.3]]))).notes == ()
    with pytest.raises(StructureError, match="of Rotation2d"):
        ranges_of(Rotation2d())


def test_drawn_elements_are_those_of_images(generator):
    """Probabilities by drawing flips and turns of an image that has no symmetry."""
    flips = Flips(0.3, 0.2, 0.4)
    image = torch.rand(1, 3, 3, generator=generator)
    names = list(drawn_elements(flips))
    counts = dict.fromkeys(names, 0)
    for _ in range(2000):
        first, second, third, turn = torch.rand(4, generator=generator).tolist()
        moved = image.flip(-1) if first < 0.3 else image
        moved = moved.flip(-2) if second < 0.2 else moved
        moved = torch.rot90(moved, int(4 * turn), (-2, -1)) if third < 0.4 else moved
        counts[next(name for name in names if torch.equal(act(image, name), moved))] += 1
    for name, share in drawn_elements(flips).items():
        assert counts[name] / 2000 == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("flips", [Flips(0.3, 0.2, 0.0), Flips(0.5, 0.5, 0.0), Flips(0.3, 0.0, 0.6)])
def test_independent_flips_are_found_again(flips):
    found = flips_of(drawn_elements(flips))
    assert (found.horizontal, found.vertical, found.turned) == pytest.approx(
        (flips.horizontal, flips.vertical, flips.turned)
    )
    assert found.notes == ()


def test_a_half_turn_alone_is_said_to_be_no_pair_of_flips():
    found = flips_of({"identity": 0.5, "half_turn": 0.5})
    assert found.notes[0].endswith("Flips and turns are drawn independently here, 50 % apart.")
