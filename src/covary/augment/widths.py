"""Widths ≥ 0 from raw parameters: |raw|, and π tanh(|raw| / π) for angles.

With |raw| a step of the optimiser moves a width by as much, wherever it stands. An angle beyond π repeats itself, so
its width is capped there, smoothly: a clamp would kill its gradient.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .._errors import DataError

__all__ = ["raw_from_widths", "widths_from_raw"]


def widths_from_raw(raw: Float[Tensor, "K"], angular: Bool[Tensor, "K"]) -> Float[Tensor, "K"]:
    r"""Widths :math:`|r|`, and :math:`\pi \tanh(|r| / \pi)` where angular."""
    return torch.where(angular, math.pi * (raw.abs() / math.pi).tanh(), raw.abs())


def raw_from_widths(widths: Float[Tensor, "K"], angular: Bool[Tensor, "K"]) -> Float[Tensor, "K"]:
    """Raw parameters ≥ 0 of widths; an error where there are none."""
    reachable = widths.isfinite() & (widths >= 0) & (~angular | (widths < math.pi))
    if not reachable.all():
        raise DataError(
            f"A width must be finite and ≥ 0, of a rotation below π; {float(widths[~reachable][0]):g} came. "
            "Start small and positive, such as 0.05."
        )
    return torch.where(angular, math.pi * (widths / math.pi).atanh(), widths)
