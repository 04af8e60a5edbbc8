"""Dense definitions of what structured matrices compute: determinants by LU, inverses by Gauss, no eigenvalues."""

import torch
from torch import Tensor


def block_kron(input_cov: Tensor, grad_cov: Tensor, count: float) -> Tensor:
    """Entries H[(q,g,d), (q,h,e)] = B[q,g,h] A[q,d,e] / count of a block diagonal of Kronecker products."""
    num_blocks = max(factor.shape[0] if factor.ndim == 3 else 1 for factor in (input_cov, grad_cov))
    rows, columns = grad_cov.shape[-1], input_cov.shape[-1]
    dense = torch.zeros(num_blocks, rows, columns, num_blocks, rows, columns, dtype=input_cov.dtype)
    for q in range(num_blocks):
        a = input_cov[q] if input_cov.ndim == 3 else input_cov
        b = grad_cov[q] if grad_cov.ndim == 3 else grad_cov
        dense[q, :, :, q] = torch.einsum("gh,de->gdhe", b, a) / count
    return dense.reshape(num_blocks * rows * columns, -1)


def shifted(matrix: Tensor, shift: float | Tensor) -> Tensor:
    """H + diag(δ), for δ scalar or (P,)."""
    ones = torch.ones(matrix.shape[0], dtype=matrix.dtype)
    return matrix + torch.diag(ones * shift)


def logdet(matrix: Tensor, shift: float | Tensor) -> Tensor:
    """log|H + δ|, from an LU decomposition."""
    return torch.linalg.slogdet(shifted(matrix, shift)).logabsdet


def solve(matrix: Tensor, vectors: Tensor, shift: float | Tensor) -> Tensor:
    """(H + δ)⁻¹ v for vectors (..., P)."""
    return torch.linalg.solve(shifted(matrix, shift), vectors.unsqueeze(-1)).squeeze(-1)


def effective_dimension(matrix: Tensor, shift: float | Tensor) -> Tensor:
    """tr(H (H + δ)⁻¹)."""
    return torch.trace(matrix @ torch.linalg.inv(shifted(matrix, shift)))
