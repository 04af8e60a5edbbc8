"""Rules that users register: what they return is checked at every call, so that a mistake is said in one line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from torch import Tensor, nn

from ..._text import clipped, meant
from ...errors import CovaryError, StructureError, UnsupportedLayerError
from ..jacobian_factors import DirectVJP, JacobianFactors, LookupFactors, OuterFactors

# "kron": rows of the weight are outputs; "kron_rows": rows are inputs; "dense": exact block of any size (biases);
# "exact": exact block, dense where it is small, else diagonal
Form = Literal["kron", "kron_rows", "dense", "exact"]
RuleFunction = Callable[[Any, Tensor], Mapping[str, JacobianFactors]]


@dataclass(frozen=True)
class CheckedMap:
    """A linear map of a user's factors, whose result has the axes that its place needs."""

    function: Callable[[Tensor], Tensor]
    layer: str  # the name of the layer's class
    parameter: str  # the name of the parameter
    axes: str  # the axes of the result, such as "(N, S, R, Q, D)"; its first `num_shared` are those of the argument
    num_shared: int  # the number of axes that it has in common with the argument

    def __call__(self, rows: Tensor) -> Tensor:
        """The result of the map; raise `UnsupportedLayerError` if it fails or has another number of axes."""
        sizes = zip(self.axes.strip("()").split(", ")[: self.num_shared], rows.shape, strict=False)
        known = ", ".join(f"{axis} = {size}" for axis, size in sizes)
        expected = f"The rule of {self.layer} was expected to map {tuple(rows.shape)} to {self.axes} with {known} for "
        try:
            found = self.function(rows)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise UnsupportedLayerError(f"{expected}parameter '{self.parameter}', and failed: {reason:.200}") from error
        num_axes, shared = self.axes.count(",") + 1, tuple(rows.shape[: self.num_shared])
        if not isinstance(found, Tensor) or found.ndim != num_axes or found.shape[: self.num_shared] != shared:
            got = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise UnsupportedLayerError(f"{expected}parameter '{self.parameter}', got {got}. Reshape what it returns.")
        return found


@dataclass(frozen=True)
class UserRule:
    """A user's rule, of which every call is checked."""

    function: RuleFunction
    forms: Mapping[str, Form]  # the form of each parameter

    def require_parameters(self, module: nn.Module) -> None:
        """Raise `UnsupportedLayerError` if the rule names a parameter that the layer does not have."""
        known = list(dict(module.named_parameters()))
        for name in self.forms:
            owner = module
            for part in name.split(".")[:-1]:
                owner = getattr(owner, part, owner)
            if name not in known and not hasattr(owner, name.rpartition(".")[2]):
                raise UnsupportedLayerError(
                    f"The rule of {type(module).__name__} has a form for parameter '{name}', and the layer has "
                    f"{', '.join(known) or 'none'}.{meant(name, known)} Register it with these names."
                )

    def __call__(self, module: nn.Module, inputs: Tensor) -> dict[str, JacobianFactors]:
        """The factors of each parameter, of the types that their forms need, with maps that are checked."""
        layer = type(module).__name__
        wanted = f"The rule of {layer}, called with the layer and its input of shape {tuple(inputs.shape)}, (N, S, …),"
        try:
            found = self.function(module, inputs)
        except CovaryError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UnsupportedLayerError(f"{wanted} failed: {reason:.200}") from error
        if not isinstance(found, Mapping):
            raise UnsupportedLayerError(
                f"{wanted} was expected to return the factors by name of the parameter, such as {{'weight': "
                f"OuterFactors(…)}}, got a {type(found).__name__}."
            )
        held = [name for name, _ in module.named_parameters() if name in self.forms]
        if missing := [name for name in held if name not in found]:
            raise UnsupportedLayerError(
                f"{wanted} was expected to return factors for {', '.join(map(repr, held))}, got "
                f"{', '.join(map(repr, found)) or 'none'}. Return '{missing[0]}' too, or leave it out of the forms."
            )
        if more := [name for name in found if name not in self.forms]:
            raise UnsupportedLayerError(
                f"{wanted} was expected to return factors for {', '.join(map(repr, held))}, got {more[0]!r} as well, "
                f"which has no form.{meant(more[0], held)} Leave it out, or register a form for it."
            )
        return {name: self._checked(factors, layer, name) for name, factors in found.items()}

    def _checked(self, factors: object, layer: str, name: str) -> JacobianFactors:
        form = self.forms[name]
        if not isinstance(factors, OuterFactors | LookupFactors | DirectVJP):
            kinds = "OuterFactors, LookupFactors or a DirectVJP"
            raise UnsupportedLayerError(
                f"The rule of {layer} was expected to return {kinds} for parameter '{name}', got a "
                f"{type(factors).__name__}."
            )
        by_inputs = isinstance(factors, LookupFactors) or (isinstance(factors, OuterFactors) and factors.input_rows)
        if form in ("kron", "kron_rows") and (isinstance(factors, DirectVJP) or by_inputs != (form == "kron_rows")):
            other = "exact" if isinstance(factors, DirectVJP) else "kron_rows" if by_inputs else "kron"
            raise UnsupportedLayerError(
                f"The rule of {layer} was expected to return factors of the form '{form}' for parameter '{name}', got "
                f"{type(factors).__name__} of the form '{other}'. Register it with that form, or set input_rows where "
                "the weight's rows are its inputs."
            )
        if isinstance(factors, OuterFactors):
            unfold = CheckedMap(factors.unfold, layer, name, "(N, S, R, Q, D)", 2)
            arrange = CheckedMap(factors.arrange, layer, name, "(N, S, R, Q, G)", 2)
            return replace(factors, unfold=unfold, arrange=arrange)
        if isinstance(factors, DirectVJP):
            return replace(factors, function=CheckedMap(factors.function, layer, name, "(N, P)", 1))
        return factors


def layer_of(factors: JacobianFactors) -> str | None:
    """The name of the layer whose user's rule gave the factors; None for a rule of covary's own."""
    function = getattr(factors, "unfold", None) or getattr(factors, "function", None)
    return function.layer if isinstance(function, CheckedMap) else None


def user_rule(module_type: object, function: object, forms: object) -> UserRule:
    """The rule of a class; raise `StructureError` for what cannot be one."""
    if not (isinstance(module_type, type) and issubclass(module_type, nn.Module)):
        raise StructureError(f"Expected the class of a layer, got {clipped(module_type)}. Pass the class itself.")
    if not callable(function):
        raise StructureError(f"Expected a function of (module, inputs) as a rule, got {clipped(function)}.")
    if not isinstance(forms, Mapping) or not forms:
        raise StructureError(
            f"Expected the form of each parameter by name, such as {{'weight': 'kron'}}, got {clipped(forms)}."
        )
    for name, form in forms.items():
        if form not in get_args(Form):
            listed, question = ", ".join(map(repr, get_args(Form))), meant(form, get_args(Form))
            raise StructureError(f"Expected the form of '{name}' to be one of {listed}, got {clipped(form)}.{question}")
    return UserRule(function, dict(forms))
