"""Simpler networks in a file and back: the same outputs, and an error for what does not belong together."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import nn

import covary
from covary.errors import DataError, StructureError
from covary.layer_summary import prune
from covary.layer_summary.prune import PRUNED, load_pruned, save_pruned
from covary.layers import Dense
from covary.priors import Prior, mean_precisions
from covary.records import Evidence, Pruning, RunRecord, read_run, write_run
from covary.records.checksums import checksums
from layer_summary.small import noise, relaxed_pair
from layer_summary.test_prune import OFF, sparse_pair, with_inactive_path


def record_of(pruned: Pruning | None) -> RunRecord:
    return RunRecord("a run", {}, {}, [], None, None, [], [], [], None, [], None, {}, 1.0, pruned=pruned)


def written(folder: Path, network: nn.Module, prior: Prior) -> nn.Module:
    """The simpler network, whose run lies in the folder."""
    simple = prune(covary.Model(network, prior=prior), noise())
    evidence = Evidence(0.0, 0.0, 0.0, 0.0, 6, "kron", "exact")
    counts = (simple.num_params, simple.num_params_before)
    changes = (simple.max_change, simple.mean_change)
    paths = (list(simple.removed), list(simple.replaced))
    precisions = mean_precisions(simple.model.prior)
    done = Pruning(0.01, *paths, *counts, evidence, evidence, *changes, None, precisions)
    save_pruned(simple.model.network, folder)
    write_run(dataclasses.replace(record_of(done), files=checksums(folder, (PRUNED,))), folder / "run.json")
    return simple.model.network


def with_other_numbers(network: nn.Module) -> nn.Module:
    for parameter in network.parameters():
        parameter.data.uniform_(generator=torch.Generator().manual_seed(0))
    return network


def test_a_network_without_its_removed_paths_comes_back(tmp_path):
    network = with_inactive_path()
    simple = written(tmp_path, network, Prior(network, precision={**OFF, "*": 2.0}))
    built = with_other_numbers(relaxed_pair())
    loaded = load_pruned(built, tmp_path)
    assert list(loaded[0].paths) == ["conv"]
    assert torch.equal(loaded(noise()[0]), simple(noise()[0]))
    assert list(built[0].paths) == ["fc", "conv"]  # as it was
    assert not torch.allclose(built(noise()[0]), simple(noise()[0]))


def test_the_prior_comes_back_with_the_network(tmp_path):
    network = sparse_pair(1e-6)
    prior = Prior(network)
    with torch.no_grad():
        prior.log_precision.add_(torch.linspace(-1, 1, len(prior.log_precision)))
    expected = prune(covary.Model(network, prior=prior), noise())
    written(tmp_path, network, prior)
    loaded = load_pruned(sparse_pair(1.0), tmp_path)
    again = Prior(loaded, precision=read_run(tmp_path).pruned.precisions)
    found = covary.log_evidence(covary.Model(loaded, prior=again), noise())
    assert float(found.log_evidence) == pytest.approx(float(expected.evidence.log_evidence), rel=1e-12)


def test_stationary_maps_come_back(tmp_path):
    network = sparse_pair(1e-6)
    simple = written(tmp_path, network, Prior(network))
    loaded = load_pruned(with_other_numbers(sparse_pair(1.0)), tmp_path)
    assert {name: type(path) for name, path in loaded[0].paths.items()} == {
        name: type(path) for name, path in simple[0].paths.items()
    }
    assert torch.equal(loaded(noise()[0]), simple(noise()[0]))


def test_a_stationary_map_has_the_place_of_no_other_path(tmp_path):
    network = sparse_pair(1e-6)
    written(tmp_path, network, Prior(network))
    built = sparse_pair(1.0)
    built[0].paths["s-fc"] = Dense((1, 4, 4), (2, 2, 2))
    with pytest.raises(StructureError, match=r"path '0\.s-fc', .* got Dense\. Build"):
        load_pruned(built, tmp_path)


def test_what_does_not_belong_together_is_told(tmp_path):
    network = with_inactive_path()
    written(tmp_path, network, Prior(network, precision={**OFF, "*": 2.0}))
    with pytest.raises(StructureError, match=r"the path '0\.fc' as in .*, got one without"):
        load_pruned(sparse_pair(1.0), tmp_path)
    with pytest.raises(StructureError, match=r"\(2,\) for '0\.paths\.conv\.bias' .*, got \(3,\) in the network"):
        load_pruned(relaxed_pair(3), tmp_path)
    with pytest.raises(StructureError, match=r"Expected nothing for '6\.bias'"):
        load_pruned(relaxed_pair().append(nn.Linear(2, 2)), tmp_path)
    (tmp_path / "pruned.safetensors").write_bytes(b"no tensors")
    with pytest.raises(DataError, match="its SHA-256 is not that in run.json"):
        load_pruned(relaxed_pair(), tmp_path)
    write_run(record_of(None), tmp_path / "run.json")
    with pytest.raises(StructureError, match="Expected a pruned run"):
        load_pruned(relaxed_pair(), tmp_path)
