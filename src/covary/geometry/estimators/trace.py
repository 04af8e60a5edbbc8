r"""The trace of a matrix known by its products: Hutch++ (Meyer, Musco, Musco and Woodruff 2021).

.. math:: \operatorname{tr} A = \operatorname{tr} Q^\top A Q + \operatorname{tr} B,
    \qquad B = (I - QQ^\top) A (I - QQ^\top).

Q spans the range of A on random signs, so the first term is exact and holds the large eigenvalues; the second
is the mean of :math:`g^\top B g` over random signs g.
"""

import torch

from ...errors import DataError
from ...noise import Stream, rademacher
from .estimate import Estimate, error_of_mean
from .operators import MatrixFree


@torch.no_grad()
def estimate_trace(matrix: MatrixFree, *, num_products: int = 60, seed: int = 0) -> Estimate:
    r"""The trace of A, with its 95 % error.

    A third of the products finds Q, a third is the trace inside it, a third are probes g; :math:`\|B g\|^2`
    estimates the variance without further products. If Q spans the whole space, the trace is exact.

    Arguments:
        matrix: The symmetric matrix A, of any signature.
        num_products: The number of products, at least 3; fewer are used where they suffice.
        seed: The seed of the random signs.

    Example:
        >>> values = torch.arange(5, dtype=torch.float64)
        >>> estimate_trace(MatrixFree(lambda vectors: vectors * values, size=5)).value.round(decimals=6)
        tensor(10., dtype=torch.float64)
    """
    if num_products < 3:
        raise DataError(f"Expected at least 3 products, got {num_products}. Pass for example `num_products=60`.")
    num_rows = min(num_products // 3, matrix.size)
    num_probes = num_products - 2 * num_rows if num_rows < matrix.size else 0
    index = torch.arange(num_rows + num_probes, device=matrix.device)
    signs = rademacher(seed, index, (matrix.size,), stream=Stream.PROBE, dtype=matrix.dtype)
    block, probes = signs.split([num_rows, num_probes])
    basis = torch.linalg.qr(matrix(block).T)[0].T
    inside = (basis * matrix(basis)).sum(dtype=torch.float64).cpu()
    if not num_probes:
        return Estimate(inside, torch.zeros_like(inside), 2 * num_rows)
    probes = probes - (probes @ basis.T) @ basis
    products = matrix(probes)
    outside = (probes * products).sum(dtype=torch.float64).cpu() / num_probes
    products = products - (products @ basis.T) @ basis
    squared_norm = products.square().sum(dtype=torch.float64).cpu() / num_probes
    return Estimate(inside + outside, error_of_mean(squared_norm, num_probes), 2 * num_rows + num_probes)
