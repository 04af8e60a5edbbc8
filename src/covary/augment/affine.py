"""Uniform distributions over affine transforms of images."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ShapeError, StructureError
from ..groups import AFFINE_NAMES, PADDINGS, affine_generators, exponential, to_normalized, warp_normalized
from .sampling import SAMPLERS, check_sampler
from .widths import InitialWidth, initial_values, raw_from_widths, widths_from_raw

UNITS = {
    "shift_x": "half-widths",
    "shift_y": "half-heights",
    "rotation": "radians",
    "scale_x": "log-scale",
    "scale_y": "log-scale",
    "shear": "log-scale",  # of the two diagonals
}
SIGNS = {
    "shift_x": "positive moves content to the left by that many half-widths",
    "shift_y": "positive moves content up by that many half-heights",
    "rotation": "positive turns content counter-clockwise on the screen",
    "scale_x": "positive shrinks content horizontally, by exp(-amount)",
    "scale_y": "positive shrinks content vertically, by exp(-amount)",
    "shear": "positive shrinks content along the diagonal from upper left to lower right, by exp(-amount), and "
    "stretches it along the other",
}


class Affine2d(nn.Module):
    r"""Affine transforms :math:`T = \exp(\sum_i \epsilon_i w_i G_i)` of images, :math:`\epsilon_i \sim U[-1, 1)`.

    Widths are :math:`w = |r|`, of the rotation :math:`\pi \tanh(|r| / \pi)`, with r the parameter `raw_widths`. Units:
    rotation in radians; shifts in half-image units (1 = half of that side); scales and shear in log-scale.

    Arguments:
        names: The generators, by default all six of `AFFINE_NAMES`.
        initial_width: The width that each starts with, or one per generator as a sequence or by name; 0 is a
            stationary point that no gradient leaves.
        padding: What lies outside of an image: "zeros", "border" or "reflection".
        sampler: How noise is drawn: "sobol", evenly over the samples of a datum, or "random", independently.
    """

    hyperparameters = ("raw_widths",)
    generators: Tensor
    angular: Tensor

    def __init__(
        self,
        names: Sequence[str] = AFFINE_NAMES,
        *,
        initial_width: InitialWidth = 0.05,
        padding: str = "zeros",
        sampler: str = "sobol",
    ) -> None:
        super().__init__()
        if isinstance(names, str) or not names or len(set(names)) < len(names):
            raise StructureError(
                f"Affine2d needs one or more different names among {', '.join(AFFINE_NAMES)}; {names!r} came. "
                "Pass a tuple, each name once."
            )
        if padding not in PADDINGS:
            raise StructureError(f"Padding must be one of {', '.join(PADDINGS)}; {padding!r} came. Choose one.")
        self.names, self.padding, self.sampler = tuple(names), padding, check_sampler(sampler)
        # Constants of the algebra: they follow the module to a device, but are no state to save.
        self.register_buffer("generators", affine_generators(names, dtype=torch.get_default_dtype()), persistent=False)
        self.register_buffer("angular", torch.tensor([n == "rotation" for n in names]), persistent=False)
        self.units, self.signs = tuple(UNITS[name] for name in names), tuple(SIGNS[name] for name in names)
        self.raw_widths = nn.Parameter(raw_from_widths(initial_values(self.names, initial_width), self.angular))

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Widths w ≥ 0 of the generators, in the order of `names`, in the units of `units`."""
        return widths_from_raw(self.raw_widths, self.angular)

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Noise ε in [−1, 1) per datum, sample and generator."""
        return SAMPLERS[self.sampler](seed, index, num_samples, len(self.names), self.raw_widths.dtype)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C H W"]:
        """Transformed copies of images x of shape (N, C, H, W); T maps output to input coordinates."""
        return self.warp(x, self.coefficients(noise.to(x)))

    def coefficients(self, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S K"]:
        """Coefficients c = w ε of the generators, in the units of `units`."""
        return noise * self.widths.to(noise)

    def warp(self, x: Tensor, coefficients: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C H W"]:
        r"""Images under :math:`\exp(\sum_i c_i G_i)`, with coefficients c in the units of `units`."""
        if x.ndim != 4:
            raise ShapeError(f"Affine2d acts on images (N, C, H, W); {tuple(x.shape)} came. Reshape x to images.")
        return warp_normalized(x, self.matrices(coefficients, x.shape[-2], x.shape[-1]), self.padding)

    def matrices(self, coefficients: Float[Tensor, "N S K"], height: int, width: int) -> Float[Tensor, "N S 3 3"]:
        """Matrices from output to input coordinates on [−1, 1]², of images of that height and width."""
        algebra = torch.einsum("nsk,kij->nsij", coefficients, self.generators.to(coefficients))
        return exponential(to_normalized(algebra, height, width))

    def extra_repr(self) -> str:
        """Widths by name, for `print`."""
        widths = ", ".join(f"{n}={w:.3g}" for n, w in zip(self.names, self.widths.tolist(), strict=True))
        return f"{widths}, padding={self.padding!r}, sampler={self.sampler!r}"
