"""A network without the paths that its priors switched off."""

import copy
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._types import Columns
from ..batches import Batches, Data, as_batches, outputs_of
from ..curvature.registry import CurvatureName
from ..distributed import all_max, all_sum
from ..errors import StructureError
from ..evidence import EvidenceTerms, Model, evidence_terms, log_evidence
from ..layers import Relaxed, SparseDense
from ..layers.sparse import stationary
from ..likelihoods import Likelihood
from ..priors import Prior, weights_of
from .summary import THRESHOLD, check_threshold, curvature_factors, largest, path_summaries, relaxed_layers

CONSTANT = 1e-2  # how far from 1 a basis function that counts as constant may fall


class Pruned(NamedTuple):
    """A simpler network, and what taking paths out has changed.

    Arguments:
        network: The network without the paths that were off, in evaluation mode.
        prior: The prior of what is left, one precision per tensor (per entry where there was one per entry).
        threshold: The share below which a tensor counted as off.
        removed: The paths that were taken out, by their names in the network.
        replaced: The sparse dense paths that were replaced by the stationary map they had become.
        num_params: The number of weights that are left.
        num_params_before: The number of weights before.
        evidence: The evidence of the data after.
        evidence_before: The evidence before, by the same curvature under the same noise.
        max_change: The largest absolute change of an output on the data.
        mean_change: The mean absolute change.
    """

    network: nn.Module
    prior: Prior
    threshold: float
    removed: tuple[str, ...]
    replaced: tuple[str, ...]
    num_params: int
    num_params_before: int
    evidence: EvidenceTerms
    evidence_before: EvidenceTerms
    max_change: float
    mean_change: float


@torch.no_grad()
def prune(
    network: nn.Module,
    threshold: float = THRESHOLD,
    *,
    likelihood: Likelihood,
    prior: Prior,
    data: Data,
    curvature: CurvatureName = "kron",
    columns: Columns = "exact",
    seed: int = 0,
) -> Pruned:
    r"""The network without switched-off paths, and what that changed; the network itself stays as it is.

    A path of a relaxed layer is off when the share of every one of its tensors, biases included, is below the threshold
    (`records.LayerPath`); the largest path of a layer stays in any case. A `SparseDense` path whose basis has become
    constant, :math:`1 - \phi_j(x) < 0.01` everywhere, is replaced by the stationary map that it is at
    :math:`\omega = 0`; the tensors of that map have the variance under the prior that they had as sums and products
    before. A `SparseConv` stays: it is stationary already, and a plain filter has a free weight for every pixel.

    Arguments:
        network: The trained network, averaged or plain.
        threshold: The share, between 0 and 1.
        likelihood: The likelihood.
        prior: The prior, made for this network.
        data: The data of the evidence and of the change of outputs; under a process group this process's shard.
        curvature: "kron", "kron-traced", "full" or "diag".
        columns: "exact", or the number of sketches.
        seed: The seed of the augmentation's noise and of sketches.
    """
    check_threshold(threshold)
    layers = relaxed_layers(network)
    if not layers:
        raise StructureError(
            f"prune takes paths out of relaxed layers; {type(network).__name__} has none. Build it of "
            "covary.layers.Relaxed, or by relaxed_network."
        )
    batches = as_batches(data)
    model = Model(network, likelihood, prior.weights(network), seed)
    factors = curvature_factors(model, prior, batches, curvature, columns, with_gradient=True)
    summaries = path_summaries(layers, factors, prior, model.weights, threshold)
    simple = copy.deepcopy(network).eval()
    removed, precisions = [], dict(prior.shifts())
    for name, paths in summaries.items():
        kept = largest(paths)
        for path in (path.name for path in paths if path.off and path.name != kept):
            del _layer(simple, name).paths[path]
            removed.append(f"{name}.{path}")
    replaced = [path for name in layers for path in _made_stationary(simple, name, precisions)]
    carried = _carried(prior, simple, precisions)
    changes = _changes(network, simple, batches, seed)
    return Pruned(
        network=simple,
        prior=carried,
        threshold=threshold,
        removed=tuple(removed),
        replaced=tuple(replaced),
        num_params=carried.num_params,
        num_params_before=prior.num_params,
        evidence=log_evidence(simple, likelihood, carried, batches, curvature, columns, seed),
        evidence_before=evidence_terms(factors, prior, model.weights),
        max_change=changes[0],
        mean_change=changes[1],
    )


def _layer(network: nn.Module, name: str) -> Relaxed:
    layer = network.get_submodule(name)
    assert isinstance(layer, Relaxed), "names are those of relaxed layers"
    return layer


def _made_stationary(network: nn.Module, name: str, precisions: dict[str, Tensor]) -> list[str]:
    """The sparse dense paths of a layer that were replaced; the precisions of their new tensors are added."""
    layer, replaced = _layer(network, name), []
    for path, module in list(layer.paths.items()):
        prefix = f"{name}.paths.{path}."
        if not isinstance(module, SparseDense) or not _is_constant(module):
            continue
        found = _stationary_precisions(module, prefix, precisions)
        if found is None:
            continue
        layer.paths[path] = stationary(module)
        precisions.update(found)
        replaced.append(f"{name}.{path}")
    return replaced


def _is_constant(path: SparseDense) -> bool:
    return all(bool((part.basis() > 1 - CONSTANT).all()) for part in (path.read, path.write))


def _stationary_precisions(
    path: SparseDense, prefix: str, precisions: Mapping[str, Tensor]
) -> dict[str, Tensor] | None:
    r"""The precisions of the stationary map's tensors, None where the prior does not cover the old ones.

    A sum of M values of variance v has the variance M v, a product of independent ones the product of theirs.
    """
    names = [f"{prefix}{name}" for name in ("read.values", "read.bias", "write.values")]
    if any(name not in precisions for name in names):
        return None
    read, bias, write = ((1 / precisions[name]).mean() for name in names)
    written = len(path.write.start) * write
    return {
        f"{prefix}linear.weight": 1 / (len(path.read.start) * read * written),
        f"{prefix}linear.bias": 1 / (bias * path.read.in_shape[0] * written),
    }


def _carried(prior: Prior, network: nn.Module, precisions: Mapping[str, Tensor]) -> Prior:
    """The prior of the simpler network, with the precisions of the tensors by name."""
    exclude = [pattern for pattern in prior.exclude if any(fnmatchcase(name, pattern) for name in weights_of(network))]
    structure = "diagonal" if prior.structure == "diagonal" else "layerwise"
    carried = Prior(network, structure, exclude=exclude)
    weights = carried.weights(network)
    numbers = {name: weights[name].numel() if structure == "diagonal" else 1 for name in carried.names}
    carried.log_precision.copy_(torch.cat([precisions[n].log().expand(number) for n, number in numbers.items()]))
    return carried.requires_grad_(prior.log_precision.requires_grad)


def _changes(before: nn.Module, after: nn.Module, batches: Batches, seed: int) -> tuple[float, float]:
    """The largest and the mean absolute change of the outputs."""
    largest, total, number = 0.0, 0.0, 0
    for batch in batches:
        change = (outputs_of(after, batch, seed) - outputs_of(before, batch, seed)).abs().double()
        largest, total, number = max(largest, float(change.max())), total + float(change.sum()), number + change.numel()
    sums = all_sum(torch.tensor([total, number], dtype=torch.float64))
    return float(all_max(torch.tensor(largest, dtype=torch.float64))), float(sums[0] / sums[1])
