"""Images in quadrants against pixels copied one by one."""

import pytest
import torch
from torch.nn.functional import interpolate

from covary.data import Dataset, in_quadrants
from covary.data.transforms import QUADRANTS
from covary.errors import DataError


def images(num_train: int = 400, num_test: int = 60, side: int = 6, num_classes: int = 3) -> Dataset:
    x = torch.rand(num_train + num_test, 2, side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    x = x + 0.1  # no pixel of an image is as dark as the canvas
    y = torch.arange(len(x)) % num_classes
    names = tuple("abcdefghij"[:num_classes])
    return Dataset(x[:num_train], y[:num_train], x[num_train:], y[num_train:], "noise", names)


def quadrants_of(canvases: torch.Tensor) -> torch.Tensor:
    """The quadrant with the light, of images that were not resampled."""
    half = canvases.shape[-1] // 2
    corners = [canvases[:, :, r : r + half, c : c + half].sum((1, 2, 3)) for r in (0, half) for c in (0, half)]
    return torch.stack(corners, 1).argmax(1)


@pytest.mark.parametrize("part", ["train", "test"])
def test_each_image_is_whole_in_one_quadrant_and_the_rest_is_zero(part):
    given, made = images(), in_quadrants(images(), "quadrant", 3, side=12)
    (x, y), (placed, labels) = getattr(given, part), getattr(made, part)
    for image, canvas, old, new in zip(x, placed, y.tolist(), labels.tolist(), strict=True):
        row, column = divmod(new // 3, 2)
        expected = torch.zeros(2, 12, 12, dtype=torch.float32)
        for i in range(6):
            for j in range(6):
                expected[:, 6 * row + i, 6 * column + j] = image[:, i, j]
        assert torch.equal(canvas, expected)
        assert new % 3 == old


def test_the_canvas_is_resampled_bilinearly_without_antialiasing():
    whole, small = (in_quadrants(images(), "digit", 0, side=side).x_train for side in (12, 7))
    torch.testing.assert_close(small, interpolate(whole, size=(7, 7), mode="bilinear", align_corners=False))
    blurred = interpolate(whole, size=(7, 7), mode="bilinear", align_corners=False, antialias=True)
    assert not torch.allclose(small, blurred, atol=1e-3)
    assert in_quadrants(images(), "digit", 0).x_train.shape[-2:] == (32, 32)


def test_digit_keeps_the_labels_and_quadrant_tells_four_of_each():
    digit, quadrant = (in_quadrants(images(), task, 0, side=12) for task in ("digit", "quadrant"))
    assert torch.equal(digit.x_train, quadrant.x_train)
    assert torch.equal(digit.y_train, images().y_train)
    assert digit.class_names == ("a", "b", "c")
    assert len(quadrant.class_names) == 12
    assert quadrant.class_names[3 * 2 + 1] == f"b, {QUADRANTS[2]}"
    assert torch.equal(quadrant.y_train // 3, quadrants_of(quadrant.x_train))


def test_quadrants_are_uniform_and_functions_of_seed_part_and_position():
    made = {seed: in_quadrants(images(), "quadrant", seed, side=12) for seed in (0, 1)}
    counts = quadrants_of(made[0].x_train).bincount(minlength=4)
    assert float(((counts - 100) ** 2 / 100).sum()) < 16.3, "χ² with 3 degrees of freedom, one in a thousand"
    assert not torch.equal(made[0].y_train, made[1].y_train)
    fewer = images()._replace(x_train=images().x_train[:300], y_train=images().y_train[:300])
    assert torch.equal(in_quadrants(fewer, "quadrant", 0, side=12).y_train, made[0].y_train[:300])
    assert not torch.equal(made[0].y_train[:60] // 3, made[0].y_test // 3)


def test_none_leaves_the_data_set_as_it_is():
    assert in_quadrants(images(), "none", 0) is not None
    assert torch.equal(in_quadrants(images(), "none", 0).x_train, images().x_train)
    bare = images()._replace(x_test=images().x_test[:0], y_test=images().y_test[:0])
    assert in_quadrants(bare, "digit", 0).x_test.shape == (0, 2, 32, 32)


@pytest.mark.parametrize(
    ("dataset", "task", "side", "expected"),
    [
        (images(), "digits", 32, "among none, digit, quadrant and regression, got 'digits'"),
        (images()._replace(x_train=torch.zeros(400, 2, 6, 8, dtype=torch.float32)), "digit", 32, "6×8 pixels"),
        (images(side=3), "digit", 32, "at least 4 pixels"),
        (images(), "digit", 3, "at least 4 pixels, got 3"),
        (images(num_train=6), "quadrant", 12, "no training image of class"),
    ],
)
def test_what_cannot_be_made_is_refused(dataset, task, side, expected):
    with pytest.raises(DataError, match=expected):
        in_quadrants(dataset, task, 0, side)


@pytest.mark.parametrize(("task", "number"), [("quadrant", 8), ("digit", 2)])
def test_too_few_images_for_every_class_are_refused_with_the_remedy(task, number):
    few = images()._replace(x_train=images().x_train[:number], y_train=images().y_train[:number])
    with pytest.raises(DataError, match=f"with {number} images, has no training image of class .*larger --num-train"):
        in_quadrants(few, task, 0)


def test_canvases_beyond_the_memory_of_the_machine_are_refused_before_they_are_made():
    with pytest.raises(DataError, match="noise at 1000000×1000000 pixels needs"):
        in_quadrants(images(), "digit", 0, side=1_000_000)
