"""Affine distributions whose coefficients move together."""

from copy import deepcopy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import DataError
from .affine import Affine2d
from .widths import raw_from_widths, widths_from_raw


class Correlated(nn.Module):
    r"""Affine transforms with coefficients :math:`c = L \epsilon`, L lower-triangular, ε the noise of a base.

    L is the lower triangle of the parameter `raw_mix`, whose row of the rotation is shortened from length r to
    :math:`\pi \tanh(r / \pi)`. Its entries are signed and may pass through 0, so that a coefficient can come to
    follow another one altogether, as where both scales are one zoom. It starts as the base. In the entries off the
    diagonal the objective is not even, as it is in a width: their slope at 0 is the slope in the covariance of two
    coefficients, which vanishes only where that covariance does not matter.

    Arguments:
        base: The distribution to start from, of which a frozen copy is kept.
        mix: The matrix L to start from instead, shape (K, K), in the units of the base.
    """

    hyperparameters = ("raw_mix",)

    def __init__(self, base: Affine2d, mix: Tensor | None = None) -> None:
        super().__init__()
        self.base = deepcopy(base).requires_grad_(False)
        self.names, self.units, self.signs = base.names, base.units, base.signs
        start = torch.diag(self.base.widths) if mix is None else mix.detach().to(self.base.raw_widths)
        size = len(self.names)
        if start.shape != (size, size) or not start.isfinite().all() or not start.equal(start.tril()):
            raise DataError(
                f"mix must be a finite lower-triangular matrix ({size}, {size}), a row per name; one of shape "
                f"{tuple(start.shape)} came. Pass for example a Cholesky factor of a covariance."
            )
        lengths = torch.linalg.vector_norm(start, dim=1)
        stretch = torch.where(lengths > 0, raw_from_widths(lengths, self.base.angular) / lengths, 1.0)
        self.raw_mix = nn.Parameter(start * stretch[:, None])

    @property
    def mix(self) -> Float[Tensor, "K K"]:
        """Lower-triangular matrix L from noise to coefficients, rows in the order and units of `names`."""
        raw = self.raw_mix.tril()
        # tanh(r)/r is 1 with slope 0 at r = 0, where the root has no slope: a floor far below rounding error
        lengths = raw.square().sum(1).clamp(min=1e-24).sqrt()
        return raw * (widths_from_raw(lengths, self.base.angular) / lengths)[:, None]

    @property
    def widths(self) -> Float[Tensor, "K"]:
        r"""Widths :math:`\sqrt{\sum_j L_{ij}^2}`: those of uniform coefficients with the same standard deviation."""
        return torch.linalg.vector_norm(self.mix, dim=1)

    @property
    def correlation(self) -> Float[Tensor, "K K"]:
        """Correlation matrix of the coefficients; 0 in row and column of a width that is 0."""
        rows = nn.functional.normalize(self.mix, dim=1)
        return rows @ rows.T

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Noise of the base."""
        return self.base.sample_noise(index, num_samples, seed=seed)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C H W"]:
        """Transformed copies of images x of shape (N, C, H, W)."""
        return self.base.warp(x, self.coefficients(noise.to(x)))

    def coefficients(self, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S K"]:
        """Coefficients c = L ε of the generators, in the units of `units`."""
        return noise @ self.mix.to(noise).T

    def matrices(self, coefficients: Float[Tensor, "N S K"], height: int, width: int) -> Float[Tensor, "N S 3 3"]:
        """Matrices from output to input coordinates on [−1, 1]², of images of that height and width."""
        return self.base.matrices(coefficients, height, width)

    def extra_repr(self) -> str:
        """Widths by name, for `print`."""
        return ", ".join(f"{n}={w:.3g}" for n, w in zip(self.names, self.widths.tolist(), strict=True))
