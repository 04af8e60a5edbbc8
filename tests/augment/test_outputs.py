"""Outputs that move with the input, against what the transformed images show."""

import pytest
import torch

import covary
from covary.augment import (
    Affine2d,
    ColorJitter,
    Composed,
    FiniteGroup,
    Mirror3d,
    MovedBoxes,
    MovedMasks,
    MovedPoints,
    PermutedOutputs,
    Signal1d,
)
from covary.augment.export import action_from_json, action_to_json
from covary.errors import DataError, ShapeError, StructureError
from covary.groups import act
from covary.networks import mlp

TURN = (1, 2, 3, 0)  # up, left, down, right: a counter-clockwise quarter turn moves each to the next
HALF, THREE_QUARTERS = (2, 3, 0, 1), (3, 0, 1, 2)


def turning(**changed):
    return PermutedOutputs(
        {"quarter_turn": TURN, "half_turn": HALF, "three_quarter_turn": THREE_QUARTERS}
        | {name: tuple(entries) for name, entries in changed.items()}
    )


def test_classes_that_turn_with_the_image_make_the_average_equivariant(generator):
    inner, x = mlp(36, 8, 4, generator=generator).double(), torch.rand(3, 1, 6, 6, generator=generator)
    averaged = covary.Averaged(inner, FiniteGroup("quarter_turns", 0.25), 4, output_action=turning())
    before, after = averaged(x), averaged(act(x, "quarter_turn"))
    torch.testing.assert_close(after[:, list(TURN)], before)  # class c of x is class TURN[c] of the turned image
    assert not torch.allclose(after, before, rtol=1e-3), "the control: it is not invariant"
    swapped = turning(quarter_turn=THREE_QUARTERS, three_quarter_turn=TURN)  # the other sense is a group too
    wrong = covary.Averaged(inner, FiniteGroup("quarter_turns", 0.25), 4, output_action=swapped)
    assert not torch.allclose(wrong(act(x, "quarter_turn"))[:, list(TURN)], wrong(x), rtol=1e-3)


def test_permutations_of_outputs_at_positions_and_of_two_composed_groups():
    flips = Composed(FiniteGroup(("identity", "flip_x")), FiniteGroup(("identity", "flip_y")))
    action = PermutedOutputs({"flip_x": (1, 0, 2), "flip_y": (0, 2, 1)})  # these do not commute: order matters
    outputs, both = torch.arange(6.0).reshape(1, 1, 3, 2), torch.ones(1, 1, 2)
    after = [{0: 1, 1: 0, 2: 2}[c] for c in range(3)]  # by flip_x, which is first
    after = [{0: 0, 1: 2, 2: 1}[c] for c in after]
    torch.testing.assert_close(action.inverse(outputs, flips, both, (1, 4, 4))[0, 0], outputs[0, 0, after])


def test_mirrors_in_space():
    mirrors = Mirror3d(("mirror_x", "mirror_z"))
    action = PermutedOutputs({"mirror_x": (1, 0, 2, 3), "mirror_z": (0, 1, 3, 2)})
    noise = torch.arange(4.0).reshape(1, 4, 1)
    found = action.inverse(torch.arange(4.0).expand(1, 4, 4), mirrors, noise, (5, 3))
    assert found[0].tolist() == [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2], [1, 0, 3, 2]]


def image_of(points, height, width):
    """Images with a round spot at each point (x, y) in pixels, one channel per point, in float64."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    squares = (x - points[:, 0, None, None]) ** 2 + (y - points[:, 1, None, None]) ** 2
    return torch.exp(-squares / 8)[None]


def centers_of(images):
    """The center of gravity (x, y) of each channel, in pixels."""
    y, x = torch.meshgrid(torch.arange(images.shape[-2]), torch.arange(images.shape[-1]), indexing="ij")
    total = images.sum((-2, -1))
    return torch.stack([(images * x).sum((-2, -1)) / total, (images * y).sum((-2, -1)) / total], -1)


AUGMENTS = {
    "affine": lambda: Affine2d(("rotation", "shift_x", "shift_y", "scale_x"), initial_width=(0.7, 0.2, 0.1, 0.2)),
    "flips": lambda: FiniteGroup("flips", 0.2),
    "composed": lambda: Composed(FiniteGroup("flips", 0.2), ColorJitter(("contrast",)), Affine2d(initial_width=0.15)),
}


@pytest.mark.parametrize("name", AUGMENTS)
def test_points_are_moved_back_from_where_the_image_shows_them(name):
    height, width = 41, 61  # not square: a rotation mixes both sides
    points = torch.tensor([[24.0, 17.0], [36.0, 22.0], [31.0, 15.0]])
    x, augment = image_of(points, height, width), AUGMENTS[name]()
    noise = augment.sample_noise(torch.arange(1), 8, seed=3)
    with torch.no_grad():
        seen = centers_of(augment.transform(x, noise)) if name != "composed" else centers_of_moved(augment, x, noise)
        assert (seen - points).abs().max() > 3, "the test needs points that move"
        back = MovedPoints("pixels").inverse(seen.flatten(2), augment, noise, (3, height, width))
        normal = (2 * seen + 1) / torch.tensor([width, height]) - 1
        other = MovedPoints("normalized").inverse(normal.flatten(2), augment, noise, (3, height, width))
    expected = points.expand(1, 8, 3, 2)
    # bilinear interpolation moves the center of gravity of a spot by up to a twentieth of a pixel
    torch.testing.assert_close(back.unflatten(2, (3, 2)), expected, rtol=0, atol=0.05)
    back_normal = ((other.unflatten(2, (3, 2)) + 1) * torch.tensor([width, height]) - 1) / 2
    torch.testing.assert_close(back_normal, expected, rtol=0, atol=0.05)


def centers_of_moved(augment, x, noise):
    """Centers without the change of contrast, which adds a constant to the image."""
    flips, colors, affine = noise.split(augment.noise_sizes, -1)
    return centers_of(augment.transform(x, torch.cat([flips, 0 * colors, affine], -1)))


@pytest.mark.parametrize("element", ["identity", "flip_x", "flip_y", "half_turn", "quarter_turn", "transpose"])
def test_boxes_are_moved_back_from_where_the_image_shows_them(element):
    x, box = torch.zeros(1, 1, 9, 9), torch.tensor([1.0, 2.0, 3.0, 7.0])
    x[..., 2:8, 1:4] = 1
    augment = FiniteGroup("dihedral")
    number = torch.tensor([[[float(augment.elements.index(element))]]])
    rows, columns = augment.transform(x, number)[0, 0, 0].nonzero().unbind(1)
    seen = torch.stack([columns.min(), rows.min(), columns.max(), rows.max()]).double()
    back = MovedBoxes("pixels").inverse(seen[None, None], augment, number, (1, 9, 9))
    torch.testing.assert_close(back[0, 0], box)
    assert element in ("identity",) or not torch.equal(seen, box), "the control: it moved"


def test_boxes_under_shifts_and_scales_are_those_of_their_corners():
    augment = Affine2d(("shift_x", "scale_x", "scale_y"), initial_width=0.3)
    noise = augment.sample_noise(torch.arange(2), 4, seed=0)
    boxes = torch.tensor([1.0, 2.0, 3.0, 7.0, 4.0, 0.0, 5.0, 5.0]).expand(2, 4, 8)
    ours = MovedBoxes().inverse(boxes, augment, noise, (1, 12, 9))
    torch.testing.assert_close(ours, MovedPoints().inverse(boxes, augment, noise, (1, 12, 9)))


def test_masks_are_warped_back():
    x = image_of(torch.tensor([[20.0, 14.0]]), 32, 40)
    for augment, tolerance in ((FiniteGroup("flips", 0.2), 1e-12), (AUGMENTS["affine"](), 0.1)):
        noise = augment.sample_noise(torch.arange(1), 4, seed=1)
        seen = augment.transform(x, noise)
        back = MovedMasks().inverse(seen, augment, noise, (1, 32, 40))
        assert (seen - x).abs().max() > 0.2, "the test needs masks that move"
        # two interpolations lower the top of a spot with a standard deviation of two pixels by up to a tenth
        torch.testing.assert_close(back, x.expand_as(back), rtol=0, atol=tolerance)


def test_gradients_reach_the_widths_through_the_outputs():
    augment = Affine2d(("rotation",), initial_width=0.4)
    noise, points = augment.sample_noise(torch.arange(2), 3, seed=0), torch.randn(2, 3, 4)

    def total():
        return MovedPoints("normalized").inverse(points, augment, noise, (1, 6, 8)).square().sum() / 2

    (gradient,) = torch.autograd.grad(total(), augment.raw_widths)
    augment.raw_widths.data += 1e-6
    above = float(total().detach())
    augment.raw_widths.data -= 2e-6
    assert float(gradient) == pytest.approx((above - float(total().detach())) / 2e-6, rel=1e-6)


ACTIONS = [turning(), MovedPoints("normalized"), MovedBoxes(), MovedMasks("zeros")]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: type(action).__name__)
def test_records_of_actions_make_the_same_action(action):
    record = action_to_json(action)
    again = action_from_json(record)
    assert type(again) is type(action)
    assert vars(again) == vars(action)
    with pytest.raises(DataError, match="Field|field"):
        action_from_json({"kind": record["kind"]})


class Unknown:
    def inverse(self, outputs, augment, noise, input_shape):
        return outputs


def test_bad_input():
    with pytest.raises(StructureError, match="each number from 0 once"):
        PermutedOutputs({"flip_x": (1, 1)})
    with pytest.raises(StructureError, match="among pixels, normalized, got 'meters'"):
        MovedPoints("meters")
    with pytest.raises(StructureError, match="a padding among"):
        MovedMasks("mirror")
    noise, flips = torch.zeros(1, 1, 1), FiniteGroup("flips")
    with pytest.raises(StructureError, match="'flip_y', is 'half_turn', with"):
        PermutedOutputs({"flip_x": (1, 0)}).inverse(torch.zeros(1, 1, 2), flips, noise, (1, 4, 4))
    with pytest.raises(StructureError, match="commute"):
        PermutedOutputs({"mirror_x": (1, 0, 2), "mirror_y": (0, 2, 1)}).inverse(
            torch.zeros(1, 1, 3), Mirror3d(), noise, (5, 3)
        )
    with pytest.raises(StructureError, match="got flip_x, which it does not have"):
        PermutedOutputs({"flip_x": (1, 0)}).inverse(torch.zeros(1, 1, 2), Affine2d(), torch.zeros(1, 1, 6), (1, 4, 4))
    with pytest.raises(ShapeError, match="Expected 2 outputs.*got 3"):
        PermutedOutputs({"flip_x": (1, 0)}).inverse(torch.zeros(1, 1, 3), flips, noise, (1, 4, 4))
    with pytest.raises(ShapeError, match=r"\(N, 2P\), the numbers of points"):
        MovedPoints().inverse(torch.zeros(1, 1, 3), flips, noise, (1, 4, 4))
    with pytest.raises(ShapeError, match=r"Expected images.*got \(N, 5\)"):
        MovedPoints().inverse(torch.zeros(1, 1, 2), flips, noise, (5,))
    with pytest.raises(ShapeError, match=r"at positions, got \(N, 3\)"):
        MovedMasks().inverse(torch.zeros(1, 1, 3), flips, noise, (1, 4, 4))
    with pytest.raises(StructureError, match="got rotation and shear. Predict the four corners"):
        MovedBoxes().inverse(torch.zeros(1, 1, 4), Affine2d(), torch.zeros(1, 1, 6), (1, 4, 4))
    with pytest.raises(StructureError, match="got Signal1d, which moves positions"):
        MovedPoints().inverse(torch.zeros(1, 1, 4), Signal1d(), torch.zeros(1, 1, 4), (1, 4, 4))
    with pytest.raises(DataError, match="a class that covary does not know"):
        action_from_json(action_to_json(Unknown()))
