r"""Widths of named transforms, and what distributions with independent uniform coefficients have in common.

Widths are :math:`|r|` of a raw parameter r, and :math:`\pi \tanh(|r| / \pi)` of an angle: a width beyond π repeats
itself, and a clamp would have no gradient.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .._text import require_choice
from ..errors import DataError, StructureError
from ..groups.affine import check_padding
from .sampling import SAMPLERS, check_sampler

Limits = dict[str, tuple[float, float]]  # by name
InitialWidth = float | int | Mapping[str, float | int] | Sequence[float | int]


class Kind(NamedTuple):
    """A transform: the unit of its width, what a positive amount does, and whether it is an angle."""

    unit: str
    sign: str
    angular: bool = False


class UniformWidths(nn.Module):
    r"""Abstract distribution with coefficients :math:`c_i = w_i \epsilon_i`, :math:`\epsilon_i \sim U[-1, 1)`.

    Arguments:
        kinds: The transforms that there are, by name.
        names: The names of those that are learned.
        initial_width: The initial width of all, or one each as a sequence or by name; 0 is a stationary point.
        sampler: How noise is sampled: "sobol", evenly over the samples of a datum, or "random", independently.
    """

    hyperparameters = ("raw_widths",)
    angular: Tensor

    def __init__(
        self, kinds: Mapping[str, Kind], names: Sequence[str], initial_width: InitialWidth, sampler: str
    ) -> None:
        super().__init__()
        if isinstance(names, str) or not names or len(set(names)) < len(names):
            advice = f"Pass a tuple: ({names!r},)." if isinstance(names, str) else "Name each once."
            raise StructureError(
                f"Expected one or more different names among {', '.join(kinds)}, got {names!r}. {advice}"
            )
        for name in names:
            require_choice("names", name, kinds)
        self.names, self.sampler = tuple(names), check_sampler(sampler)
        self.units, self.signs = tuple(kinds[n].unit for n in names), tuple(kinds[n].sign for n in names)
        self.register_buffer("angular", torch.tensor([kinds[n].angular for n in names]), persistent=False)
        self.limits: Limits = {}
        self.raw_widths = nn.Parameter(raw_from_widths(initial_values(self.names, initial_width), self.angular))

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Widths w ≥ 0 of the transforms, in the order of `names`, in the units of `units`."""
        return widths_from_raw(self.raw_widths, self.angular, self.ends())

    def ends(self) -> Float[Tensor, "K 2"] | None:
        """Limits of the widths, infinite where there is none; None without limits."""
        if not self.limits:
            return None
        return self.raw_widths.new_tensor([self.limits.get(name, (0.0, math.inf)) for name in self.names])

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Noise ε in [−1, 1) per datum, sample and transform."""
        return SAMPLERS[self.sampler](seed, index, num_samples, len(self.names), self.raw_widths.dtype)

    def transform(self, x: Float[Tensor, "N ..."], noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S ..."]:
        """Transformed samples of each datum; every distribution has its own."""
        raise NotImplementedError

    def coefficients(self, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S K"]:
        """Coefficients c = w ε of the transforms, in the units of `units`."""
        return noise * self.widths.to(noise)

    def by_name(self, noise: Float[Tensor, "N S K"]) -> dict[str, Float[Tensor, "N S"]]:
        """Coefficients c = w ε by name."""
        return dict(zip(self.names, self.coefficients(noise).unbind(-1), strict=True))

    def extra_repr(self) -> str:
        """Widths by name, for `print`."""
        widths = ", ".join(f"{n}={w:.3g}" for n, w in zip(self.names, self.widths.tolist(), strict=True))
        return f"{widths}, sampler={self.sampler!r}" + (f", limits={self.limits}" if self.limits else "")


class PaddedWidths(UniformWidths):
    """Abstract distribution of transforms that move positions, with values outside of the data."""

    def __init__(
        self, kinds: Mapping[str, Kind], names: Sequence[str], initial_width: InitialWidth, padding: str, sampler: str
    ) -> None:
        super().__init__(kinds, names, initial_width, sampler)
        self.padding = check_padding(padding)

    def extra_repr(self) -> str:
        """Widths by name, for `print`."""
        return super().extra_repr().replace("sampler=", f"padding={self.padding!r}, sampler=")


def widths_from_raw(
    raw: Float[Tensor, "K"], angular: Bool[Tensor, "K"], ends: Float[Tensor, "K 2"] | None = None
) -> Float[Tensor, "K"]:
    r"""Widths :math:`|r|`, and :math:`\pi \tanh(|r| / \pi)` where angular, clamped to limits, if there are any.

    The gradient is that without limits: a width that is held at one can leave it again.
    """
    free = torch.where(angular, math.pi * (raw.abs() / math.pi).tanh(), raw.abs())
    if ends is None:
        return free
    clamped = free.detach().maximum(ends[:, 0]).minimum(ends[:, 1])
    return clamped + (free - free.detach())


def raw_from_widths(widths: Float[Tensor, "K"], angular: Bool[Tensor, "K"]) -> Float[Tensor, "K"]:
    """Raw parameters ≥ 0 of widths, the inverse of `widths_from_raw` without limits."""
    reachable = widths.isfinite() & (widths >= 0) & (~angular | (widths < math.pi))
    if not reachable.all():
        raise DataError(
            f"Expected a width that is finite and ≥ 0, of a rotation below π, got {float(widths[~reachable][0]):g}. "
            "Start small and positive, such as 0.05."
        )
    return torch.where(angular, math.pi * (widths / math.pi).atanh(), widths)


def initial_values(names: Sequence[str], given: InitialWidth) -> Float[Tensor, "K"]:
    """One value per name: the same for all, or one each in the order of `names`, or by name."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise StructureError(
                f"Expected one value for each of {', '.join(names)}, got {', '.join(given) or 'none'}. "
                "Leave names out of the distribution that should not be transformed."
            )
        values = [given[name] for name in names]
    elif isinstance(given, Sequence):
        values = list(given)
    else:
        values = [given] * len(names)
    if len(values) != len(names):
        raise StructureError(
            f"Expected {len(names)} values, one per name in the order {', '.join(names)}, got {len(values)}."
        )
    return torch.tensor([float(value) for value in values])
