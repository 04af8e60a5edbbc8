"""A posterior as plain tensors and a JSON header, and back: never pickle, every mismatch an error.

Keys: ``mean/NAME``, ``gradient/NAME``, ``block/NAME/STATISTIC``, ``log_likelihood``; and, to compare on loading, the
prior's precisions ``prior/NAME`` and the likelihood's parameters ``likelihood/NAME``.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .._files import require_regular, write_named
from .._types import Weights
from ..curvature.exact import FULL
from ..curvature.passes import CurvatureStatistics
from ..errors import DataError, StructureError
from ..linalg import AbstractPSD, Block, Dense, Diagonal, Kron
from ..models import Model
from .fitting import CURVATURES, SUBSETS, Fitted, fitted_map

VERSION = 1
HEADER = "covary_posterior"  # the key of the header, in a state and in a file's metadata
STATISTICS = {
    "Kron": ("input_cov", "grad_cov", "count"),
    "Kron, traced": ("input_cov", "grad_cov"),
    "Dense": ("matrix",),
    "Diagonal": ("values",),
}
FIELDS = {"version": int, "curvature": str, "subset": str, "seed": int, "num_data": int, "likelihood": str}


def to_state(fitted: Fitted, model: Model) -> dict[str, Any]:
    """The tensors by key, and the header as JSON text."""
    statistics = fitted.statistics
    header = {
        "version": VERSION,
        "curvature": fitted.curvature,
        "subset": fitted.subset,
        "seed": fitted.seed,
        "num_data": statistics.num_data,
        "likelihood": type(model.likelihood).__name__,
        "names": list(fitted.mean),
        "blocks": {name: _kind(block) for name, block in statistics.curvature.blocks.items()},
        "estimated": [
            n for n, block in statistics.curvature.blocks.items() if isinstance(block, Kron) and block.estimated
        ],
        "gradient": statistics.gradient is not None,
        "parameters": [name for name, _ in model.likelihood.named_parameters()],
    }
    state: dict[str, Any] = {HEADER: json.dumps(header), "log_likelihood": statistics.log_likelihood}
    state |= {f"mean/{name}": value for name, value in fitted.mean.items()}
    state |= {f"gradient/{name}": value for name, value in (statistics.gradient or {}).items()}
    for name, block in statistics.curvature.blocks.items():
        for statistic in STATISTICS[_kind(block)]:
            state[f"block/{name}/{statistic}"] = getattr(block, statistic)
    state |= _context(list(fitted.mean), model)
    return state


def from_state(state: Mapping[str, Any], model: Model) -> Fitted:
    """The posterior's statistics, in the dtype and on the device of the network's weights.

    Arguments:
        model: The model that the posterior was made for: its likelihood with the same parameters, its prior with the
            same precisions.
    """
    header = _header(state)
    tensors = _tensors(state, header)
    weights = model.weights
    names: list[str] = header["names"]
    _check_weights(header, tensors, weights)
    _check_context(header, tensors, _context(names, model), type(model.likelihood).__name__)
    curvature = Block({name: _block(name, header, tensors) for name in header["blocks"]})
    _check_sizes(curvature, {name: weights[name].numel() for name in names})
    gradient = {name: tensors[f"gradient/{name}"] for name in names} if header["gradient"] else None
    fitted = Fitted(
        header["curvature"],
        header["subset"],
        header["seed"],
        {name: tensors[f"mean/{name}"] for name in names},
        CurvatureStatistics(curvature, tensors["log_likelihood"], gradient, header["num_data"]),
    )
    like = weights[names[0]].detach()
    return fitted_map(fitted, lambda tensor: tensor.to(like))


def write_state(state: Mapping[str, Any], path: str | Path) -> None:
    """Write a safetensors file with the header in its metadata."""
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in state.items() if key != HEADER}
    write_named(Path(path), save(tensors, metadata={HEADER: state[HEADER]}))


def read_state(path: str | Path) -> dict[str, Any]:
    """The state in a safetensors file, on the CPU."""
    try:
        require_regular(Path(path))
        with safe_open(path, framework="pt") as file:
            state: dict[str, Any] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise DataError(f"'{path}' is not a safetensors file ({error}). Pass what Laplace.save wrote.") from error
    return state | ({HEADER: metadata[HEADER]} if HEADER in metadata else {})


def _header(state: Mapping[str, Any]) -> dict[str, Any]:
    if HEADER not in state:
        raise DataError(f"The state has no entry '{HEADER}': it is not a posterior. Pass what Laplace.save wrote.")
    try:
        header: dict[str, Any] = json.loads(state[HEADER])
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"The header of the posterior is not JSON ({error}). Save it anew.") from error
    version = header.get("version") if isinstance(header, dict) else None
    if version != VERSION:
        raise DataError(f"The posterior has format version {version!r}; this covary reads {VERSION}. Update covary.")
    lists = {"names": list, "blocks": dict, "estimated": list, "gradient": bool, "parameters": list}
    for field, kind in (FIELDS | lists).items():
        if not isinstance(header.get(field), kind):
            raise DataError(
                f"Expected {kind.__name__} in the header's field '{field}', got {header.get(field)!r}. Save it anew."
            )
    known = header["curvature"] in CURVATURES and header["subset"] in SUBSETS and header["names"]
    if not known or not set(header["blocks"].values()) <= set(STATISTICS):
        raise DataError("The header names no known curvature, subset, weights or structures. Save it anew.")
    return header


def _tensors(state: Mapping[str, Any], header: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors, after a check that they are those of the header, no more, no fewer, and finite."""
    expected, found = set(_keys(header)), set(state) - {HEADER}
    if expected != found:
        raise DataError(
            f"The posterior lacks the entries {sorted(expected - found)} and adds {sorted(found - expected)}; they "
            "must be those of its header. Save it anew."
        )
    for key in expected:
        value = state[key]
        if not (isinstance(value, Tensor) and value.is_floating_point() and bool(value.isfinite().all())):
            raise DataError(f"Entry '{key}' of the posterior must be a finite floating tensor. Save it anew.")
    if state["log_likelihood"].shape != ():
        raise DataError("Entry 'log_likelihood' of the posterior must be one number. Save it anew.")
    return {key: state[key] for key in expected}


def _keys(header: Mapping[str, Any]) -> Iterator[str]:
    yield "log_likelihood"
    for name in header["names"]:
        yield from (f"mean/{name}", f"prior/{name}")
        if header["gradient"]:
            yield f"gradient/{name}"
    for name, kind in header["blocks"].items():
        yield from (f"block/{name}/{statistic}" for statistic in STATISTICS[kind])
    yield from (f"likelihood/{name}" for name in header["parameters"])


def _kind(block: AbstractPSD) -> str:
    """What a header calls the structure of a block."""
    return "Kron, traced" if isinstance(block, Kron) and block.traced else type(block).__name__


def _block(name: str, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> AbstractPSD:
    kind = header["blocks"][name]
    first, *others = (tensors[f"block/{name}/{statistic}"] for statistic in STATISTICS[kind])
    if kind == "Dense":
        return Dense(first)
    if kind == "Diagonal":
        return Diagonal(first)
    count = others[1] if kind == "Kron" else None
    return Kron(first, others[0], count, estimated=name in header["estimated"])


@torch.no_grad()
def _context(names: list[str], model: Model) -> dict[str, Tensor]:
    """What the posterior depends on beside the network and the data."""
    shifts = model.prior.shifts()
    precisions = {f"prior/{name}": shifts[name].detach() for name in names if name in shifts}
    return precisions | {f"likelihood/{name}": value.detach() for name, value in model.likelihood.named_parameters()}


def _check_weights(header: Mapping[str, Any], tensors: Mapping[str, Tensor], weights: Weights) -> None:
    here = {name: tuple(weight.shape) for name, weight in weights.items()}
    stored = {name: tuple(tensors[f"mean/{name}"].shape) for name in header["names"]}
    missing = [name for name in here if name not in stored] if header["subset"] == "all" else []
    for name in [*stored, *missing]:
        if stored.get(name) != here.get(name):
            raise StructureError(
                f"This posterior was made for another network: weight '{name}' had shape {stored.get(name)} there "
                f"and has {here.get(name)} here (None: not a weight). Pass the network that it was made for."
            )
        if header["gradient"] and tensors[f"gradient/{name}"].shape != tensors[f"mean/{name}"].shape:
            raise DataError(f"Entry 'gradient/{name}' must have the shape of the weight. Save the posterior anew.")


def _check_context(
    header: Mapping[str, Any], tensors: Mapping[str, Tensor], here: Mapping[str, Tensor], likelihood: str
) -> None:
    if header["likelihood"] != likelihood:
        raise StructureError(
            f"Expected the likelihood of the posterior, {header['likelihood']}, got {likelihood}. Pass that one."
        )
    for key, value in here.items():
        stored = tensors.get(key)
        if stored is None or stored.shape != value.shape or not torch.allclose(stored.to(value), value, rtol=1e-5):
            raise StructureError(
                f"'{key}' differs from its value when the posterior was made; curvature and covariance depend on it. "
                "Load the state of the prior and of the likelihood before the posterior's."
            )


def _check_sizes(curvature: Block, sizes: Mapping[str, int]) -> None:
    expected = {FULL: sum(sizes.values())} if FULL in curvature.blocks else dict(sizes)
    found = {name: block.size for name, block in curvature.blocks.items()}
    if found != expected:
        raise DataError(f"The blocks of the posterior have sizes {found}; its weights need {expected}. Save it anew.")
