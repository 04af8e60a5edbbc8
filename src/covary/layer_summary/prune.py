"""Pruning: a network without its inactive paths, and its file."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from .._files import write_whole
from ..batches import Batches, Data, as_batches, outputs_of
from ..curvature.registry import Curvature, CurvatureName, as_curvature
from ..distributed import all_max, all_sum
from ..errors import DataError, StructureError
from ..evidence import EvidenceTerms, log_evidence
from ..evidence.terms import evidence_terms
from ..layers import Relaxed, SparseDense
from ..layers.sparse import stationary
from ..models import Model, as_model
from ..priors import Prior, matching_patterns
from ..records import Pruning, read_run
from ..records.checksums import read_checked
from .summary import THRESHOLD, check_threshold, largest, layer_statistics, path_summaries, relaxed_layers

CONSTANT = 1e-2  # how far from 1 a basis function that counts as constant may be
PRUNED = "pruned.safetensors"


class Pruned(NamedTuple):
    """A pruned model, and what the removal of paths changed.

    Arguments:
        model: The model without the inactive paths, its network in evaluation mode; its prior has one precision per
            tensor (per entry where there was one per entry).
        threshold: The relative number below which a tensor counted as inactive.
        removed: The paths that were removed, by their names in the network.
        replaced: The sparse dense paths that were replaced by the stationary map they had become.
        num_params: The number of weights that remain.
        num_params_before: The number of weights before.
        evidence: The evidence of the data after.
        evidence_before: The evidence before, by the same curvature under the same noise.
        max_change: The largest absolute change of an output on the data.
        mean_change: The mean absolute change.

    Example:
        >>> from covary.layer_summary import Pruned
        >>> Pruned._fields[:4]
        ('model', 'threshold', 'removed', 'replaced')
    """

    model: Model
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
    model: nn.Module | Model,
    data: Data,
    curvature: Curvature | CurvatureName = "kron",
    *,
    threshold: float = THRESHOLD,
    seed: int = 0,
) -> Pruned:
    r"""The model without its inactive paths, and what that changed; the network itself stays as it is.

    A path of a relaxed layer is inactive when the relative number of every one of its tensors, biases included, is
    below the threshold (`records.LayerPath`); the largest path of a layer stays in any case. A `SparseDense` path whose
    basis has become constant, :math:`1 - \phi_j(x) < 0.01` everywhere, is replaced by the stationary map that it is at
    :math:`\omega = 0`; the tensors of that map have the variance under the prior that they had as sums and products
    before. A `SparseConv` stays: it is stationary already, and a plain filter has a free weight for every pixel.

    Arguments:
        model: The trained model, or a network.
        data: The data of the evidence and of the change of outputs; under a process group this process's shard.
        curvature: The choice of curvature, or the name of its structure; any but "kernel".
        threshold: The relative number, between 0 and 1.
        seed: The seed of the augmentation's noise and of random probes.

    Example:
        >>> import torch, covary
        >>> from covary.layers import Conv, Dense, Relaxed
        >>> layer = Relaxed({"fc": Dense((1, 4, 4), (2, 4, 4)), "conv": Conv(1, 2)})
        >>> network = torch.nn.Sequential(layer, torch.nn.Flatten(), torch.nn.Linear(32, 2))
        >>> prior = covary.Prior(network, precision={"0.paths.fc.*": 1e9, "*": 1.0})
        >>> data = torch.randn(8, 1, 4, 4), torch.arange(8) % 2
        >>> covary.prune(covary.Model(network, prior=prior), data).removed
        ('0.fc',)
    """
    check_threshold(threshold)
    model, curvature = as_model(model), as_curvature(curvature)
    batches = as_batches(data).matching(model.network)
    layers = relaxed_layers(model.network)
    if not layers:
        raise StructureError(
            f"Expected a network with relaxed layers, got {type(model.network).__name__} without any. Build it of "
            "covary.layers.Relaxed, or by relaxed_network."
        )
    statistics = layer_statistics(model, batches, curvature, seed=seed, with_gradient=True)
    summaries = path_summaries(model, layers, statistics, threshold)
    simple = copy.deepcopy(model.network).eval()
    removed, precisions = [], dict(model.prior.shifts())
    for name, paths in summaries.items():
        kept = largest(paths)
        for path in (path.name for path in paths if path.inactive and path.name != kept):
            del _layer(simple, name).paths[path]
            removed.append(f"{name}.{path}")
    replaced = [path for name in layers for path in _made_stationary(simple, name, precisions)]
    pruned = Model(simple, model.likelihood, _carried(model.prior, simple, precisions))
    changes = _changes(model.network, simple, batches, seed)
    return Pruned(
        model=pruned,
        threshold=threshold,
        removed=tuple(removed),
        replaced=tuple(replaced),
        num_params=pruned.prior.num_params,
        num_params_before=model.prior.num_params,
        evidence=log_evidence(pruned, batches, curvature, seed=seed),
        evidence_before=evidence_terms(model, statistics),
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
    structure = "diagonal" if prior.structure == "diagonal" else "layerwise"
    patterns, fixed = matching_patterns(prior, network), prior.trained_shifts()
    carried = Prior(network, structure, point=patterns["point"], hyperparameters=patterns["hyperparameters"])
    if carried.point_precision is not None:
        carried.point_precision.copy_(torch.stack([fixed[name] for name in carried.point_names]))
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


def save_pruned(network: nn.Module, folder: str | Path) -> Path:
    """Write the network's tensors into `pruned.safetensors` in a folder, and return the path of the file.

    Example:
        >>> import tempfile, torch
        >>> from covary.layer_summary.prune import save_pruned
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_pruned(torch.nn.Linear(2, 2), folder).name
        'pruned.safetensors'
    """
    path = Path(folder) / PRUNED
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}))
    return path


def load_pruned(network: nn.Module, folder: str | Path) -> nn.Module:
    """The pruned network of a run with `--prune`, in evaluation mode; `network` stays as it is.

    The paths that `run.json` records as removed are removed, those that it records as replaced become stationary maps,
    and the tensors are those of `pruned.safetensors`.

    Arguments:
        network: The network of the run before pruning, built anew; its weights do not matter. That of `covary layers`
            is `Standardized`, and `Averaged` where an augmentation was learned.
        folder: The run's folder.

    Example:
        >>> import torch
        >>> from covary.layer_summary.prune import load_pruned
        >>> load_pruned(torch.nn.Linear(2, 2), "runs/none")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        covary.errors.DataError: runs/none cannot be read...
    """
    run, path = read_run(Path(folder)), Path(folder) / PRUNED
    record = run.pruned
    if record is None:
        raise StructureError(
            f"Expected a pruned run in {folder}, got one that was not. Run it again with --prune 0.01."
        )
    simple = _pruned(network, record, path)
    content = read_checked(Path(folder), PRUNED, run.files)
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise DataError(f"Expected saved weights in {path}, got an error: {error}. Run it again.") from error
    expected = {name: tensor.shape for name, tensor in simple.state_dict().items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if other := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        there, here = (tuple(shapes[other[0]]) if other[0] in shapes else "nothing" for shapes in (found, expected))
        raise StructureError(
            f"Expected {there} for '{other[0]}' as in {path}, got {here} in the network. Build it as the run did: the "
            "same variant and width, Standardized and Averaged where it was."
        )
    simple.load_state_dict(tensors)
    return simple


def _pruned(network: nn.Module, record: Pruning, path: Path) -> nn.Module:
    """A copy without the removed paths, and with stationary maps instead of the replaced ones."""
    simple = copy.deepcopy(network).eval()
    layers = {name: module for name, module in simple.named_modules() if isinstance(module, Relaxed)}
    for whole in (*record.removed, *record.replaced):
        name, _, key = whole.rpartition(".")
        if name not in layers or key not in layers[name].paths:
            raise StructureError(
                f"Expected a network with the path '{whole}' as in {path}, got one without. Build it as the run did: "
                "the same variant, Standardized and Averaged where it was."
            )
        if whole in record.removed:
            del layers[name].paths[key]
            continue
        sparse = layers[name].paths[key]
        if not isinstance(sparse, SparseDense):
            raise StructureError(
                f"Expected a SparseDense path '{whole}', which {path} has as a stationary map, got "
                f"{type(sparse).__name__}. Build the network as the run did, or run it again."
            )
        layers[name].paths[key] = stationary(sparse)
    return simple
