"""Checks of matrices: shapes, finite and symmetric entries, positive eigenvalues."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import NotPositiveDefiniteError, ShapeError, StructureError


def describe(name: str, part: str = "") -> str:
    """The name of a matrix in messages, such as "input_cov of block 'head'"."""
    whole = f"block '{name}'" if name else "the matrix"
    return f"{part} of {whole}" if part else whole


def check_factor(matrix: Float[Tensor, "..."], ndims: tuple[int, ...], label: str) -> None:
    """Raise `ShapeError` if a tensor is not a square matrix, or a stack of them, with at least one entry."""
    if matrix.ndim in ndims and matrix.shape[-1] == matrix.shape[-2] and matrix.numel() > 0:
        return
    expected = " or ".join("(Q, n, n)" if ndim == 3 else "(n, n)" for ndim in ndims)
    raise ShapeError(
        f"{label} must have shape {expected} with every axis at least 1, got {tuple(matrix.shape)}. "
        "Pass the square symmetric matrix, such as the Gram matrix of the rows."
    )


def check_entries(matrix: Float[Tensor, "*Q n n"], label: str) -> None:
    """Raise an error if entries are not finite or not symmetric."""
    low, high = matrix.aminmax()  # one pass over the entries; nan and inf propagate
    if not bool(low.isfinite() & high.isfinite()):
        raise NotPositiveDefiniteError(
            f"Every entry of {label} must be finite; {int((~torch.isfinite(matrix)).sum())} are not. "
            "Check the data and the weights for inf or nan, or compute in float64."
        )
    # Decompositions read one triangle only; sums over data differ between the triangles by rounding alone. Products
    # below the smallest normal number, as of an inactive path, are each rounded by up to that number.
    gap, largest, kind = (matrix - matrix.mT).amax(), torch.maximum(high, -low), torch.finfo(matrix.dtype)
    if bool(gap > kind.eps**0.5 * largest + kind.tiny / kind.eps**0.5):
        raise StructureError(
            f"{label} must be symmetric; entries differ from their mirror image by up to {gap.item():.3e}. "
            "Pass (M + M.mT) / 2 if that is the matrix you mean."
        )


def check_vectors(vectors: Float[Tensor, "..."], size: int, label: str) -> None:
    """Raise `ShapeError` if the last axis of vectors does not have the `size` of the matrix."""
    if vectors.ndim == 0 or vectors.shape[-1] != size:
        raise ShapeError(
            f"Vectors for {label} must have shape (..., {size}), got {tuple(vectors.shape)}. "
            "Put the axis of the matrix last."
        )


def check_scale(scale: float | int | Float[Tensor, ""], label: str) -> None:
    """Raise `StructureError` if a factor is negative, so that the product is not positive semi-definite."""
    if not bool(scale >= 0):
        raise StructureError(
            f"The factor of {label} must be at least 0, got {float(scale):.3g}. A negative multiple is not positive "
            "semi-definite: compute with to_dense() instead."
        )


def require_positive(values: Float[Tensor, "..."], label: str) -> Float[Tensor, "..."]:
    """The same eigenvalues, after a check that each is above zero."""
    if bool((values > 0).all()):
        return values
    raise NotPositiveDefiniteError(
        f"The smallest eigenvalue plus shift of {label} must be above 0, got {values.min().item():.3e}. "
        "Increase the shift (the prior precision) of this block, or compute its matrices in float64."
    )
