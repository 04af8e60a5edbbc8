"""The curvature rule and the structure of the curvature block of each weight."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import nn

from ..errors import UnsupportedLayerError
from ..priors import weights_of
from .rules import Form, rule_for

Structure = Literal["kron", "dense", "diagonal", "none"]
DENSE_LIMIT = 2048  # entries of a small parameter up to which its exact block is kept dense
BATCH_STATISTICS = (nn.modules.batchnorm._BatchNorm,)
RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)


class Use(NamedTuple):
    """A module that holds a weight, and the name of the parameter in it."""

    module_name: str
    module: nn.Module
    parameter: str


@dataclass(frozen=True)
class CoverageRow:
    """One weight of a network: its module and the structure of its block in the curvature "kron".

    Example:
        >>> from torch import nn
        >>> from covary.curvature import coverage
        >>> coverage(nn.Linear(3, 2)).rows[1]
        CoverageRow(name='bias', shape=(2,), modules='Linear', structure='dense')
    """

    name: str
    shape: tuple[int, ...]
    modules: str
    structure: Structure


@dataclass(frozen=True)
class Coverage:
    """The table of the weights of a network, for `print`.

    Example:
        >>> from torch import nn
        >>> from covary.curvature import coverage
        >>> coverage(nn.Sequential(nn.Linear(3, 2), nn.PReLU())).uncovered
        (CoverageRow(name='1.weight', shape=(1,), modules='PReLU', structure='none'),)
    """

    rows: tuple[CoverageRow, ...]

    @property
    def uncovered(self) -> tuple[CoverageRow, ...]:
        """The weights that no rule covers."""
        return tuple(row for row in self.rows if row.structure == "none")

    def __str__(self) -> str:
        """The table as text, one weight per line."""
        cells = [("parameter", "shape", "module", "structure")]
        cells += [(r.name, "×".join(map(str, r.shape)), r.modules, r.structure) for r in self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells
        )


def coverage(network: nn.Module, weights: Iterable[str] | None = None) -> Coverage:
    """The table of weights, their modules and the structure of their curvature blocks.

    Arguments:
        network: The network.
        weights: Names of the weights to show; all of them by default.

    Example:
        >>> from torch import nn
        >>> from covary.curvature import coverage
        >>> print(coverage(nn.Linear(3, 2)))
        parameter  shape  module  structure
        weight     2×3    Linear  kron
        bias       2      Linear  dense
    """
    selected = select_weights(network, weights)
    rows = []
    for name, uses in find_uses(network, selected).items():
        types = " + ".join(dict.fromkeys(type(use.module).__name__ for use in uses))
        rows.append(CoverageRow(name, tuple(selected[name].shape), types, structure_of(selected[name], uses)))
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
    """Every module that holds each weight, tied ones included."""
    names = {id(weight): name for name, weight in weights.items()}
    uses: dict[str, list[Use]] = {name: [] for name in weights}
    for module_name, module in network.named_modules():
        for local, parameter in module._parameters.items():
            if parameter is not None and id(parameter) in names:
                uses[names[id(parameter)]].append(Use(module_name, module, local))
    return uses


def structure_of(weight: nn.Parameter, uses: list[Use]) -> Structure:
    """The structure of a weight's block; that of a weight shared by layers of different form is exact."""
    forms = {_form(use) for use in uses}
    if None in forms:
        return "none"
    if forms <= {"kron"} or forms <= {"kron_rows"}:
        return "kron"
    if forms <= {"dense"} or weight.numel() <= DENSE_LIMIT:
        return "dense"
    return "diagonal"


def require_coverage(network: nn.Module, weights: Mapping[str, nn.Parameter]) -> None:
    """Raise `UnsupportedLayerError` if the curvature of this network would be wrong or incomplete."""
    for name, module in network.named_modules():
        _check_independence(name, module)
    for name, uses in find_uses(network, weights).items():
        if structure_of(weights[name], uses) != "none":
            continue
        use = next(use for use in uses if _form(use) is None)
        raise UnsupportedLayerError(
            f"Expected a curvature rule for parameter '{name}' of module '{use.module_name}' "
            f"({type(use.module).__name__}), found none. Register one with covary.curvature.register_rule, exclude the "
            "parameter (Prior(..., exclude=...) or requires_grad_(False)), or build the layer from modules that have a "
            "rule; print(covary.curvature.coverage(network)) shows all weights."
        )


def _form(use: Use) -> Form | None:
    rule = rule_for(use.module)
    return None if rule is None else rule.forms.get(use.parameter)


def _check_independence(name: str, module: nn.Module) -> None:
    """Raise `UnsupportedLayerError` if the output of one datum depends on other data or on the random state."""
    if isinstance(module, BATCH_STATISTICS) and (module.training or module.running_mean is None):
        raise UnsupportedLayerError(
            f"Module '{name}' ({type(module).__name__}) uses statistics of the batch, so that outputs depend on other "
            "data; expected independent data. Call network.eval() first, or use GroupNorm or LayerNorm."
        )
    if isinstance(module, RANDOM) and module.training and getattr(module, "p", 1.0) > 0:
        raise UnsupportedLayerError(
            f"Module '{name}' ({type(module).__name__}) draws from the global random state in training mode; expected "
            "a deterministic network. Call network.eval() first."
        )
