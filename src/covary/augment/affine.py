"""Distributions over affine transforms of images, and over rotations of points."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import DataError, ShapeError
from ..groups import affine_generators, exponential
from ..groups.affine import AFFINE_NAMES, to_normalized, warp_normalized
from .protocol import require_images
from .uniform import InitialWidth, Kind, PaddedWidths, UniformWidths, raw_from_widths, widths_from_raw

_SCALE = "by exp(-amount)"
KINDS = {
    "shift_x": Kind("half-widths", "positive moves content to the left by that many half-widths"),
    "shift_y": Kind("half-heights", "positive moves content up by that many half-heights"),
    "rotation": Kind("radians", "positive turns content counter-clockwise on the screen", angular=True),
    "scale_x": Kind("log-scale", f"positive shrinks content horizontally, {_SCALE}"),
    "scale_y": Kind("log-scale", f"positive shrinks content vertically, {_SCALE}"),
    "shear": Kind(  # of the two diagonals
        "log-scale",
        f"positive shrinks content along the diagonal from upper left to lower right, {_SCALE}, and stretches it along "
        "the other",
    ),
}


class Affine2d(PaddedWidths):
    r"""Affine transforms :math:`T = \exp(\sum_i \epsilon_i w_i G_i)` of images, :math:`\epsilon_i \sim U[-1, 1)`.

    Widths are :math:`w = |r|`, of the rotation :math:`\pi \tanh(|r| / \pi)`, with r the parameter `raw_widths`. Units:
    rotation in radians; shifts in half-image units (1 = half of that side); scales and shear in log-scale.

    Arguments:
        names: The generators, by default all six of `AFFINE_NAMES`.
        initial_width: The initial width of all generators, or one per generator as a sequence or by name; 0 is a
            stationary point at which the gradient vanishes.
        padding: The pixels outside of an image: "zeros", "border" or "reflection".
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import Affine2d
        >>> augment = Affine2d(("rotation", "shift_x"), initial_width={"rotation": 0.3, "shift_x": 0.1})
        >>> noise = augment.sample_noise(torch.arange(2), num_samples=5, seed=0)
        >>> augment.transform(torch.rand(2, 1, 8, 8), noise).shape
        torch.Size([2, 5, 1, 8, 8])
    """

    generators: Tensor

    def __init__(
        self,
        names: Sequence[str] = AFFINE_NAMES,
        *,
        initial_width: InitialWidth = 0.05,
        padding: str = "zeros",
        sampler: str = "sobol",
    ) -> None:
        super().__init__(KINDS, names, initial_width, padding, sampler)
        # Constants of the algebra: they follow the module to a device, but are not part of its state.
        self.register_buffer("generators", affine_generators(names, dtype=torch.get_default_dtype()), persistent=False)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C H W"]:
        """Transformed images x of shape (N, C, H, W); T maps output to input coordinates."""
        return self.warp(x, self.coefficients(noise.to(x)))

    def warp(self, x: Tensor, coefficients: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C H W"]:
        r"""Images under :math:`\exp(\sum_i c_i G_i)`, with coefficients c in the units of `units`."""
        require_images(x)
        return warp_normalized(x, self.matrices(coefficients, x.shape[-2], x.shape[-1]), self.padding)

    def matrices(self, coefficients: Float[Tensor, "N S K"], height: int, width: int) -> Float[Tensor, "N S 3 3"]:
        """Matrices from output to input coordinates on [−1, 1]², of images of that height and width."""
        algebra = torch.einsum("nsk,kij->nsij", coefficients, self.generators.to(coefficients))
        return exponential(to_normalized(algebra, height, width))


class Correlated(nn.Module):
    r"""Affine transforms with coefficients :math:`c = L \epsilon`, L lower-triangular, ε the noise of a base.

    L is the lower triangle of the parameter `raw_mix`, whose row of the rotation is scaled down from length r to
    :math:`\pi \tanh(r / \pi)`. Its entries are signed, so that one coefficient can follow another, for example both
    scales as one zoom. The initial distribution is that of the base. The gradient in an off-diagonal entry at 0 is the
    gradient in the covariance of two coefficients; unlike that in a width, it does not vanish by symmetry.

    Arguments:
        base: The initial distribution, of which a frozen copy is kept.
        mix: The initial matrix L instead, shape (K, K), in the units of the base.

    Example:
        >>> from covary.augment import Affine2d, Correlated
        >>> augment = Correlated(Affine2d(("scale_x", "scale_y"), initial_width=0.2))
        >>> augment.correlation.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
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
                f"Expected mix to be a finite lower-triangular matrix ({size}, {size}), a row per name, got one of "
                f"shape {tuple(start.shape)}. Pass for example a Cholesky factor of a covariance."
            )
        lengths = torch.linalg.vector_norm(start, dim=1)
        stretch = torch.where(lengths > 0, raw_from_widths(lengths, self.base.angular) / lengths, 1.0)
        self.raw_mix = nn.Parameter(start * stretch[:, None])

    @property
    def mix(self) -> Float[Tensor, "K K"]:
        """Lower-triangular matrix L from noise to coefficients, rows in the order and units of `names`."""
        raw = self.raw_mix.tril()
        # tanh(r)/r is 1 with derivative 0 at r = 0, where the root has none: a floor far below rounding error
        lengths = raw.square().sum(1).clamp(min=1e-24).sqrt()
        return raw * (widths_from_raw(lengths, self.base.angular, self.base.ends()) / lengths)[:, None]

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
        """Transformed images x of shape (N, C, H, W)."""
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


class Rotation2d(UniformWidths):
    r"""Rotations :math:`x' = R(\epsilon w) x` of points about the origin, :math:`\epsilon \sim U[-1, 1)`.

    Counter-clockwise for positive angles, x to the right and y up. The width is
    :math:`w = \pi \tanh(|r| / \pi)` in radians, with r the parameter `raw_widths`.

    Arguments:
        initial_width: The initial width; 0 is a stationary point at which the gradient vanishes.
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import Rotation2d
        >>> augment = Rotation2d(initial_width=0.5)
        >>> augment.transform(torch.tensor([[1.0, 0.0]]), torch.ones(1, 1, 1))
        tensor([[[0.8776, 0.4794]]], grad_fn=<StackBackward0>)
    """

    def __init__(self, initial_width: float | int = 0.05, *, sampler: str = "sobol") -> None:
        sign = "positive turns points counter-clockwise, x to the right and y up"
        super().__init__({"rotation": Kind("radians", sign, angular=True)}, ("rotation",), initial_width, sampler)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S 2"]:
        """Rotated points x of shape (N, 2)."""
        if x.ndim != 2 or x.shape[1] != 2:
            raise ShapeError(f"Expected points (N, 2), got {tuple(x.shape)}. Use Affine2d for images.")
        angles = self.coefficients(noise.to(x)).squeeze(-1)
        cos, sin = angles.cos(), angles.sin()
        first, second = x[:, :1], x[:, 1:]
        return torch.stack([cos * first - sin * second, sin * first + cos * second], dim=-1)
