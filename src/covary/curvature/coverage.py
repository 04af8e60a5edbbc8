"""The curvature rule and the structure of the curvature block of each weight."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import nn

from ..errors import UnsupportedLayerError
from ..priors import weights_of
from .rules import Form, rule_for

Structure = Literal["kron", "dense", "diagonal"]
DENSE_LIMIT = 2048  # entries of a small parameter up to which its exact block is kept dense
BATCH_STATISTICS = (nn.modules.batchnorm._BatchNorm,)
RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)
WITH_DROPOUT = (nn.MultiheadAttention, nn.RNNBase)  # have a probability of dropout of their own


class Use(NamedTuple):
    """A module that holds a weight, the name of the parameter in it, and the form of its rule; None without a rule."""

    module_name: str
    module: nn.Module
    parameter: str
    form: Form | None


@dataclass(frozen=True)
class CoverageRow:
    """One weight of a network: its module, the structure of its block in the curvature "kron", and its rule.

    `by_autograd` says that its module has no rule for it, and that its Jacobian products are computed by autograd.

    Example:
        >>> from torch import nn
        >>> from covary.curvature import coverage
        >>> coverage(nn.PReLU()).rows[0]
        CoverageRow(name='weight', shape=(1,), modules='PReLU', structure='dense', by_autograd=True)
    """

    name: str
    shape: tuple[int, ...]
    modules: str
    structure: Structure
    by_autograd: bool


@dataclass(frozen=True)
class Coverage:
    """The table of the weights of a network, for `print`.

    Example:
        >>> from torch import nn
        >>> from covary.curvature import coverage
        >>> [row.name for row in coverage(nn.Sequential(nn.Linear(3, 2), nn.PReLU())).by_autograd]
        ['1.weight']
    """

    rows: tuple[CoverageRow, ...]

    @property
    def by_autograd(self) -> tuple[CoverageRow, ...]:
        """The weights without a rule of their own."""
        return tuple(row for row in self.rows if row.by_autograd)

    @property
    def cost(self) -> str:
        """What the weights without a rule of their own cost, in one line; empty if there are none."""
        if not self.by_autograd:
            return ""
        entries = sum(math.prod(row.shape) for row in self.by_autograd)
        return (
            f"Weights without a rule are covered by autograd ({len(self.by_autograd)} of {len(self.rows)}): their "
            f"products are exact, each pass costs a second forward and backward pass and {entries:,} numbers per datum."
        )

    def __str__(self) -> str:
        """The table as text, one weight per line, and the cost of weights without a rule."""
        cells = [("parameter", "shape", "module", "structure", "rule")]
        for row in self.rows:
            shape = "×".join(map(str, row.shape)) or "1"
            cells.append((row.name, shape, row.modules, row.structure, "autograd" if row.by_autograd else "layer"))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        return "\n".join(filter(None, [*lines, self.cost]))


def coverage(network: nn.Module, weights: Iterable[str] | None = None) -> Coverage:
    """The table of weights, their modules, the structure of their curvature blocks and their rules.

    Arguments:
        network: The network.
        weights: Names of the weights to show; all of them by default.

    Example:
        >>> from torch import nn
        >>> from covary.curvature import coverage
        >>> print(coverage(nn.Linear(3, 2)))
        parameter  shape  module  structure  rule
        weight     2×3    Linear  kron       layer
        bias       2      Linear  dense      layer
    """
    selected = select_weights(network, weights)
    rows = []
    for name, uses in find_uses(network, selected).items():
        types = " + ".join(dict.fromkeys(type(use.module).__name__ for use in uses))
        weight = selected[name]
        rows.append(CoverageRow(name, tuple(weight.shape), types, structure_of(weight, uses), is_by_autograd(uses)))
    return Coverage(tuple(rows))


def select_weights(network: nn.Module, names: Iterable[str] | None) -> dict[str, nn.Parameter]:
    """The weights with these names, in the order of the network; all weights for None."""
    available = weights_of(network)
    if names is None:
        return available
    names = set(names)
    unknown = sorted(names - set(available))
    if unknown:
        raise UnsupportedLayerError(
            f"Expected names of weights of {type(network).__name__}, got '{unknown[0]}'. Choose from "
            f"{', '.join(available)}; a weight has requires_grad and is not marked as a hyperparameter."
        )
    return {name: weight for name, weight in available.items() if name in names}


def find_uses(network: nn.Module, weights: Mapping[str, nn.Parameter]) -> dict[str, list[Use]]:
    """Every module that holds each weight, tied ones included.

    A module with an attribute `by_autograd = True` has no rule, nor have the modules inside it.
    """
    names = {id(weight): name for name, weight in weights.items()}
    uses: dict[str, list[Use]] = {name: [] for name in weights}
    marked = [name for name, module in network.named_modules() if getattr(module, "by_autograd", False)]
    of_parents: set[str] = set()  # parameters of parametrizations, which the rule of the module around them covers
    for module_name, module in network.named_modules():
        inside = any(not name or f"{module_name}.".startswith(f"{name}.") for name in marked)
        rule = None if inside else rule_for(module)
        nested = [] if rule is None else [local for local in rule.forms if "." in local]
        held = {**module._parameters, **{local: module.get_parameter(local) for local in nested}}
        for local, parameter in held.items():
            path = f"{module_name}.{local}".lstrip(".")
            if parameter is not None and id(parameter) in names and path not in of_parents:
                form = None if rule is None else rule.forms.get(local)
                uses[names[id(parameter)]].append(Use(module_name, module, local, form))
        of_parents |= {f"{module_name}.{local}".lstrip(".") for local in nested}
    return uses


def is_by_autograd(uses: list[Use]) -> bool:
    """Whether one of the modules that hold a weight has no rule for it."""
    return any(use.form is None for use in uses)


def structure_of(weight: nn.Parameter, uses: list[Use]) -> Structure:
    """The structure of a weight's block; without a rule, or shared by layers of different form, it is exact."""
    forms = {use.form for use in uses}
    if forms <= {"kron"} or forms <= {"kron_rows"}:
        return "kron"
    if forms <= {"dense"} or weight.numel() <= DENSE_LIMIT:
        return "dense"
    return "diagonal"


def require_independence(network: nn.Module) -> None:
    """Raise `UnsupportedLayerError` if outputs of a datum depend on other data or on the random state."""
    for name, module in network.named_modules():
        _check_independence(name, module)


def _check_independence(name: str, module: nn.Module) -> None:
    """Raise `UnsupportedLayerError` if the output of one datum depends on other data or on the random state."""
    if isinstance(module, BATCH_STATISTICS) and (module.training or module.running_mean is None):
        raise UnsupportedLayerError(
            f"Module '{name}' ({type(module).__name__}) uses statistics of the batch, so that outputs depend on other "
            "data; expected independent data. Call network.eval() first, or replace it by "
            "covary.networks.replace_batchnorm(network, by='group')."
        )
    noise = module.dropout if isinstance(module, WITH_DROPOUT) else getattr(module, "p", 1.0)
    if isinstance(module, RANDOM + WITH_DROPOUT) and module.training and noise > 0:
        raise UnsupportedLayerError(
            f"Module '{name}' ({type(module).__name__}) draws from the global random state in training mode; expected "
            "a deterministic network. Call network.eval() first."
        )
