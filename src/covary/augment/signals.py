"""Distributions over transforms of signals of one axis: sound, sensors, sequences of numbers."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample

from ..errors import ShapeError
from .sampling import white_noise
from .uniform import InitialWidth, Kind, PaddedWidths

KINDS = {
    "shift": Kind("half-lengths", "positive moves content to the start by that many half-lengths"),
    "stretch": Kind("log-scale", "positive shrinks content about the center, by exp(-amount)"),
    "amplitude": Kind("log-factor", "positive makes all values larger, by exp(amount)"),
    "noise": Kind("standard deviation", "normal noise, independent for every value"),
}
SIGNAL_NAMES = tuple(KINDS)


class Signal1d(PaddedWidths):
    r"""Signals (N, C, T): shift and stretch along T, by linear interpolation, then amplitude, then noise.

    With coefficients c = w ε and times :math:`u \in [-1, 1]`, the value at u is that at
    :math:`e^{c_\text{stretch}} u + c_\text{shift}`, times :math:`e^{c_\text{amplitude}}`, plus w times normal numbers.

    Arguments:
        names: The transforms, by default all four of `SIGNAL_NAMES`.
        initial_width: The initial width of all, or one each as a sequence or by name; 0 is a stationary point.
        padding: The values outside of a signal: "zeros", "border" or "reflection".
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.

    Example:
        >>> import torch
        >>> from covary.augment import Signal1d
        >>> augment = Signal1d(("shift", "amplitude"), initial_width=0.2)
        >>> augment.transform(torch.rand(2, 1, 50), augment.sample_noise(torch.arange(2), 5, seed=0)).shape
        torch.Size([2, 5, 1, 50])
    """

    def __init__(
        self,
        names: Sequence[str] = SIGNAL_NAMES,
        *,
        initial_width: InitialWidth = 0.05,
        padding: str = "zeros",
        sampler: str = "sobol",
    ) -> None:
        super().__init__(KINDS, names, initial_width, padding, sampler)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C T"]:
        """Transformed signals x of shape (N, C, T)."""
        if x.ndim != 3:
            raise ShapeError(f"Expected signals (N, C, T), got {tuple(x.shape)}. Add a missing axis with [:, None].")
        amounts = self.by_name(noise.to(x))
        samples = x.unsqueeze(1).expand(-1, noise.shape[1], -1, -1)
        if {"shift", "stretch"} & amounts.keys():
            zero = noise.new_zeros(noise.shape[:2]).to(x)
            samples = self._resampled(x, amounts.get("stretch", zero).exp(), amounts.get("shift", zero))
        if "amplitude" in amounts:
            samples = samples * amounts["amplitude"][..., None, None].exp()
        if "noise" in amounts:
            own = self.names.index("noise")
            samples = samples + self.widths[own].to(x) * white_noise(noise[..., own], x.shape[1:]).to(x)
        return samples

    def _resampled(
        self, x: Float[Tensor, "N C T"], scale: Float[Tensor, "N S"], shift: Float[Tensor, "N S"]
    ) -> Float[Tensor, "N S C T"]:
        """Signals read at scale · u + shift: the samples of a datum are the rows of one grid."""
        length = x.shape[-1]
        centers = (2 * torch.arange(length, dtype=x.dtype, device=x.device) + 1) / length - 1
        times = scale[..., None] * centers + shift[..., None]  # (N, S, T)
        grid = torch.stack([times, torch.zeros_like(times)], dim=-1)
        read = grid_sample(x.unsqueeze(2), grid, mode="bilinear", padding_mode=self.padding, align_corners=False)
        return read.transpose(1, 2)
