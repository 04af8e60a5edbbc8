"""Gaussian priors per parameter group: which parameters are weights, their precisions, their log-density.

Layout: a weight keeps its own shape; a shift is the precision δ of its entries, 0-d or (numel,). Sign: log-density,
higher is better, summed over weights.
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ._types import Weights
from .errors import DataError, StructureError

Patterns = str | Sequence[str]


def weights_of(network: nn.Module) -> dict[str, nn.Parameter]:
    """Weights of a network: its parameters with `requires_grad`, each once, except hyperparameters."""
    return {name: parameter for name, parameter in unmarked_of(network).items() if parameter.requires_grad}


def unmarked_of(network: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters of a network, frozen ones included, each once, except hyperparameters.

    A module marks its hyperparameters by an attribute `hyperparameters`: a tuple with names of its own parameters, or
    of child modules all of whose parameters are hyperparameters.
    """
    marked = {id(parameter) for module in network.modules() for parameter in _marked(module)}
    return {name: parameter for name, parameter in network.named_parameters() if id(parameter) not in marked}


def hyperparameters_of(network: nn.Module, weights: Weights) -> dict[str, nn.Parameter]:
    """Hyperparameters of a network: every parameter with `requires_grad` that is not among its weights."""
    return {n: p for n, p in network.named_parameters() if p.requires_grad and n not in weights}


class Prior(nn.Module):
    r"""Gaussian prior :math:`\theta_p \sim \mathcal N(0, 1 / \delta_{g(p)})`, one precision per group g.

    Precisions are positive by construction, :math:`\delta = \exp(d)` with d the parameter `log_precision`. The prior
    stores names and shapes, not the network.

    Arguments:
        network: The network whose weights it covers; their dtype and device (of the first) are the prior's.
        structure: "scalar" (one group), "layerwise" (one per tensor), "diagonal" (one per entry), or a mapping from
            group names to fnmatch patterns over parameter names, where the first match wins.
        precision: The initial :math:`\delta > 0`, one for all, or per pattern, where the first match wins.
        exclude: Patterns of parameters that are not weights: absent from prior and curvature.

    Example:
        >>> from torch import nn
        >>> from covary import Prior
        >>> Prior(nn.Linear(3, 2), precision={"weight": 2.0, "*": 1.0})
        Prior(structure='layerwise', num_groups=2, num_params=8)
        >>> Prior(nn.Linear(3, 2), "scalar", exclude="bias").names
        ('weight',)
    """

    names: tuple[str, ...]  # covered parameters, in the order of `named_parameters`
    groups: tuple[str, ...]  # groups in the order of `log_precision`; with "diagonal", the tensors it is split into
    num_params: int

    def __init__(
        self,
        network: nn.Module,
        structure: str | Mapping[str, Patterns] = "layerwise",
        precision: float | Mapping[str, float] = 1.0,
        *,
        exclude: Patterns = (),
    ) -> None:
        super().__init__()
        self.exclude = _as_patterns(exclude)
        weights = _without(weights_of(network), self.exclude)
        self._shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        self.names, self.num_params = tuple(weights), sum(weight.numel() for weight in weights.values())
        self.structure = structure.value if isinstance(structure, Enum) else structure
        self._group_of = _assign(self.names, self.structure)
        order = self.structure if isinstance(self.structure, Mapping) else self._group_of.values()
        self.groups = tuple(dict.fromkeys(order))
        self._place = self._places()
        first = next(iter(weights.values()))
        self.log_precision = nn.Parameter(self._initial(precision).to(first))

    @property
    def precision(self) -> Float[Tensor, "num_groups"]:
        """Precisions δ > 0, one per group."""
        return self.log_precision.exp()

    def weights(self, network: nn.Module) -> dict[str, nn.Parameter]:
        """Weights of the network that this prior covers, in the order of `names`.

        Raises `StructureError` if the prior was made for a network with other parameters.
        """
        covered = {n: p for n, p in weights_of(network).items() if not _matches(n, self.exclude)}
        found = {name: tuple(weight.shape) for name, weight in covered.items()}
        for name in [*self._shapes, *found]:
            if self._shapes.get(name) != found.get(name):
                raise StructureError(
                    f"This prior was made for another network: expected parameter '{name}' of shape "
                    f"{self._shapes.get(name)}, got {found.get(name)} (None: not a weight). Make a new Prior(network)."
                )
        return {name: covered[name] for name in self.names}

    def shifts(self) -> dict[str, Tensor]:
        """Precision δ of each covered tensor, differentiable: 0-d, or (numel,) with structure "diagonal"."""
        precision = self.precision
        return {name: precision[place] for name, place in self._place.items()}

    def log_density(self, weights: Weights) -> Float[Tensor, ""]:
        r"""Log-density :math:`\frac12 \sum_p (\log \delta_p - \delta_p \theta_p^2 - \log 2\pi)`, a sum."""
        # in float64: the constant of a million weights would round away the differences by which models are compared
        total = torch.tensor(-0.5 * self.num_params * math.log(2 * math.pi), dtype=torch.float64).to(
            self.log_precision.device
        )
        for name, place in self._place.items():
            weight, log_precision = weights[name].flatten(), self.log_precision[place]
            repeats = weight.numel() // max(log_precision.numel(), 1)
            energy = (log_precision.exp() * weight.square()).sum()
            total = total + 0.5 * (repeats * log_precision.sum() - energy)
        return total

    def group_of(self, name: str) -> str:
        """Group that a covered parameter belongs to; with "diagonal", its own name."""
        if name not in self._group_of:
            raise StructureError(
                f"Expected a parameter that this prior covers, got '{name}'. Choose one of {', '.join(self.names)}."
            )
        return self._group_of[name]

    def extra_repr(self) -> str:
        """Structure and sizes, for `print`."""
        structure = self.structure if isinstance(self.structure, str) else dict(self.structure)
        excluded = f", exclude={self.exclude}" if self.exclude else ""
        return f"structure={structure!r}, num_groups={len(self.log_precision)}, num_params={self.num_params}{excluded}"

    def _places(self) -> dict[str, int | slice]:
        """The entries of `log_precision` that belong to each tensor."""
        if self.structure != "diagonal":
            return {name: self.groups.index(group) for name, group in self._group_of.items()}
        places: dict[str, int | slice] = {}
        start = 0
        for name, shape in self._shapes.items():
            places[name] = slice(start, start + math.prod(shape))
            start += math.prod(shape)
        return places

    def _initial(self, precision: float | Mapping[str, float]) -> Float[Tensor, "num_groups"]:
        """Initial log-precision of every group, in float64."""
        values = _initial_precisions(self.names, precision)
        num_groups = self.num_params if self.structure == "diagonal" else len(self.groups)
        initial = torch.full((num_groups,), math.nan, dtype=torch.float64)
        for name, value in values.items():
            place = self._place[name]
            if isinstance(place, int) and not initial[place].isnan() and initial[place] != math.log(value):
                raise StructureError(
                    f"Expected one precision for group '{self._group_of[name]}', got {value} for '{name}' and "
                    f"{initial[place].exp():g} for another of its parameters. Pass the same for all, or use "
                    "structure='layerwise'."
                )
            initial[place] = math.log(value)
        return initial


def mean_precisions(prior: Prior) -> dict[str, float]:
    """The precision of each tensor, by name; the geometric mean if a tensor has several."""
    return {name: float(shift.detach().double().log().mean().exp()) for name, shift in prior.shifts().items()}


def _marked(module: nn.Module) -> list[nn.Parameter]:
    """Parameters that a module marks as hyperparameters, its own and those of marked children."""
    names = getattr(module, "hyperparameters", ())
    members = {**module._parameters, **module._modules}
    parameters: list[nn.Parameter] = []
    for name in [names] if isinstance(names, str) else names:
        if name not in members or isinstance(names, str):
            raise StructureError(
                f"{type(module).__name__}.hyperparameters must be a tuple with names of its own parameters or child "
                f"modules ({', '.join(members) or 'it has none'}), got {names!r}. Correct the tuple."
            )
        member = members[name]
        if member is not None:
            parameters += [member] if isinstance(member, nn.Parameter) else [*member.parameters()]
    return parameters


def _as_patterns(patterns: Patterns) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _check_used(names: Sequence[str], patterns: Sequence[str], role: str) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise StructureError(
                f"Expected a pattern of {role} that matches a parameter, got '{pattern}'; the parameters are "
                f"{', '.join(names)}. Correct it or remove it."
            )


def _without(weights: dict[str, nn.Parameter], exclude: Sequence[str]) -> dict[str, nn.Parameter]:
    """Weights that no pattern of `exclude` matches; at least one."""
    _check_used(tuple(weights), exclude, "exclude")
    covered = {name: weight for name, weight in weights.items() if not _matches(name, exclude)}
    if not covered:
        raise StructureError(
            "Expected at least one weight, got a network without a parameter that has requires_grad and is neither a "
            "hyperparameter nor excluded. Unfreeze a parameter or exclude fewer."
        )
    return covered


def _assign(names: Sequence[str], structure: str | Mapping[str, Patterns]) -> dict[str, str]:
    """Group of each parameter."""
    if isinstance(structure, Mapping):
        return _assign_by_pattern(names, {group: _as_patterns(p) for group, p in structure.items()})
    if structure == "scalar":
        return dict.fromkeys(names, "all")
    if structure in ("layerwise", "diagonal"):
        return {name: name for name in names}
    raise StructureError(
        f"Prior structure must be 'scalar', 'layerwise', 'diagonal' or a mapping from group names to patterns, got "
        f"{structure!r}. Choose one of these."
    )


def _assign_by_pattern(names: Sequence[str], groups: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    for group, patterns in groups.items():
        _check_used(names, patterns, f"group '{group}'")
    assigned = {n: next((g for g, patterns in groups.items() if _matches(n, patterns)), None) for n in names}
    for name, found in assigned.items():
        if found is None:
            raise StructureError(
                f"Expected a group of the prior ({', '.join(groups)}) for parameter '{name}', but no pattern matches. "
                "Add a pattern, such as a last group with '*', or exclude the parameter."
            )
    for group in groups:
        if group not in assigned.values():
            raise StructureError(
                f"Expected a parameter in group '{group}' of the prior, but earlier groups match all its parameters. "
                "Put it before them."
            )
    return {name: group for name, group in assigned.items() if group is not None}


def _initial_precisions(names: Sequence[str], precision: float | Mapping[str, float]) -> dict[str, float]:
    """Initial precision of each parameter, checked."""
    table = precision if isinstance(precision, Mapping) else {"*": precision}
    for pattern, value in table.items():
        if not (math.isfinite(value) and value > 0):
            raise DataError(
                f"Prior precision must be finite and above 0, got {value} for '{pattern}'. Pass a positive number."
            )
    _check_used(names, tuple(table), "precision")
    found = {n: next((v for pattern, v in table.items() if fnmatchcase(n, pattern)), None) for n in names}
    for name in names:
        if found[name] is None:
            raise StructureError(
                f"Expected a precision for parameter '{name}', but no pattern matches. Add one, such as '*'."
            )
    return {name: float(value) for name, value in found.items() if value is not None}
