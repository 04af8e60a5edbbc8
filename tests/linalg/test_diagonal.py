"""Diagonal matrices; what all structures have in common is in `test_psd.py`, shifts per row in `test_dense.py`."""

import pytest
import torch

from covary.errors import NotPositiveDefiniteError, ShapeError
from covary.linalg import Diagonal


@pytest.mark.parametrize("entry", [-1e-3, torch.nan, torch.inf])
def test_a_diagonal_out_of_range_is_refused(entry: float) -> None:
    with pytest.raises(NotPositiveDefiniteError, match="block 'x' must be finite and at least 0, got values"):
        Diagonal(torch.tensor([entry, 1.0]), name="x").logdet(1.0)


@pytest.mark.parametrize("shape", [(2, 2), (0,), ()])
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=rf"shape \(P,\).*got \({', '.join(map(str, shape))},?\)"):
        Diagonal(torch.ones(shape))
