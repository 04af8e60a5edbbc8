r"""What is the determinant, the inverse, the root of a large symmetric positive semi-definite matrix with structure?

Four structures, one interface (`AbstractPSD`): `Dense` (P, P), `Diagonal` (P,), `Kron` (Kronecker products, also
in blocks) and `Block` (a named block diagonal of the others).

Conventions:

- P is the size of the matrix :math:`H`. Vectors are the last axis, (..., P); leading axes are a batch.
- A `shift` is added to the diagonal: one number :math:`H + \delta I`, or, for `Dense` and `Diagonal`, one per row,
  shape (P,). A `Block` takes a mapping from its names to shifts, or one number for all.
- :math:`B \otimes A` is `torch.kron(grad_cov, input_cov)`: the order of `weight.flatten()` for a (G, D) weight.
- Log-determinants are natural and enter positively; :math:`H` is positive semi-definite; statistics are sums.
- Derivatives are exact to first order, also with equal and zero eigenvalues: no path differentiates `eigh`.
  Second derivatives are not provided.
- Values do not change. A value is decomposed at most once; what follows from it keeps the name of its block.
"""

from .block import Block
from .dense import Dense
from .diagonal import Diagonal
from .eigen import Spectrum, eigh_all
from .gram import Gram
from .kron import Kron
from .psd import AbstractPSD
from .shift import Shift, Shifts

__all__ = ["AbstractPSD", "Block", "Dense", "Diagonal", "Gram", "Kron", "Shift", "Shifts", "Spectrum", "eigh_all"]
