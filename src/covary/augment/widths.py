"""Widths ≥ 0 from raw parameters: |raw|, and π tanh(|raw| / π) for angles.

With |raw| a step of the optimizer moves a width by as much, wherever it stands. An angle beyond π repeats itself, so
its width is capped there, smoothly: a clamp would kill its gradient.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import DataError, StructureError

InitialWidth = float | int | Mapping[str, float | int] | Sequence[float | int]


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


def initial_values(names: Sequence[str], given: InitialWidth) -> Float[Tensor, "K"]:
    """One value per name: the same for all, or one each in the order of `names`, or by name."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise StructureError(
                f"Values by name must be those of {', '.join(names)}; {', '.join(given) or 'none'} came. "
                "Give each name one value, and leave names out of the distribution that should not move."
            )
        values = [given[name] for name in names]
    elif isinstance(given, Sequence):
        values = list(given)
    else:
        values = [given] * len(names)
    if len(values) != len(names):
        raise StructureError(
            f"One value per name is needed, in the order {', '.join(names)}; {len(values)} came. Give {len(names)}."
        )
    return torch.tensor([float(value) for value in values])
