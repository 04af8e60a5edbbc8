"""Flips and shifts against a search among all of them."""

import pytest
import torch

from covary._errors import DataError
from covary.data import flips_and_shifts


def moved(image: torch.Tensor, flip: bool, down: int, right: int) -> torch.Tensor:
    """One image flipped, then copied pixel by pixel to its place."""
    source = image.flip(-1) if flip else image
    result = torch.zeros_like(image)
    height, width = image.shape[-2:]
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                result[:, i, j] = source[:, i - down, j - right]
    return result


def test_each_image_is_one_flip_and_shift_of_itself_and_all_of_them_come():
    x = torch.rand(60, 3, 6, 7, generator=torch.Generator().manual_seed(0))
    found = flips_and_shifts(x, torch.arange(60), 5)
    seen = set()
    for before, after in zip(x, found, strict=True):
        every = [(f, d, r) for f in (False, True) for d in range(-4, 5) for r in range(-4, 5)]
        matches = [case for case in every if torch.equal(moved(before, *case), after)]
        assert len(matches) == 1
        seen.add(matches[0])
    assert {flip for flip, _, _ in seen} == {False, True}
    assert {down for _, down, _ in seen} == {right for _, _, right in seen} == set(range(-4, 5))


def test_flips_are_as_frequent_as_not_and_shifts_uniform():
    x = torch.zeros(20_000, 1, 9, 9)
    x[:, 0, 4, 4], x[:, 0, 4, 3] = 1.0, 2.0  # the brighter pixel stands to the left, unless it was flipped
    found = flips_and_shifts(torch.nn.functional.pad(x, (4, 4, 4, 4)), torch.arange(20_000), 0)[:, 0]
    rows, columns = (found == 1).nonzero()[:, 1:].T
    left = found[torch.arange(20_000), rows, columns - 1] == 2
    assert abs(float(left.double().mean()) - 0.5) < 0.015
    counts = rows.bincount(minlength=17)[4:13]
    assert int(counts.sum()) == 20_000
    assert float(((counts - 20_000 / 9) ** 2 / (20_000 / 9)).sum()) < 26.1, "χ² with 8 degrees, one in a thousand"


def test_what_an_image_becomes_is_a_function_of_seed_and_index_alone():
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    index = torch.arange(6)
    whole = flips_and_shifts(x, index, 3)
    order = torch.tensor([4, 0, 2])
    assert torch.equal(flips_and_shifts(x[order], index[order], 3), whole[order])
    assert not torch.equal(flips_and_shifts(x, index, 4), whole)
    assert not torch.equal(flips_and_shifts(x, index + 1, 3), whole)


def test_images_that_are_too_small_are_told():
    with pytest.raises(DataError, match="3×8 came"):
        flips_and_shifts(torch.zeros(1, 1, 3, 8), torch.arange(1), 0)
