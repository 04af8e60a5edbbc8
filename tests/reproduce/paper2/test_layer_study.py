"""What the studies of layer-wise equivariance share: settings, training in two ways, and reading of cells."""

import math
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn

from covary.errors import StructureError
from covary.experiments.build import model, prepared
from covary.layers import Conv, FactoredDense, Relaxed
from covary.records import from_plain
from covary.reproduce.paper2.layer_study import (
    EVIDENCE,
    MAP,
    SMOKE,
    Cell,
    Job,
    Scale,
    Version,
    accuracy,
    best_accuracy,
    configuration,
    row,
    settings,
    shares,
    spent,
    train_all,
)
from experiments.small import config
from reproduce.relaxed_cells import cell

TINY = SMOKE.replace(weights={"batch_size": 15})


def quiet(message: str, done: float) -> None:
    """Nothing."""


def two_paths(image_shape: tuple[int, int, int], num_outputs: int) -> nn.Module:
    """A relaxed layer of two channels, and a linear one."""
    shape = (2, *image_shape[1:])
    paths = {"f-fc": FactoredDense(image_shape, shape), "conv": Conv(image_shape[0], 2)}
    return nn.Sequential(Relaxed(paths), nn.ReLU(), nn.Flatten(), nn.Linear(math.prod(shape), num_outputs))


def jobs(folder, network: str = "mlp:4") -> list[Job]:
    chosen = config(folder, network=network, augment="none", standardize=True, fit=TINY)
    return [Job("bars", "F-FC+CONV", method, chosen) for method in (MAP, EVIDENCE)]


def test_settings_of_a_network():
    scale = Scale(3, 70, 16, SMOKE, train_augment="flips+shifts")
    found = settings("s-fc:weight", Version("cifar-10", "rotate:180"), scale, 5, None)
    assert (found.network, found.symmetrize, found.num_train, found.size) == (
        "relaxed:s-fc:3:weight",
        "rotate:180",
        70,
        16,
    )
    assert (found.fit, found.train_augment) == (SMOKE.replace(seed=5), "flips+shifts")
    assert found.standardize
    plain = settings("conv", Version("mnist", task="digit"), scale, 5, None)
    assert (plain.network, plain.task, plain.train_augment) == ("relaxed:conv:3", "digit", "none")
    own = {"alpha": 3, "num_train": 70, "size": 16, "processes": 1, "train_augment": "flips+shifts", "relaxation": 1.0}
    follow = replace(scale, fit=SMOKE.replace(weights={"prior_scaled_lr": True}), relaxation=0.3)
    assert settings("f-fc+conv", Version("mnist"), follow, 5, None).relaxation == 0.3
    assert configuration(scale, 5) == own | SMOKE.replace(seed=5).as_dict()


def test_map_has_neither_evidence_nor_layers_and_the_evidence_has_both(tmp_path):
    told: list[tuple[str, float]] = []
    chosen = jobs(tmp_path, "reproduce.paper2.test_layer_study:two_paths")
    strict, learned = train_all(chosen, None, lambda message, done: told.append((message, done)))
    assert told == [("bars, F-FC+CONV, MAP", 0.0), ("bars, F-FC+CONV, evidence", 0.5)]
    assert (strict.evidence, strict.layers) == (None, [])
    assert learned.evidence.num_data == 30
    assert [path.name for path in learned.layers[0].paths] == ["f-fc", "conv"]
    network = model(chosen[0].config, prepared(chosen[0].config))
    assert strict.num_params == learned.num_params == sum(weight.numel() for weight in network.parameters())


def test_map_climbs_the_log_joint_with_precision_one(tmp_path):
    """One step of Adam from zero moments moves each weight by its rate against the sign of the gradient."""
    rates = {"lr": 1e-3, "lr_min": 1e-3, "relative_lr": None, "max_grad_norm": None}
    fit = TINY.replace(epochs=1, weights={"batch_size": 30, **rates})
    job = jobs(tmp_path)[0]
    job = job._replace(config=replace(job.config, fit=fit))
    found = train_all([job], None, quiet)[0]
    task = prepared(job.config)
    network, (x, y) = model(job.config, task), task.dataset.train
    loss = torch.nn.functional.cross_entropy(network(x), y)
    decay = sum(weight.square().sum() for weight in network.parameters()) / (2 * len(x))
    (loss + decay).backward()
    with torch.no_grad():
        for weight in network.parameters():
            rate = 1e-4 if weight.numel() == 1 else 1e-3
            weight -= rate * weight.grad / (weight.grad.abs() + 1e-8)
        nll = torch.nn.functional.cross_entropy(network(task.dataset.x_test), task.dataset.y_test)
    assert found.test.nll == pytest.approx(float(nll), rel=1e-9)


@pytest.mark.slow
def test_two_at_a_time_come_to_the_same(tmp_path):
    torch.set_default_dtype(torch.float32)  # another process has torch's own, in which weights are drawn
    told: list[float] = []
    together = train_all(jobs(tmp_path), tmp_path / "cells", lambda message, done: told.append(done), processes=2)
    assert told == [0.5, 1.0]
    assert len(list((tmp_path / "cells").iterdir())) == 2
    for one, other in zip(together, train_all(jobs(tmp_path), None, quiet), strict=True):
        assert one.method == other.method
        assert one.test.nll == pytest.approx(other.test.nll, rel=1e-9)
    assert spent([together[0], together[0]], Scale(1, 1, 4, SMOKE, 2)) == together[0].seconds


@pytest.mark.slow
def test_an_error_in_another_process_is_told(tmp_path):
    job = jobs(tmp_path)[0]
    broken = job._replace(config=replace(job.config, network="nothing"))
    with pytest.raises(StructureError, match="Expected a network among .*got 'nothing'"):
        train_all([broken], None, quiet, processes=2)


def test_finished_cells_are_not_trained_again(tmp_path, monkeypatch):
    first = train_all(jobs(tmp_path), tmp_path / "cells", quiet)
    monkeypatch.setattr("covary.reproduce.paper2.layer_study.prepared", None)  # whatever trains fails
    assert train_all(jobs(tmp_path), tmp_path / "cells", quiet) == first
    with pytest.raises(TypeError):
        train_all(jobs(tmp_path), tmp_path / "other", quiet)


def test_cells_come_back_from_plain_numbers():
    whole = cell("digit", "CONV", EVIDENCE, 0.9, [{"conv": 1.0}])
    assert from_plain(asdict(whole), Cell, "cell") == whole


def test_a_line_of_a_table():
    found = row(cell("digit", "CONV", EVIDENCE, 0.9))
    assert (found["accuracy %"], found["evidence per datum"], found["parameters"]) == (90.0, -2.0, 1234)
    assert row(cell("digit", "CONV", MAP, 0.9))["evidence per datum"] is None


def test_accuracies_are_those_of_the_cell_that_is_named():
    cells = [cell("a", "CONV", MAP, 0.5), cell("a", "CONV", EVIDENCE, 0.7), cell("b", "CONV", MAP, 0.9)]
    assert accuracy(cells, "a", "CONV", MAP) == 0.5
    assert accuracy(cells, "b", "CONV", MAP) == 0.9
    assert best_accuracy(cells, "a", "CONV") == 0.7


def test_shares_are_mean_least_and_most_over_layers():
    layers = cell("a", "b", EVIDENCE, 0.5, [{"conv": 0.2, "fc": 0.8}, {"conv": 0.6, "fc": 0.4}]).layers
    assert shares(layers)["conv"] == pytest.approx((0.4, 0.2, 0.6))
    assert shares(layers)["fc"] == pytest.approx((0.6, 0.4, 0.8))
