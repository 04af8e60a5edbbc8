r"""Structured symmetric positive semi-definite matrices: log-determinants, solves, samples, and their derivatives.

Four structures with one interface (`AbstractPSD`): `Dense` (P, P), `Diagonal` (P,), `Kron` (Kronecker products, also
in blocks) and `Block` (a block diagonal of the others, with a name per block).

Conventions:

- P is the size of the matrix :math:`H`. Vectors are the last axis, (..., P); leading axes are a batch.
- A `shift` is added to the diagonal: one number :math:`H + \delta I`, or, for `Dense` and `Diagonal`, one per row,
  shape (P,). A `Block` takes a mapping from its names to shifts, or one number for all.
- :math:`B \otimes A` is `torch.kron(grad_cov, input_cov)`: the order of `weight.flatten()` for a (G, D) weight.
- Log-determinants are natural and enter positively; :math:`H` is positive semi-definite; statistics are sums.
- Derivatives are exact to first order, also with equal and zero eigenvalues: no path differentiates `eigh`.
  Second derivatives are not provided.
- Matrices are immutable and decomposed at most once; error messages name the block.
"""

from .block import Block
from .dense import Dense
from .diagonal import Diagonal
from .kron import Kron
from .psd import AbstractPSD

__all__ = ["AbstractPSD", "Block", "Dense", "Diagonal", "Kron"]
