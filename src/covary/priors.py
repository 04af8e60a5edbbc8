"""Gaussian priors per parameter group: the role of each parameter, precisions, log-density.

A parameter with `requires_grad` has one of three roles: *integrated* (a weight with a learned prior precision and a
curvature), *point* (a weight with a fixed precision, trained like the others and held fixed in the evidence), or
*hyperparameter* (learned by the evidence). One without `requires_grad` is *frozen*.

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
from torch.nn.parameter import is_lazy

from ._types import WITHOUT_FLOAT64, Weights
from .errors import DataError, StructureError

Patterns = str | Sequence[str]
Split = tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]  # integrated weights and point weights


def weights_of(network: nn.Module) -> dict[str, nn.Parameter]:
    """Weights of a network: its parameters with `requires_grad`, each once, except hyperparameters."""
    return {name: parameter for name, parameter in unmarked_of(network).items() if parameter.requires_grad}


def unmarked_of(network: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters of a network, frozen ones included, each once, except hyperparameters.

    A module marks its hyperparameters by an attribute `hyperparameters`: a tuple with names of its own parameters, or
    of child modules all of whose parameters are hyperparameters.
    """
    if lazy := [name for name, parameter in network.named_parameters() if is_lazy(parameter)]:
        raise StructureError(
            f"Expected weights that have a shape, got '{lazy[0]}' of a lazy module that was not called yet. Call the "
            "network once with a batch, network(x), before you pass it on."
        )
    if small := [n for n, p in network.named_parameters() if p.requires_grad and p.dtype.itemsize < 4]:
        raise StructureError(
            f"Expected weights in float32 or float64, got '{small[0]}' in half precision. Call network.float(); "
            "weights.precision='bf16' trains in bfloat16."
        )
    marked = {id(parameter) for module in network.modules() for parameter in _marked(module)}
    return {name: parameter for name, parameter in network.named_parameters() if id(parameter) not in marked}


def hyperparameters_of(network: nn.Module, weights: Weights) -> dict[str, nn.Parameter]:
    """Hyperparameters of a network: every parameter with `requires_grad` that is not among these weights."""
    return {n: p for n, p in network.named_parameters() if p.requires_grad and n not in weights}


class Prior(nn.Module):
    r"""Gaussian prior :math:`\theta_p \sim \mathcal N(0, 1 / \delta_{g(p)})`, one precision per group g.

    Precisions are positive by construction, :math:`\delta = \exp(d)` with d the parameter `log_precision`. The prior
    stores names and shapes, not the network.

    It gives each parameter its role. Weights are integrated by default. A *point* weight is trained on the log joint as
    they are, with a fixed precision (a weight decay of precision / N), and held fixed in the evidence: it has no
    curvature. A *hyperparameter* is trained by the evidence alone.

    Arguments:
        network: The network whose weights it covers; their dtype and device (of the first) are the prior's.
        structure: "scalar" (one group), "layerwise" (one per tensor), "diagonal" (one per entry), or a mapping from
            group names to fnmatch patterns over parameter names, where the first match wins.
        precision: The initial :math:`\delta > 0`, one for all, or per pattern, where the first match wins; that of a
            point weight stays.
        point: Patterns of parameters that are point weights.
        hyperparameters: Patterns of parameters that are hyperparameters.

    Example:
        >>> from torch import nn
        >>> from covary import Prior
        >>> Prior(nn.Linear(3, 2), precision={"weight": 2.0, "*": 1.0})
        Prior(structure='layerwise', num_groups=2, num_params=8)
        >>> prior = Prior(nn.Linear(3, 2), "scalar", point="bias")
        >>> prior.names, prior.point_names
        (('weight',), ('bias',))
    """

    names: tuple[str, ...]  # integrated weights, in the order of `named_parameters`
    point_names: tuple[str, ...]  # point weights, in that order
    groups: tuple[str, ...]  # groups in the order of `log_precision`; with "diagonal", the tensors it is split into
    num_params: int
    point_precision: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        structure: str | Mapping[str, Patterns] = "layerwise",
        precision: float | Mapping[str, float] = 1.0,
        *,
        point: Patterns = (),
        hyperparameters: Patterns = (),
    ) -> None:
        super().__init__()
        self.patterns: dict[str, tuple[str, ...]] = {
            "point": _as_patterns(point),
            "hyperparameters": _as_patterns(hyperparameters),
        }
        weights, points = _split(weights_of(network), self.patterns)
        self._shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
        self._point_shapes = {name: tuple(weight.shape) for name, weight in points.items()}
        self.names, self.num_params = tuple(weights), sum(weight.numel() for weight in weights.values())
        self.point_names = tuple(points)
        self.structure = structure.value if isinstance(structure, Enum) else structure
        self._group_of = _assign(self.names, self.structure)
        order = self.structure if isinstance(self.structure, Mapping) else self._group_of.values()
        self.groups = tuple(dict.fromkeys(order))
        self._place = self._places()
        first = next(iter(weights.values()))
        precisions = _initial_precisions((*self.names, *self.point_names), precision)
        self.log_precision = nn.Parameter(self._initial(precisions).to(first))
        fixed = torch.tensor([precisions[name] for name in self.point_names], dtype=torch.float64).to(first)
        self.register_buffer("point_precision", fixed if points else None)

    @property
    def precision(self) -> Float[Tensor, "num_groups"]:
        """Precisions δ > 0, one per group."""
        return self.log_precision.exp()

    def weights(self, network: nn.Module) -> dict[str, nn.Parameter]:
        """Integrated weights of the network, in the order of `names`.

        Raises `StructureError` if the prior was made for a network with other parameters.
        """
        return self._checked(network)[0]

    def point_weights(self, network: nn.Module) -> dict[str, nn.Parameter]:
        """Point weights of the network, in the order of `point_names`; raises as `weights` does."""
        return self._checked(network)[1]

    def _checked(self, network: nn.Module) -> Split:
        """Integrated and point weights of a network that has the parameters this prior was made for."""
        split = _split_names(weights_of(network), self.patterns)
        for expected, covered in zip((self._shapes, self._point_shapes), split, strict=True):
            found = {name: tuple(weight.shape) for name, weight in covered.items()}
            for name in [*expected, *found]:
                if expected.get(name) != found.get(name):
                    raise StructureError(
                        f"This prior was made for another network: expected parameter '{name}' of shape "
                        f"{expected.get(name)}, got {found.get(name)} (None: not a weight). Make a new Prior(network)."
                    )
        for name, weight in split[0].items():
            if weight.device.type in WITHOUT_FLOAT64:
                raise StructureError(
                    f"Parameter '{name}' is on '{weight.device.type}', which has no float64, and the evidence is "
                    "computed in it. Move the network to the CPU; covary.fit(..., device='mps') takes weight steps on "
                    "the GPU and computes the rest on the CPU."
                )
            if weight.device != self.log_precision.device:
                raise StructureError(
                    f"Parameter '{name}' is on {weight.device} and its prior on {self.log_precision.device}. Move "
                    "network and prior to one device; covary.fit(..., device=...) does."
                )
        return split

    def shifts(self) -> dict[str, Tensor]:
        """Precision δ of each integrated weight, differentiable: 0-d, or (numel,) with structure "diagonal"."""
        precision = self.precision
        return {name: precision[place] for name, place in self._place.items()}

    def trained_shifts(self) -> dict[str, Tensor]:
        """Precision δ of each weight that is trained: as `shifts`, and the fixed ones of point weights, 0-d."""
        fixed = () if self.point_precision is None else self.point_precision
        return self.shifts() | dict(zip(self.point_names, fixed, strict=True))

    def log_density(self, weights: Weights) -> Float[Tensor, ""]:
        r"""Sum :math:`\frac12 \sum_p (\log \delta_p - \delta_p \theta_p^2 - \log 2\pi)` over integrated weights."""
        # in float64: the constant of a million weights would round away the differences by which models are compared
        constant = -0.5 * self.num_params * math.log(2 * math.pi)
        total = torch.tensor(constant, dtype=torch.float64, device=self.log_precision.device)
        for name, place in self._place.items():
            weight, log_precision = weights[name].flatten(), self.log_precision[place]
            repeats = weight.numel() // max(log_precision.numel(), 1)
            energy = (log_precision.exp() * weight.square()).sum()
            total = total + 0.5 * (repeats * log_precision.sum() - energy)
        return total

    def group_of(self, name: str) -> str:
        """Group that an integrated weight belongs to; with "diagonal", its own name."""
        if name not in self._group_of:
            raise StructureError(
                f"Expected a parameter that this prior covers, got '{name}'. Choose one of {', '.join(self.names)}."
            )
        return self._group_of[name]

    def extra_repr(self) -> str:
        """Structure and sizes, for `print`."""
        structure = self.structure if isinstance(self.structure, str) else dict(self.structure)
        roles = "".join(f", {role}={patterns}" for role, patterns in self.patterns.items() if patterns)
        return f"structure={structure!r}, num_groups={len(self.log_precision)}, num_params={self.num_params}{roles}"

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

    def _initial(self, precisions: Mapping[str, float]) -> Float[Tensor, "num_groups"]:
        """Initial log-precision of every group, in float64."""
        values = {name: precisions[name] for name in self.names}
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
    """The precision of each trained weight, by name; the geometric mean if a tensor has several."""
    return {name: float(shift.detach().double().log().mean().exp()) for name, shift in prior.trained_shifts().items()}


def matching_patterns(prior: Prior, network: nn.Module) -> dict[str, list[str]]:
    """The patterns of `point` and `hyperparameters` that match a weight of another network."""
    names = list(weights_of(network))
    return {
        role: [pattern for pattern in patterns if any(fnmatchcase(name, pattern) for name in names)]
        for role, patterns in prior.patterns.items()
    }


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


def _split(weights: dict[str, nn.Parameter], patterns: Mapping[str, Sequence[str]]) -> Split:
    """Integrated and point weights, at least one of the former; every pattern matches, and none contradicts another."""
    for role, given in patterns.items():
        _check_used(tuple(weights), given, role)
    for name in weights:
        if all(_matches(name, given) for given in patterns.values()):
            raise StructureError(
                f"Expected one role for parameter '{name}', but patterns of point and of hyperparameters match it. "
                "Remove one of them."
            )
    integrated, points = _split_names(weights, patterns)
    if not integrated:
        raise StructureError(
            "Expected at least one integrated weight, got a network without a parameter that has requires_grad and is "
            "neither a hyperparameter nor a point weight. Unfreeze a parameter, or name fewer in point and "
            "hyperparameters."
        )
    return integrated, points


def _split_names(weights: dict[str, nn.Parameter], patterns: Mapping[str, Sequence[str]]) -> Split:
    points = {name: weight for name, weight in weights.items() if _matches(name, patterns["point"])}
    others = {*points, *(name for name in weights if _matches(name, patterns["hyperparameters"]))}
    return {name: weight for name, weight in weights.items() if name not in others}, points


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
                "Add a pattern, such as a last group with '*'."
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
