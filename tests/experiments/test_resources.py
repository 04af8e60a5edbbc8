"""The needs of a run: sizes against what the run then holds, times above 0."""

import re

import pytest
import torch

from covary import curvature
from covary.errors import StructureError
from covary.experiments import estimate_resources
from covary.experiments import resources as needs
from covary.experiments.build import Task, model, prepared
from covary.experiments.resources import OVERHEAD, _extrapolated, require_memory
from covary.priors import weights_of
from experiments.small import SETTINGS, bars, config


def typed(size: int) -> Task:
    """Images of another size, in float64."""
    data = bars()
    grown = [torch.nn.functional.interpolate(x, size=(size, size)).double() for x in (data.x_train, data.x_test)]
    return Task(data._replace(x_train=grown[0], x_test=grown[1]), {})


def num_bytes(matrix) -> int:
    """The bytes of everything that a curvature holds."""
    tensors = matrix.tensors
    parts = [part for block in tensors.values() for part in block] if isinstance(tensors, dict) else list(tensors)
    return sum(tensor.numel() * tensor.element_size() for tensor in parts)


@pytest.mark.parametrize(
    ("network", "name", "columns"),
    [
        ("mlp:5", "kron", 1),
        ("mlp:5-3", "kron", 1),
        ("lenet", "kron", 1),
        ("mlp:5", "diag", 1),
        ("mlp:3", "full", "exact"),
        ("relaxed:f-fc+conv:2", "kron", 1),
        ("relaxed:s-fc+s-conv:1", "kron", 1),
        ("relaxed:f-fc+conv+gconv:1", "kron", 1),
    ],
)
def test_bytes_of_factors_are_those_of_the_factors(tmp_path, network, name, columns):
    settings = config(tmp_path, network=network, fit=SETTINGS.replace(curvature=name, hyper={"probes": columns}))
    task = typed(28 if network == "lenet" else 6)
    built = model(settings, task)
    made = {"kron": curvature.kfac, "diag": curvature.diag, "full": curvature.full}[name]
    found = made(built, (task.dataset.x_train[:2], task.dataset.y_train[:2]))
    needs = estimate_resources(settings, task)
    assert sum(factor["bytes"] for factor in needs.factors) == num_bytes(found)
    assert needs.factor_bytes == 3 * num_bytes(found)
    assert needs.num_params == sum(weight.numel() for weight in built.network.parameters())


def test_the_sum_is_that_of_its_parts(tmp_path):
    settings = config(tmp_path)
    needs = estimate_resources(settings, prepared(settings))
    parts = (needs.data_bytes, needs.weight_bytes, needs.factor_bytes, needs.kernel_bytes, needs.activation_bytes)
    assert needs.total_bytes == sum(parts) + OVERHEAD
    assert needs.data_bytes == 2 * (30 + 10) * 36 * 8
    assert needs.weight_bytes == 5 * needs.num_params * 8
    # 30 images, 2 copies: flat image, hidden, its tanh, outputs; each with its gradient; image and grid
    assert needs.activation_bytes == 30 * 2 * (2 * (36 + 4 + 4 + 2) + 4 * 36) * 8


def test_without_augmentation_there_is_one_copy_and_no_grid(tmp_path):
    settings = config(tmp_path, augment="none")
    needs = estimate_resources(settings, prepared(settings))
    assert needs.num_samples == 1
    assert needs.activation_bytes == 30 * (2 * (36 + 4 + 4 + 2) + 36) * 8


@pytest.mark.parametrize(
    ("network", "name", "patches"),
    [
        ("relaxed:conv:2", "kron", 9 * 16 * 9),  # of the last layer, on 3 × 3 pixels: the first need no patches
        ("relaxed:conv:2", "kron-traced", 2 * 9 * 16 * 9),
        ("lenet", "kron", 24 * 24 * 25),  # of the first layer: 24 × 24 positions of 5 × 5 pixels
    ],
)
def test_patches_count(tmp_path, network, name, patches):
    task = typed(28 if network == "lenet" else 6)
    needs = [
        estimate_resources(config(tmp_path, network=network, augment="none", fit=fit), task)
        for fit in (SETTINGS.replace(curvature=kind) for kind in (name, "diag"))
    ]
    num_data = len(task.dataset.x_train)
    assert needs[0].activation_bytes - needs[1].activation_bytes == num_data * patches * 8


def test_half_the_precision_needs_half_the_bytes(tmp_path):
    single, double = (
        estimate_resources(settings, prepared(settings))
        for settings in (config(tmp_path, dtype=t) for t in ("float32", "float64"))
    )
    assert double.total_bytes - OVERHEAD == 2 * (single.total_bytes - OVERHEAD)


@pytest.mark.parametrize("estimator", ["two_pass", "kernel", "stochastic"])
def test_times_are_positive_and_add_up(tmp_path, estimator):
    settings = config(
        tmp_path, fit=SETTINGS.replace(epochs=11, hyper={"burn_in": 2, "every": 3, "estimator": estimator})
    )
    needs = estimate_resources(settings, prepared(settings))
    assert min(needs.epoch_seconds, needs.hyper_seconds, needs.evaluation_seconds) > 0
    expected = 11 * needs.epoch_seconds + 3 * needs.hyper_seconds + needs.evaluation_seconds
    assert needs.seconds == pytest.approx(expected)


@pytest.mark.parametrize("curvature", ["kron", "full"])
@pytest.mark.parametrize("hyper_data", [None, 5])
def test_kernels_are_counted(tmp_path, hyper_data, curvature):
    """One of M × M numbers for each weight and block of M data, whatever curvature layer summaries have."""
    exact = SETTINGS.replace(
        curvature=curvature, hyper={"num_data": hyper_data, "probes": "exact"}, evaluation={"probes": "exact"}
    )
    found = []
    for estimator in ("two_pass", "kernel"):
        settings = config(tmp_path, fit=exact.replace(hyper={"estimator": estimator}))
        task = prepared(settings)
        found.append(estimate_resources(settings, task))
    x = task.dataset.x_train
    num_weights = len(weights_of(model(settings, task)))
    assert [one.kernel_bytes for one in found] == [
        0,
        num_weights * len(x) * min(hyper_data or 100, len(x)) * x.element_size(),
    ]
    assert num_weights == 4


def test_a_block_goes_through_whole_with_all_its_copies(tmp_path):
    fit = SETTINGS.replace(hyper={"estimator": "kernel", "num_data": None})
    few, many = (
        estimate_resources(settings, prepared(settings)).activation_bytes
        for settings in (config(tmp_path, fit=fit.replace(hyper={"num_samples": samples})) for samples in (1, 4000))
    )
    assert many > 2 * few


@pytest.mark.parametrize(("prune", "num_passes"), [(None, 2), (0.1, 4)])
def test_a_read_out_and_a_pruning_are_passes_too(tmp_path, prune, num_passes):
    settings = config(tmp_path, network="relaxed:conv:1", augment="none", prune=prune)
    needs = estimate_resources(settings, prepared(settings))
    expected = 3 * needs.epoch_seconds + 2 * needs.hyper_seconds + num_passes * needs.evaluation_seconds
    assert needs.seconds == pytest.approx(expected)


def test_a_plan_leaves_the_data_and_the_network_alone(tmp_path):
    settings = config(tmp_path)
    task = prepared(settings)
    before = task.dataset.x_train.clone()
    estimate_resources(settings, task)
    assert task.dataset.x_train.equal(before)


@pytest.mark.parametrize(
    ("times", "num_data", "expected"),
    [
        ({50: 2.0, 100: 3.0}, 1000, 21.0),  # 1 + 0.02 n
        ({50: 3.0, 100: 2.0}, 1000, 20.0),  # noise: through the origin
        ({50: 2.0, 100: 3.0}, 100, 3.0),
        ({1: 2.0}, 1, 2.0),
    ],
)
def test_extrapolation_is_a_straight_line(times, num_data, expected):
    assert _extrapolated(times, num_data) == pytest.approx(expected)


def test_what_cannot_fit_is_refused_and_not_probed(tmp_path, monkeypatch):
    settings = config(tmp_path)
    task = prepared(settings)
    require_memory(settings, task)
    monkeypatch.setattr(needs, "available_memory", lambda: 100 << 20)
    with pytest.raises(StructureError, match=r"needs about 0\.4 GiB \(data 0\.0, .*this machine has 0\.1 GiB"):
        require_memory(settings, task)
    assert estimate_resources(settings, task).seconds is None


@pytest.mark.parametrize("work", [estimate_resources, require_memory])
@pytest.mark.parametrize("network", ["relaxed:f-fc+conv:1000", "mlp:100000-100000", "relaxed:s-fc:1"])
def test_a_network_that_cannot_fit_is_refused_before_it_is_built(tmp_path, monkeypatch, work, network):
    settings = config(tmp_path, network=network, augment="none", dtype="float32")
    task = prepared(settings)
    if network == "relaxed:s-fc:1":  # few weights, but all pairs of 256 × 256 positions
        x = torch.zeros(30, 1, 256, 256, dtype=torch.float32)
        task = task._replace(dataset=task.dataset._replace(x_train=x))
    monkeypatch.setattr(needs, "available_memory", lambda: 1 << 30)
    monkeypatch.setattr(needs, "model", lambda config, task: pytest.fail("built"))
    with pytest.raises(StructureError, match=f"'{re.escape(network)}' has [0-9,]+ weights on data of .*narrower"):
        work(settings, task)
