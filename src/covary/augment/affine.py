"""Uniform distributions over affine transforms of images."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._errors import ShapeError, StructureError
from ..groups import AFFINE_NAMES, affine_generators, exponential, to_normalised, warp_normalised
from ..noise import Stream, uniform
from .widths import raw_from_widths, widths_from_raw

__all__ = ["Affine2d"]

UNITS = {
    "shift_x": "half-widths",
    "shift_y": "half-heights",
    "rotation": "radians",
    "scale_x": "log-scale",
    "scale_y": "log-scale",
    "shear": "log-scale",  # of the two diagonals
}


class Affine2d(nn.Module):
    r"""Affine transforms :math:`T = \exp(\sum_i \epsilon_i w_i G_i)` of images, :math:`\epsilon_i \sim U[-1, 1)`.

    Widths are :math:`w = |r|`, of the rotation :math:`\pi \tanh(|r| / \pi)`, with r the parameter `raw_widths`. Units:
    rotation in radians; shifts in half-image units (1 = half of that side); scales and shear in log-scale.

    Arguments:
        names: The generators, by default all six of `AFFINE_NAMES`.
        initial_width: The width that each starts with; 0 is a stationary point that no gradient leaves.
        padding: What lies outside of an image: "zeros", "border" or "reflection".
    """

    hyperparameters = ("raw_widths",)
    generators: Tensor
    angular: Tensor

    def __init__(
        self, names: Sequence[str] = AFFINE_NAMES, *, initial_width: float = 0.05, padding: str = "zeros"
    ) -> None:
        super().__init__()
        if isinstance(names, str) or not names or len(set(names)) < len(names):
            raise StructureError(
                f"Affine2d needs one or more different names among {', '.join(AFFINE_NAMES)}; {names!r} came. "
                "Pass a tuple, each name once."
            )
        self.names, self.units = tuple(names), tuple(UNITS.get(name, "") for name in names)
        self.padding = padding
        # Constants of the algebra: they follow the module to a device, but are no state to save.
        self.register_buffer("generators", affine_generators(names, dtype=torch.get_default_dtype()), persistent=False)
        self.register_buffer("angular", torch.tensor([n == "rotation" for n in names]), persistent=False)
        widths = torch.full((len(names),), float(initial_width))
        self.raw_widths = nn.Parameter(raw_from_widths(widths, self.angular))

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Widths w ≥ 0 of the generators, in the order of `names`, in the units of `units`."""
        return widths_from_raw(self.raw_widths, self.angular)

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Independent noise ε in [−1, 1) per datum, sample and generator; sample s is the same whatever S."""
        shape = (num_samples, len(self.names))
        noise = uniform(seed, index, shape, stream=Stream.AUGMENTATION, dtype=self.raw_widths.dtype)
        return 2 * noise - 1

    # The word of the public contract; it hides Module.apply(fn), which would have no submodule to visit.
    def apply(  # type: ignore[override]
        self, x: Tensor, noise: Float[Tensor, "N S K"]
    ) -> Float[Tensor, "N S C H W"]:
        """Transformed copies of images x of shape (N, C, H, W); T maps output to input coordinates."""
        if x.ndim != 4:
            raise ShapeError(f"Affine2d acts on images (N, C, H, W); {tuple(x.shape)} came. Reshape x to images.")
        coefficients = noise.to(x) * self.widths.to(x)
        algebra = torch.einsum("nsk,kij->nsij", coefficients, self.generators.to(x))
        matrices = exponential(to_normalised(algebra, x.shape[-2], x.shape[-1]))
        return warp_normalised(x, matrices, self.padding)

    def extra_repr(self) -> str:
        """Widths by name, for `print`."""
        widths = ", ".join(f"{n}={w:.3g}" for n, w in zip(self.names, self.widths.tolist(), strict=True))
        return f"{widths}, padding={self.padding!r}"
