"""A model in the files of a run, and back: plain data in `run.json`, tensors in `model.safetensors`.

Nothing that a record names is imported or executed. What is not of covary is passed to `load` by the user.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from .._files import write_whole
from .._text import clipped
from ..errors import DataError, StructureError
from ..likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from ..models import Model
from ..networks.recipes import network_of, recipe_of
from ..priors import Prior
from ..records import RunRecord
from ..records.checksums import read_checked
from .state import tensors_of

MODEL = "model.safetensors"
LIKELIHOODS: dict[str, Callable[..., Likelihood]] = {
    "categorical": Categorical,
    "gaussian": Gaussian,
    "heteroscedastic": HeteroscedasticGaussian,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
}
TRAINED = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # any may be loaded into any
OPTIONS = {"categorical": {"num_classes", "ignore_index"}, "gaussian": {"num_sigmas"}}  # whole numbers or None


def model_recipe(model: Model) -> dict[str, Any]:
    """How network, likelihood and prior are made, and which of their parameters are fixed, as plain data."""
    modules = _modules(model)
    return {
        "network": recipe_of(model.network),
        "likelihood": _likelihood_recipe(model.likelihood),
        "prior": {"structure": _plain(model.prior.structure)}
        | {role: list(patterns) for role, patterns in model.prior.patterns.items()},
        "fixed": [
            f"{place}/{name}"
            for place, module in modules.items()
            for name, parameter in module.named_parameters()
            if not parameter.requires_grad
        ],
    }


def save_model(model: Model, folder: Path) -> None:
    """Write every parameter and buffer to `model.safetensors`."""
    tensors = tensors_of(model.network, model.likelihood, model.prior)
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_whole(folder / MODEL, save(plain))


def load_model(record: RunRecord, folder: Path, given: nn.Module | Model | None = None) -> Model:
    """The model that `save_model` wrote, bit for bit, in evaluation mode.

    Arguments:
        record: The record of the run, with what `model_recipe` said and the checksum of the file.
        folder: The folder.
        given: The user's own network, or model, of the same names and shapes; its numbers are replaced.
    """
    path, recipe = folder / MODEL, record.model
    tensors = read_tensors(folder, MODEL, record.files)
    own = given.network if isinstance(given, Model) else given
    _check_recipe(recipe)
    num_values = sum(tensor.numel() for tensor in tensors.values())
    network = network_of(recipe["network"], own, num_values)
    fill(network, {name.removeprefix("network/"): t for name, t in tensors.items() if name[:8] == "network/"}, path)
    if isinstance(given, Model) and given.network is network:
        model = given
    else:
        likelihood = _likelihood(recipe["likelihood"], given, num_values)
        model = Model(network, likelihood, _prior(recipe["prior"], network))
    for place in ("likelihood", "prior"):
        start = f"{place}/"
        part = {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
        fill(_modules(model)[place], part, path)
    for place, module in _modules(model).items():
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(f"{place}/{name}" not in recipe["fixed"])
    network.eval()
    return model


def has_own_network(record: RunRecord) -> bool:
    """Whether the network of a run, inside of its wrappers, is one of the user's own."""
    recipe = record.model.get("network")
    while isinstance(recipe, Mapping) and "network" in recipe:
        recipe = recipe["network"]
    return isinstance(recipe, Mapping) and recipe.get("kind") == "custom"


def read_tensors(folder: Path, name: str, expected: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors of a file of a run, by name, once its checksum is the expected one."""
    content = read_checked(folder, name, expected)
    try:
        return load(content)
    except (SafetensorError, KeyError) as error:  # KeyError: a type of numbers that torch does not have
        raise DataError(f"'{folder / name}' cannot be read as saved weights ({error}). Save the run again.") from error


def fill(module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Set the parameters and buffers of a module to saved tensors; raise `StructureError` if they do not fit."""
    expected = {name: _form(tensor) for name, tensor in tensors.items()}
    found = {name: _form(tensor) for name, tensor in module.state_dict().items()}
    advice = "Pass the network that the run was fitted with, wrapped as it was; its code may have changed since."
    if expected.keys() != found.keys():
        wanted, got = (", ".join(sorted(names)) or "none" for names in (expected, found))
        raise StructureError(
            f"Expected the parameters and buffers that '{path}' has, {wanted:.400}, got {got:.400}. {advice}"
        )
    for name, got in found.items():
        if got != expected[name]:
            raise StructureError(
                f"Expected '{name}' of shape {expected[name]}, as '{path}' has it, got {got} in the network. {advice}"
            )
    floating = next((tensor for tensor in tensors.values() if tensor.is_floating_point()), None)
    if floating is not None:  # buffers that are not saved have the type of those that are
        module.to(floating.dtype)
    with torch.no_grad():
        for name, tensor in module.state_dict(keep_vars=True).items():
            if tensor.dtype != tensors[name].dtype:
                tensor.data = torch.empty_like(tensor, dtype=tensors[name].dtype)
            tensor.copy_(tensors[name])  # not the tensor of the file: kernels round otherwise in another layout


def _form(tensor: Tensor) -> str:
    """The shape of a tensor, and its type if that is none of those that networks are trained in."""
    kind = "" if tensor.dtype in TRAINED else f" and type {str(tensor.dtype).removeprefix('torch.')}"
    return f"{tuple(tensor.shape)}{kind}"


def _likelihood_recipe(likelihood: Likelihood) -> dict[str, Any]:
    """The kind of a likelihood, and how one of its shape is made."""
    kind = {kind: name for name, kind in LIKELIHOODS.items()}.get(type(likelihood), "custom")
    options: dict[str, int | None] = {}
    if type(likelihood) is Categorical:
        options = {"num_classes": likelihood.num_classes, "ignore_index": likelihood.ignore_index}
    if type(likelihood) is Gaussian:
        sigmas = likelihood.log_sigma_noise
        options = {"num_sigmas": sigmas.numel() if sigmas.ndim else None}
    return {"kind": kind} | options


def _check_recipe(recipe: Mapping[str, Any]) -> None:
    """Raise `DataError` if a part of a record's model is absent or of another type."""
    likelihood, prior = recipe.get("likelihood"), recipe.get("prior")
    parts = {
        "network": isinstance(recipe.get("network"), Mapping),
        "likelihood": isinstance(likelihood, Mapping) and _is_likelihood(likelihood),
        "prior": isinstance(prior, Mapping) and _is_prior(prior),
        "fixed": _are_names(recipe.get("fixed")),
        "evaluation_modules": _are_names(recipe.get("evaluation_modules", [])),
    }
    for name, is_right in parts.items():
        if not is_right:
            raise DataError(f"The record's model has no '{name}' that can be read. Save the run again.")


def _is_likelihood(recipe: Mapping[str, Any]) -> bool:
    kind, options = recipe.get("kind"), {name: value for name, value in recipe.items() if name != "kind"}
    numbers = all(value is None or type(value) is int for value in options.values())
    return isinstance(kind, str) and options.keys() == OPTIONS.get(kind, set()) and numbers


def _is_prior(recipe: Mapping[str, Any]) -> bool:
    structure = recipe.get("structure")
    groups = structure.values() if isinstance(structure, Mapping) else []
    named = all(isinstance(patterns, str) or _are_names(patterns) for patterns in groups)
    roles = all(_are_names(recipe.get(role)) for role in ("point", "hyperparameters"))
    return isinstance(structure, str | Mapping) and named and roles


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _likelihood(recipe: Mapping[str, Any], given: nn.Module | Model | None, max_sigmas: int) -> Likelihood:
    if isinstance(given, Model):
        return given.likelihood
    kind = recipe["kind"]
    if kind not in LIKELIHOODS:
        raise StructureError("The run has a likelihood of your own. Pass covary.Model(network, likelihood) to load.")
    if kind == "gaussian":
        size = recipe["num_sigmas"]
        if size is not None and not 0 < size <= max_sigmas:
            raise DataError(f"Expected 1 to {max_sigmas:,} noise levels in the record, got {clipped(size)}.")
        return Gaussian(1.0 if size is None else [1.0] * size)
    return LIKELIHOODS[kind](**{name: value for name, value in recipe.items() if name != "kind"})


def _prior(recipe: Mapping[str, Any], network: nn.Module) -> Prior:
    return Prior(network, recipe["structure"], point=recipe["point"], hyperparameters=recipe["hyperparameters"])


def _plain(structure: Any) -> Any:
    """The structure of a prior as JSON has it."""
    if not isinstance(structure, Mapping):
        return structure
    return {name: patterns if isinstance(patterns, str) else list(patterns) for name, patterns in structure.items()}


def _modules(model: Model) -> dict[str, nn.Module]:
    return {"network": model.network, "likelihood": cast(nn.Module, model.likelihood), "prior": model.prior}
