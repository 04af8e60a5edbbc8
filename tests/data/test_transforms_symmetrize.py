import math

import pytest
import torch

from covary.augment import Affine2d
from covary.data import Dataset, symmetrize, transforms, true_widths
from covary.errors import DataError
from covary.noise import Stream, fold, uniform


def dataset(num_train=3, num_test=2, height=6, width=9, num_channels=2):
    generator = torch.Generator().manual_seed(0)
    x_train, x_test = (
        torch.rand(n, num_channels, height, width, generator=generator, dtype=torch.float32)
        for n in (num_train, num_test)
    )
    labels = torch.arange(num_train) % 2
    return Dataset(x_train, labels, x_test, torch.arange(num_test) % 2, "some", ("a", "b"))


def pixel(image, row, column):
    """The value of an image (H, W) at real coordinates in pixels, by the definition of bilinear interpolation."""
    total = 0.0
    for r in (math.floor(row), math.floor(row) + 1):
        for c in (math.floor(column), math.floor(column) + 1):
            if 0 <= r < image.shape[0] and 0 <= c < image.shape[1]:
                total += (1 - abs(row - r)) * (1 - abs(column - c)) * float(image[r, c])
    return total


def source_of(kind, numbers, amount, row, column, height, width):
    """Where the output pixel (row, column) is read, in pixels; x to the right and y down from the center."""
    x, y = column - (width - 1) / 2, row - (height - 1) / 2
    if kind == "rotate":
        angle = math.radians(amount) * numbers[0]
        x, y = math.cos(angle) * x - math.sin(angle) * y, math.sin(angle) * x + math.cos(angle) * y
    elif kind == "translate":
        x, y = x + amount * numbers[0], y + amount * numbers[1]
    else:
        x, y = x * amount ** numbers[0], y * amount ** numbers[0]
    return y + (height - 1) / 2, x + (width - 1) / 2


@pytest.mark.parametrize(("kind", "amount"), [("rotate", 70), ("rotate", 180), ("translate", 2.5), ("scale", 2)])
def test_every_pixel_is_that_of_a_slow_loop(kind, amount):
    original = dataset()
    made = symmetrize(original, f"{kind}:{amount}", seed=5)
    count = 2 if kind == "translate" else 1
    moved = 0
    for part, (before, after) in enumerate(((original.x_train, made.x_train), (original.x_test, made.x_test))):
        index = torch.arange(len(before))
        noise = 2 * uniform(fold(5, part), index, (count,), stream=Stream.SYMMETRIZE, dtype=torch.float64) - 1
        for n, channel in ((0, 0), (1, 1)):
            for row, column in ((0, 0), (2, 3), (3, 4), (5, 8), (1, 7)):
                place = source_of(kind, noise[n].tolist(), amount, row, column, 6, 9)
                assert float(after[n, channel, row, column]) == pytest.approx(
                    pixel(before[n, channel], *place), abs=2e-6
                )
                moved += abs(place[0] - row) + abs(place[1] - column) > 0.1
    assert moved > 10


@pytest.mark.parametrize(("number", "turns"), [(0.0, -2), (0.25, -1), (0.5, 0), (0.75, 1)])
def test_quarter_turns_are_rot90(monkeypatch, number, turns):
    monkeypatch.setattr(transforms, "uniform", lambda seed, index, shape, **_: torch.full((len(index), *shape), number))
    original = dataset(height=7, width=7)
    turned = symmetrize(original, "rotate:180", seed=0)
    torch.testing.assert_close(turned.x_train, torch.rot90(original.x_train, turns, (-2, -1)), rtol=0, atol=1e-5)


def test_amounts_reach_their_bounds_and_no_further(monkeypatch):
    drawn = []
    monkeypatch.setattr(transforms, "warp", lambda images, maps: drawn.append(maps) or images.unsqueeze(1))
    original = dataset(num_train=3000, num_test=0, height=2, width=4, num_channels=1)
    symmetrize(original, "translate:1", seed=0)
    shifts = torch.cat(drawn)[:, 0, :2, 2]
    assert len(shifts) == 3000
    for axis, bound in ((0, 2 / 4), (1, 2 / 2)):
        assert 0.99 * bound < shifts[:, axis].max() <= bound
        assert -bound <= shifts[:, axis].min() < -0.99 * bound
        assert float(shifts[:, axis].std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert abs(float(torch.corrcoef(shifts.T)[0, 1])) < 0.05
    drawn.clear()
    symmetrize(original, "scale:2", seed=0)
    scales = torch.cat(drawn)[:, 0].diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(scales[:, 0], scales[:, 1])  # isotropic
    assert 0.5 <= float(scales[:, 0].min()) < 0.51
    assert 1.98 < float(scales[:, 0].max()) <= 2
    assert float(scales[:, 0].log().mean()) == pytest.approx(0, abs=0.03)


def test_a_transform_is_a_function_of_seed_part_and_position():
    original = dataset(num_train=5, num_test=5)
    original = original._replace(x_test=original.x_train, y_test=original.y_train)
    made = symmetrize(original, "rotate:180", seed=1)
    assert torch.equal(symmetrize(original, "rotate:180", seed=1).x_train, made.x_train)
    fewer = original._replace(x_train=original.x_train[:2], y_train=original.y_train[:2])
    assert torch.equal(symmetrize(fewer, "rotate:180", seed=1).x_train, made.x_train[:2])
    # The controls: another seed, part or position is another transform.
    assert not torch.allclose(symmetrize(original, "rotate:180", seed=2).x_train, made.x_train)
    assert not torch.allclose(made.x_test, made.x_train)
    same = original._replace(x_train=original.x_train[:1].expand(5, -1, -1, -1))
    assert not torch.allclose(*symmetrize(same, "rotate:180", seed=1).x_train[:2])


def test_what_is_kept():
    original = dataset(num_test=0)
    made = symmetrize(original, "scale:1.5", seed=0)
    assert made.x_train.dtype == torch.float32
    assert made.x_test.shape == original.x_test.shape
    assert torch.equal(made.y_train, original.y_train)
    assert (made.name, made.class_names) == ("some, scale:1.5", ("a", "b"))
    assert symmetrize(original, "none", seed=0) is original


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("rotate:180", {"rotation": math.pi}),
        ("rotate:90", {"rotation": math.pi / 2}),
        ("translate:8", {"shift_x": 16 / 28, "shift_y": 16 / 14}),
        ("scale:2", {"scale_x": math.log(2), "scale_y": math.log(2)}),
        ("none", {}),
    ],
)
def test_true_widths_are_in_the_units_of_affine2d(spec, expected):
    assert true_widths(spec, 14, 28) == pytest.approx(expected)
    assert expected.keys() <= set(Affine2d().names)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rotate", "Expected rotate:DEGREES above 0, at most 180"),
        ("rotate:", "Expected rotate:DEGREES"),
        ("rotate:much", "Expected rotate:DEGREES"),
        ("rotate:181", "Expected rotate:DEGREES"),
        ("rotate:0", "Expected rotate:DEGREES"),
        ("rotate:-5", "Expected rotate:DEGREES"),
        ("rotate:nan", "Expected rotate:DEGREES"),
        ("rotate:90:3", "Expected rotate:DEGREES"),
        ("translate:15", "Expected translate:PIXELS .* of images of 14×28 pixels"),
        ("translate:inf", "Expected translate:PIXELS"),
        ("scale:1", "Expected scale:FACTOR above 1"),
        ("scale:inf", "Expected scale:FACTOR above 1"),
        ("turn:90", "Expected a symmetry rotate:DEGREES, translate:PIXELS, scale:FACTOR or none"),
        ("", "Expected a symmetry rotate:DEGREES, translate:PIXELS, scale:FACTOR or none"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(DataError, match=f"{message}.*, got '{spec}'"):
        true_widths(spec, 14, 28)
