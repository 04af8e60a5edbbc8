r"""Effective numbers of parameters of each path of each relaxed layer.

With eigenvalues λ of the curvature of a tensor and its prior precision δ, :math:`\gamma = \sum \lambda / (\lambda +
\delta)` of its P entries are determined by the data (paper 2, App. D.2). Of a path, γ and P are sums over its tensors;
its relative number is γ/P divided by the sum of γ/P over the paths of the layer.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..batches import Batches, Data, IndexedBatch, as_batches
from ..curvature.passes import CurvatureStatistics, check_model, curvature_pass
from ..curvature.registry import Curvature, CurvatureName, as_curvature, check_blocks
from ..errors import StructureError
from ..evidence.effective_parameters import effective_per_weight
from ..layers import Relaxed
from ..models import Model, as_model
from ..priors import mean_precisions, unmarked_of
from ..records import LayerPath
from .equivariance import EquivarianceErrors, equivariance_errors, layer_inputs

THRESHOLD = 1e-2
PROBE_DATA = 64  # an equivariance error is the same to two digits with more


class LayerSummary(NamedTuple):
    """The summary of one relaxed layer: its name in the network, its paths, and its equivariance errors on data.

    Example:
        >>> import torch, covary
        >>> from covary.layers import Conv, Dense, Relaxed
        >>> layer = Relaxed({"fc": Dense((1, 4, 4), (2, 4, 4)), "conv": Conv(1, 2)})
        >>> network = torch.nn.Sequential(layer, torch.nn.Flatten(), torch.nn.Linear(32, 2))
        >>> (summary,) = covary.summarize_layers(network, (torch.randn(8, 1, 4, 4), torch.arange(8) % 2))
        >>> summary.name, [path.name for path in summary.paths]
        ('0', ['fc', 'conv'])
    """

    name: str
    paths: tuple[LayerPath, ...]
    errors: EquivarianceErrors

    @property
    def learned(self) -> str:
        """The path with the largest relative number: the learned type of the layer (paper 2, Table 4)."""
        return largest(self.paths)


def largest(paths: Sequence[LayerPath]) -> str:
    """The path with the largest relative number; of equal ones the last, by convention the most symmetric."""
    return max(reversed(paths), key=lambda path: path.relative).name


def relaxed_layers(network: nn.Module) -> dict[str, Relaxed]:
    """The relaxed layers of a network by name, in the order of its modules.

    Example:
        >>> import torch
        >>> from covary.layer_summary import relaxed_layers
        >>> relaxed_layers(torch.nn.Linear(2, 2))
        {}
    """
    return {name: module for name, module in network.named_modules() if isinstance(module, Relaxed)}


@torch.no_grad()
def summarize_layers(
    model: nn.Module | Model,
    data: Data,
    curvature: Curvature | CurvatureName = "kron",
    *,
    threshold: float = THRESHOLD,
    probe_batch: IndexedBatch | None = None,
    seed: int = 0,
) -> list[LayerSummary]:
    """The summary of each relaxed layer of a network, in order; empty for a network without such layers.

    Arguments:
        model: The model, or a network; in evaluation mode.
        data: The training data; under a process group the shard of this process.
        curvature: The choice of curvature, or the name of its structure; any but "kernel".
        threshold: The relative number below which a tensor counts as inactive.
        probe_batch: The data that equivariance errors are measured on, of which up to 64 are read; the first batch by
            default.
        seed: The seed of the augmentation's noise, of random probes, and of the shifts.

    Example:
        >>> import torch, covary
        >>> covary.summarize_layers(torch.nn.Linear(4, 2), (torch.randn(8, 4), torch.arange(8) % 2))
        []
    """
    model = as_model(model)
    batches = as_batches(data).matching(model.network)
    layers = relaxed_layers(model.network)
    if not layers:
        return []
    check_threshold(threshold)
    statistics = layer_statistics(model, batches, as_curvature(curvature), seed=seed)
    paths = path_summaries(model, layers, statistics, threshold)
    first = next(iter(batches)) if probe_batch is None else probe_batch
    inputs = layer_inputs(model.network, IndexedBatch(*(part[:PROBE_DATA] for part in first)), layers, seed)
    return [
        LayerSummary(name, paths[name], equivariance_errors(layer, inputs[name], seed=seed))
        for name, layer in layers.items()
    ]


def layer_statistics(
    model: Model, batches: Batches, curvature: Curvature, *, seed: int, with_gradient: bool = False
) -> CurvatureStatistics:
    """The statistics of all data that a layer summary needs, after all checks."""
    check_blocks(curvature, model.prior)
    check_model(model, batches)
    return curvature_pass(model, batches, curvature, seed=seed, with_gradient=with_gradient)


def path_summaries(
    model: Model, layers: Mapping[str, Relaxed], statistics: CurvatureStatistics, threshold: float
) -> dict[str, tuple[LayerPath, ...]]:
    """The paths of each layer, by the layer's name.

    A tensor that is not integrated (frozen, a point weight, a hyperparameter) has no number; its path is active unless
    it is zero. Where the data determine nothing of a layer (all γ are 0), no path is inactive.
    """
    weights, means = model.weights, mean_precisions(model.prior)
    gamma = {name: float(value) for name, value in effective_per_weight(model, statistics.curvature).items()}
    found = {}
    for layer, module in layers.items():
        members = {path: _members(f"{layer}.paths.{path}.", weights) for path in module.paths}
        normalized = {path: _ratio(gamma, tensors) for path, tensors in members.items()}
        total = sum(normalized.values())
        found[layer] = tuple(
            LayerPath(
                name=path,
                num_params=sum(weight.numel() for weight in tensors.values()),
                precisions={name.removeprefix(f"{layer}.paths.{path}."): means[name] for name in tensors},
                weight_norm=float(sum(weight.double().square().sum() for weight in tensors.values())) ** 0.5,
                effective=sum((gamma[name] for name in tensors), 0.0),
                normalized=normalized[path],
                relative=normalized[path] / total if total else 0.0,
                inactive=not _has_uncovered(module.paths[path], tensors)
                and all(gamma[name] / weight.numel() < threshold * total for name, weight in tensors.items()),
            )
            for path, tensors in members.items()
        )
    return found


def check_threshold(threshold: float) -> None:
    """Raise `StructureError` if the threshold is not between 0 and 1."""
    if not 0 < threshold < 1:
        raise StructureError(f"Expected a threshold between 0 and 1, got {threshold!r}. Pass for example {THRESHOLD}.")


def _members(prefix: str, weights: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in weights.items() if name.startswith(prefix)}


def _has_uncovered(path: nn.Module, tensors: Mapping[str, nn.Parameter]) -> bool:
    """Whether a path has a tensor beside those of the prior that is not zero."""
    covered = {id(tensor) for tensor in tensors.values()}
    return any(bool(tensor.any()) for tensor in unmarked_of(path).values() if id(tensor) not in covered)


def _ratio(gamma: Mapping[str, float], tensors: Mapping[str, Tensor]) -> float:
    entries = sum(tensor.numel() for tensor in tensors.values())
    return sum(gamma[name] for name in tensors) / entries if entries else 0.0
