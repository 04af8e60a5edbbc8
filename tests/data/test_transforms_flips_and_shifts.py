"""Flips and shifts against a search among all of them."""

import pytest
import torch

from covary.data import flips_and_shifts
from covary.errors import DataError


def moved(images: torch.Tensor, flip: bool, down: int, right: int) -> torch.Tensor:
    """Images flipped, then copied pixel by pixel to their place."""
    source = images.flip(-1) if flip else images
    result = torch.zeros_like(images)
    height, width = images.shape[-2:]
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                result[..., i, j] = source[..., i - down, j - right]
    return result


@pytest.mark.parametrize(
    ("size", "reach"), [((6, 7), (1, 1)), ((16, 23), (2, 2)), ((32, 8), (4, 1))], ids=lambda value: str(value)
)
def test_each_image_is_one_flip_and_shift_of_itself_and_all_of_them_come(size, reach):
    """Shifts reach an eighth of each side: small images lose the same share of themselves as large ones."""
    x = torch.rand(60, 1, *size, generator=torch.Generator().manual_seed(0))
    found = flips_and_shifts(x, torch.arange(60), 5)
    downs, rights = (range(-r, r + 1) for r in reach)
    every = [(f, d, r) for f in (False, True) for d in downs for r in rights]
    matches = torch.stack([(moved(x, *case) == found).flatten(1).all(1) for case in every])
    assert matches.sum(0).tolist() == [1] * 60
    seen = {case for case, matched in zip(every, matches, strict=True) if matched.any()}
    assert {flip for flip, _, _ in seen} == {False, True}
    assert {down for _, down, _ in seen} == set(downs)
    assert {right for _, _, right in seen} == set(rights)


def test_flips_are_as_frequent_as_not_and_shifts_uniform():
    x = torch.zeros(20_000, 1, 16, 17)
    x[:, 0, 8, 8], x[:, 0, 8, 7] = 1.0, 2.0  # the brighter pixel stands to the left, unless it was flipped
    found = flips_and_shifts(x, torch.arange(20_000), 0)[:, 0]
    rows, columns = (found == 1).nonzero()[:, 1:].T
    left = found[torch.arange(20_000), rows, columns - 1] == 2
    assert abs(float(left.double().mean()) - 0.5) < 0.015
    for counts in (rows.bincount(minlength=16)[6:11], columns.bincount(minlength=17)[6:11]):
        assert int(counts.sum()) == 20_000
        assert float(((counts - 4000) ** 2 / 4000).sum()) < 18.5, "χ² with 4 degrees, one in a thousand"


def test_what_an_image_becomes_is_a_function_of_seed_and_index_alone():
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    index = torch.arange(6)
    whole = flips_and_shifts(x, index, 3)
    order = torch.tensor([4, 0, 2])
    assert torch.equal(flips_and_shifts(x[order], index[order], 3), whole[order])
    assert not torch.equal(flips_and_shifts(x, index, 4), whole)
    assert not torch.equal(flips_and_shifts(x, index + 1, 3), whole)


def test_images_that_are_too_small_are_refused():
    with pytest.raises(DataError, match="got 3×8"):
        flips_and_shifts(torch.zeros(1, 1, 3, 8), torch.arange(1), 0)
