"""How a network of covary was made, as plain data: from the network to its recipe, and back.

Nothing that a recipe names is imported or executed: names are looked up in the tables below.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import nn

from .._text import clipped
from ..augment.export import action_from_json, action_to_json, from_json, to_json
from ..errors import CovaryError, DataError, StructureError
from .averaged import Averaged
from .images import Rescaled, Standardized

N = TypeVar("N", bound=nn.Module)
Recipe = dict[str, Any]
CUSTOM: Recipe = {"kind": "custom"}
ACTIVATIONS = {kind.__name__: kind for kind in (nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Softplus, nn.Sigmoid)}
FACTORIES: dict[str, Callable[..., nn.Module]] = {}


def recorded(factory: Callable[..., N]) -> Callable[..., N]:
    """A factory that leaves its name and arguments on the network, unless an argument is not plain data."""
    signature, name = inspect.signature(factory), factory.__name__

    @wraps(factory)
    def made(*arguments: Any, **options: Any) -> N:
        network = factory(*arguments, **options)
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        given = {key: _plain(value) for key, value in bound.arguments.items() if key != "generator"}
        if all(value is not None for value in given.values()):
            object.__setattr__(network, "recipe", {"kind": name, "arguments": given})
        return network

    FACTORIES[name] = made
    return made


def recipe_of(network: nn.Module) -> Recipe:
    """The recipe of a network; that of a network of the user's own is {"kind": "custom"}."""
    if isinstance(network, Averaged):
        samples: Recipe = {"num_samples": network.num_samples, "num_sets": network.num_sets}
        if network.output_actions:
            samples["output_actions"] = [action_to_json(action) for action in network.output_actions]
        return {
            "kind": "averaged",
            "network": recipe_of(network.network),
            "augment": to_json(network.augment),
            **samples,
        }
    if isinstance(network, Standardized):
        sizes = {"num_channels": network.mean.numel(), "num_axes": network.mean.ndim - 1}
        return {"kind": "standardized", "network": recipe_of(network.network), **sizes}
    if isinstance(network, Rescaled):
        return {"kind": "rescaled", "network": recipe_of(network.network), "num_channels": network.mean.numel()}
    return dict(getattr(network, "recipe", CUSTOM))


def network_of(recipe: Mapping[str, Any], given: nn.Module | None = None, max_weights: int | None = None) -> nn.Module:
    """The network of a recipe, whose weights are to be filled in; raise `DataError` if a recipe describes none.

    Arguments:
        given: The network itself, or what its wrappers are around; needed where the recipe is "custom".
        max_weights: The number of weights that the network may have, which are allocated; None for any number.
    """
    try:
        return _network_of(recipe, given, max_weights)
    except CovaryError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(
            f"The record describes no network that can be made ({reason:.200}). Save the run again."
        ) from error


def _network_of(recipe: Mapping[str, Any], given: nn.Module | None, max_weights: int | None) -> nn.Module:
    kind = recipe.get("kind")
    if kind == "averaged":
        if isinstance(given, Averaged):
            return given
        inner, augment = _network_of(recipe["network"], given, max_weights), from_json(recipe["augment"])
        actions = [action_from_json(record) for record in recipe.get("output_actions", ())]
        return Averaged(
            inner, augment, recipe["num_samples"], num_sets=recipe["num_sets"], output_action=actions or None
        )
    if kind in ("standardized", "rescaled"):
        if isinstance(given, Standardized if kind == "standardized" else Rescaled):
            return given
        size = recipe["num_channels"]  # two tensors: filling one must not change the other
        if max_weights is not None and not 0 < size <= max_weights:
            raise DataError(f"Expected 1 to {max_weights:,} channels in the record, got {clipped(size)}.")
        inner, moments = _network_of(recipe["network"], given, max_weights), (torch.zeros(size), torch.ones(size))
        if kind == "rescaled":
            return Rescaled(inner, *moments)
        num_axes = recipe.get("num_axes", 2)
        if num_axes not in (0, 1, 2, 3):
            raise DataError(f"Expected 0 to 3 axes after the channels in the record, got {clipped(num_axes)}.")
        return Standardized(inner, *moments, num_axes)
    if given is not None:
        return given
    if kind not in FACTORIES:
        raise StructureError(
            "The run does not say how its network is made: it is one of your own. Pass the network, or a function that "
            "makes it, as in covary.load(folder, network)."
        )
    return _made(str(kind), recipe, max_weights)


def _made(kind: str, recipe: Mapping[str, Any], max_weights: int | None) -> nn.Module:
    arguments = dict(recipe["arguments"])
    if "activation" in arguments:
        arguments["activation"] = ACTIVATIONS[arguments["activation"]]
    if "image_shape" in arguments:
        arguments["image_shape"] = tuple(arguments["image_shape"])
    try:
        if max_weights is not None:
            _require_weights(kind, arguments, max_weights)
        with torch.random.fork_rng(devices=[]):  # weights that are replaced must not move the user's random state
            return FACTORIES[kind](**arguments)
    except CovaryError as error:
        raise DataError(f"The network '{kind}' of the record cannot be made. {error}") from error


def _require_weights(kind: str, arguments: Mapping[str, Any], max_weights: int) -> None:
    """Raise `DataError` if the network, made without memory for its weights, has more of them."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        outline = FACTORIES[kind](**arguments)
    num_weights = sum(weight.numel() for weight in outline.parameters())
    if num_weights > max_weights:
        raise DataError(
            f"The record describes a network of {num_weights:,} weights, and its file has {max_weights:,} values. Save "
            "the run again."
        )


def _plain(value: Any) -> Any:
    """A value as JSON has it; None where it has none."""
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(entry, int) for entry in value):
        return list(value)
    return value.__name__ if value in ACTIVATIONS.values() else None
