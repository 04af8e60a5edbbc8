"""Uniform distributions over rotations of points of the plane."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ShapeError
from .sampling import SAMPLERS, check_sampler
from .widths import raw_from_widths, widths_from_raw


class Rotation2d(nn.Module):
    r"""Rotations :math:`x' = R(\epsilon w) x` of points about the origin, :math:`\epsilon \sim U[-1, 1)`.

    Counter-clockwise for positive angles, x to the right and y up. The width is
    :math:`w = \pi \tanh(|r| / \pi)` in radians, with r the parameter `raw_widths`.

    Arguments:
        initial_width: The width that it starts with; 0 is a stationary point that no gradient leaves.
        sampler: How noise is drawn: "sobol", evenly over the samples of a datum, or "random", independently.
    """

    hyperparameters = ("raw_widths",)
    names = ("rotation",)
    units = ("radians",)
    signs = ("positive turns points counter-clockwise, x to the right and y up",)
    angular: Tensor

    def __init__(self, initial_width: float | int = 0.05, *, sampler: str = "sobol") -> None:
        super().__init__()
        self.sampler = check_sampler(sampler)
        self.register_buffer("angular", torch.tensor([True]), persistent=False)
        self.raw_widths = nn.Parameter(raw_from_widths(torch.tensor([float(initial_width)]), self.angular))

    @property
    def widths(self) -> Float[Tensor, "1"]:
        """Width w in [0, π) of the rotation, in radians."""
        return widths_from_raw(self.raw_widths, self.angular)

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S 1"]:
        """Noise ε in [−1, 1) per datum and sample."""
        return SAMPLERS[self.sampler](seed, index, num_samples, 1, self.raw_widths.dtype)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S 1"]) -> Float[Tensor, "N S 2"]:
        """Rotated copies of points x of shape (N, 2)."""
        if x.ndim != 2 or x.shape[1] != 2:
            raise ShapeError(f"Rotation2d acts on points (N, 2); {tuple(x.shape)} came. Use Affine2d for images.")
        angles = (noise.to(x) * self.widths.to(x)).squeeze(-1)
        cos, sin = angles.cos(), angles.sin()
        first, second = x[:, :1], x[:, 1:]
        return torch.stack([cos * first - sin * second, sin * first + cos * second], dim=-1)

    def extra_repr(self) -> str:
        """Width by name, for `print`."""
        return f"rotation={self.widths.item():.3g}, sampler={self.sampler!r}"
