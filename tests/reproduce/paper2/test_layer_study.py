"""The training that the studies of layer-wise equivariance share: settings, two methods, and cells."""

import math
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn

from covary.errors import StructureError
from covary.experiments.build import model, prepared
from covary.experiments.starts import Choice
from covary.layers import Conv, FactoredDense, Relaxed
from covary.records import from_plain
from covary.reproduce.paper2 import layer_study
from covary.reproduce.paper2.layer_study import (
    EVIDENCE,
    MAP,
    SMOKE,
    Cell,
    Job,
    Scale,
    Version,
    train_all,
)
from covary.reproduce.study import Options, Request
from experiments.small import config
from reproduce.relaxed_cells import cell, cells_of

SEEDS = {0: (0.6, 1.0), 1: (0.8, 2.0)}
TINY = SMOKE.replace(weights={"batch_size": 15})


def trained(jobs: list[Job], processes: int = 1, **request) -> list[Cell]:
    return train_all(jobs, replace(Scale(1, 1, 4, SMOKE), processes=processes), Request(**request)).all


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
    request = Request(seed=5)
    found = scale.config("s-fc:weight", Version("cifar-10", "rotate:180"), request)
    assert (found.network, found.symmetrize, found.num_train, found.size) == (
        "relaxed:s-fc:3:weight",
        "rotate:180",
        70,
        16,
    )
    assert (found.fit, found.train_augment) == (SMOKE.replace(seed=5), "flips+shifts")
    assert found.standardize
    plain = scale.config("conv", Version("mnist", task="digit"), request)
    assert (plain.network, plain.task, plain.train_augment) == ("relaxed:conv:3", "digit", "none")
    own = {"alpha": 3, "num_train": 70, "size": 16, "processes": 1, "train_augment": "flips+shifts", "relaxation": 1.0}
    own |= {"start": "given", "num_seeds": 1}
    follow = replace(scale, fit=SMOKE.replace(weights={"prior_scaled_lr": True}), relaxation=0.3)
    assert follow.config("f-fc+conv", Version("mnist"), request).relaxation == 0.3
    assert scale.as_dict() == own | SMOKE.as_dict()


def test_map_has_neither_evidence_nor_layers_and_the_evidence_has_both(tmp_path):
    seen: list[tuple[str, float]] = []
    chosen = jobs(tmp_path, "reproduce.paper2.test_layer_study:two_paths")
    strict, learned = trained(chosen, progress=lambda message, done: seen.append((message, done)))
    assert seen == [("bars, F-FC+CONV, MAP, seed 0", 0.0), ("bars, F-FC+CONV, evidence, seed 0", 0.5)]
    assert (strict.evidence, strict.layers) == (None, [])
    assert learned.evidence.num_data == 30
    assert [path.name for path in learned.layers[0].paths] == ["f-fc", "conv"]
    network = model(chosen[0].config, prepared(chosen[0].config))
    assert strict.num_params == learned.num_params == sum(weight.numel() for weight in network.parameters())


def test_map_ascends_the_log_joint_with_precision_one(tmp_path):
    """One step of Adam from zero moments moves each weight by its rate against the sign of the gradient."""
    rates = {"lr": 1e-3, "lr_min": 1e-3, "relative_lr": None, "max_grad_norm": None}
    fit = TINY.replace(epochs=1, weights={"batch_size": 30, **rates})
    job = jobs(tmp_path)[0]
    job = job._replace(config=replace(job.config, fit=fit))
    (found,) = trained([job])
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
def test_two_at_a_time_give_the_same(tmp_path):
    torch.set_default_dtype(torch.float32)  # another process has torch's own, in which weights are drawn
    seen: list[float] = []
    report = lambda message, done: seen.append(done)  # noqa: E731
    together = trained(jobs(tmp_path), 2, folder=tmp_path / "cells", progress=report)
    assert seen == [0.5, 1.0]
    assert len(list((tmp_path / "cells").iterdir())) == 2
    for one, other in zip(together, trained(jobs(tmp_path)), strict=True):
        assert one.method == other.method
        assert one.test.nll == pytest.approx(other.test.nll, rel=1e-9)
    assert cells_of([together[0], together[0]], Scale(1, 1, 4, SMOKE, 2)).seconds == together[0].seconds


@pytest.mark.slow
def test_an_error_in_another_process_is_raised(tmp_path):
    job = jobs(tmp_path)[0]
    broken = job._replace(config=replace(job.config, network="nothing"))
    with pytest.raises(StructureError, match="Expected a network among .*got 'nothing'"):
        trained([broken], 2)


def test_finished_cells_are_not_trained_again(tmp_path, monkeypatch):
    first = trained(jobs(tmp_path), folder=tmp_path / "cells")
    monkeypatch.setattr("covary.reproduce.paper2.layer_study.prepared", None)  # all training fails
    assert trained(jobs(tmp_path), folder=tmp_path / "cells") == first
    with pytest.raises(TypeError):
        trained(jobs(tmp_path), folder=tmp_path / "other")


def test_cells_are_read_from_plain_numbers():
    whole = cell("digit", "CONV", EVIDENCE, 0.9, [{"conv": 1.0}])
    assert from_plain(asdict(whole), Cell, "cell") == whole


def test_a_line_of_a_table():
    found = cell("digit", "CONV", EVIDENCE, 0.9).row()
    assert (found["accuracy %"], found["evidence per datum"], found["parameters"]) == (90.0, -2.0, 1234)
    assert cell("digit", "CONV", MAP, 0.9).row()["evidence per datum"] is None


def test_accuracies_are_those_of_the_cell_that_is_named():
    found = [cell("a", "CONV", MAP, 0.5), cell("a", "CONV", EVIDENCE, 0.7), cell("b", "CONV", MAP, 0.9)]
    cells = cells_of(found)
    assert cells.accuracy("a", "CONV", MAP) == 0.5
    assert cells.accuracy("b", "CONV", MAP) == 0.9
    assert cells.best_accuracy("a", "CONV") == 0.7


def test_shares_are_mean_minimum_and_maximum_over_layers():
    shares = cell("a", "b", EVIDENCE, 0.5, [{"conv": 0.2, "fc": 0.8}, {"conv": 0.6, "fc": 0.4}]).shares()
    assert shares["conv"] == pytest.approx((0.4, 0.2, 0.6))
    assert shares["fc"] == pytest.approx((0.6, 0.4, 0.8))


def test_the_best_start_is_chosen_for_sums_of_paths_by_the_evidence_alone(tmp_path, monkeypatch):
    chosen = config(tmp_path, network="relaxed:f-fc+conv:1", augment="none", size=4, standardize=True, fit=TINY)
    jobs_made = [Job("bars", "F-FC+CONV", method, chosen) for method in (MAP, EVIDENCE)]
    asked = []
    monkeypatch.setattr(
        layer_study, "best_start", lambda config, task: asked.append(config) or Choice("free", config, {})
    )
    request = Request(folder=tmp_path / "cells")
    cells = train_all(jobs_made, replace(Scale(1, 1, 4, SMOKE), start="best"), request)
    assert asked == [chosen]
    assert [found.start for found in cells.all] == ["given", "free"]
    with pytest.raises(StructureError, match="start = 'best'"):
        train_all(jobs_made, Scale(1, 1, 4, SMOKE), request)


def test_means_are_over_seeds():
    both = [replace(cell("a", "CONV", MAP, accuracy, loss=loss), seed=seed) for seed, (accuracy, loss) in SEEDS.items()]
    found = cells_of(both)
    assert found.accuracy("a", "CONV", MAP) == pytest.approx(0.7)
    assert found.loss("a", "CONV", MAP) == pytest.approx(1.5)


def test_options_change_sizes_and_seeds():
    request = Request(seed=2, options=Options(num_train=7, num_seeds=2, processes=1))
    scale = Scale(1, 1, 4, SMOKE, processes=2).with_options(request)
    assert (scale.num_train, scale.processes) == (7, 1)
    assert [seeded.seed for seeded in scale.requests(request)] == [2, 3]
