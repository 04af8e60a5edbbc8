"""Distributions over the colors of images."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from .protocol import require_images
from .uniform import InitialWidth, Kind, UniformWidths

KINDS = {
    "brightness": Kind("log-factor", "positive makes all values larger, by exp(amount)"),
    "contrast": Kind("log-factor", "positive moves values away from the mean of the image, by exp(amount)"),
    "saturation": Kind("log-factor", "positive moves colors away from gray, by exp(amount)"),
    "hue": Kind("radians of hue", "positive turns colors from red to green, green to blue, blue to red", angular=True),
}
COLOR_NAMES = tuple(KINDS)
_OF_COLOR = {"saturation", "hue"}
_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in the gray of a pixel (ITU-R BT.601)


class ColorJitter(UniformWidths):
    r"""Colors of images: brightness, contrast, saturation and hue, applied in this order.

    With coefficients c = w ε, x is multiplied by :math:`e^c` (brightness); moved away from the mean gray value of the
    image (contrast) or from the gray value of the pixel (saturation) by :math:`e^c`; and turned about the gray axis of
    RGB by the angle c (hue). Values are not clipped. Gray images have brightness and contrast only.

    Arguments:
        names: The transforms, by default all four of `COLOR_NAMES`.
        initial_width: The initial width of all, or one each as a sequence or by name; 0 is a stationary point.
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import ColorJitter
        >>> augment = ColorJitter(("brightness", "hue"), initial_width={"brightness": 0.3, "hue": 0.1})
        >>> noise = augment.sample_noise(torch.arange(2), num_samples=5, seed=0)
        >>> augment.transform(torch.rand(2, 3, 8, 8), noise).shape
        torch.Size([2, 5, 3, 8, 8])
    """

    def __init__(
        self, names: Sequence[str] = COLOR_NAMES, *, initial_width: InitialWidth = 0.05, sampler: str = "sobol"
    ) -> None:
        super().__init__(KINDS, names, initial_width, sampler)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C H W"]:
        """Transformed images x of shape (N, 3, H, W), or (N, 1, H, W) without color."""
        require_images(x)
        named = _OF_COLOR & set(self.names)
        if x.shape[1] not in (1, 3) or (named and x.shape[1] == 1):
            expected = f"(N, 3, H, W), as {' and '.join(sorted(named))} need colors" if named else "of 1 or 3 channels"
            raise ShapeError(
                f"Expected images {expected}, got {tuple(x.shape)}. Name brightness and contrast only for gray images."
            )
        amounts = {name: c[..., None, None, None] for name, c in self.by_name(noise.to(x)).items()}  # (N, S, 1, 1, 1)
        samples = x.unsqueeze(1).expand(-1, noise.shape[1], -1, -1, -1)
        if "brightness" in amounts:
            samples = samples * amounts["brightness"].exp()
        if "contrast" in amounts:
            mean = _gray(samples).mean((-2, -1), keepdim=True)
            samples = mean + (samples - mean) * amounts["contrast"].exp()
        if "saturation" in amounts:
            gray = _gray(samples)
            samples = gray + (samples - gray) * amounts["saturation"].exp()
        if "hue" in amounts:
            samples = torch.einsum("nscd,nsdhw->nschw", _hue_rotation(amounts["hue"][..., 0, 0, 0]), samples)
        return samples


def _gray(images: Float[Tensor, "*any C H W"]) -> Float[Tensor, "*any 1 H W"]:
    """Gray values; of one channel, the channel itself."""
    if images.shape[-3] == 1:
        return images
    return (images * images.new_tensor(_LUMA)[:, None, None]).sum(-3, keepdim=True)


def _hue_rotation(angles: Float[Tensor, "N S"]) -> Float[Tensor, "N S 3 3"]:
    """Rotations of RGB about the axis (1, 1, 1), by Rodrigues' formula; a third of a turn moves red to green."""
    root = 3**-0.5
    cross = angles.new_tensor([[0.0, -root, root], [root, 0.0, -root], [-root, root, 0.0]])
    mean = angles.new_full((3, 3), 1 / 3)
    cos, sin = angles.cos()[..., None, None], angles.sin()[..., None, None]
    return mean + cos * (torch.eye(3).to(angles) - mean) + sin * cross
