"""Networks side by side: their settings, records and means."""

import base64
import math
import warnings

import pytest

from covary.records import Evidence, Metrics, Pictures
from covary.reproduce.cells import compute_cells
from covary.reproduce.paper1 import comparison
from covary.reproduce.paper1.comparison import METHODS, Cell, Job, _few, config_of, group, sizes_of, standard_error
from covary.reproduce.study import Request


def cell(version: str, method: str, seed: int, accuracy: float) -> Cell:
    total = -500.0 - 100.0 * (1 - accuracy)
    evidence = None if method == "augerino" else Evidence(total, 0.0, 0.0, total, 200, "kron", "exact")
    test = Metrics(accuracy, 1 - accuracy, 0.01, 2000, 2)
    return Cell(version, method, seed, 200, test, evidence, {}, {}, {}, None, None, None, 10.0 + seed)


def test_rows_are_means_over_seeds():
    cells = [cell("scaled", method, seed, 0.9 + 0.02 * seed) for seed in (0, 1) for method in METHODS]
    row = group(cells, "scaled", "learned").row()
    assert row["accuracy %"] == pytest.approx(91.0)
    assert row["± standard error"] == pytest.approx(1.0)  # deviation √2 of two seeds, over √2
    assert (row["nll"], row["seconds"]) == pytest.approx((0.09, 10.5))
    assert row["evidence per datum"] == pytest.approx(-509.0 / 200)
    assert group(cells, "scaled", "augerino").row()["evidence per datum"] is None


def test_the_standard_error_of_one_seed_is_unknown():
    assert standard_error([1.0]) is None
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))


def test_settings_are_those_of_the_network_with_the_sizes_of_the_scale():
    request = Request("full", seed=3)
    config = config_of("cifar-10", "resnet-8-16", "translated", request, 70)
    assert (config.data, config.network, config.symmetrize) == ("cifar-10", "resnet-8-16", "translate:8")
    assert (config.num_train, config.fit.seed, config.fit.weights.optimizer) == (70, 3, "sgd")
    assert config.fit.hyper.estimator == "running"
    assert config_of("mnist", "mlp", "original", Request("paper"), None).fit.weights.batch_size == 1000
    assert sizes_of("paper", "resnet-8-8").settings["num_samples"] == 20


def test_a_record_keeps_one_image():
    pixels = base64.b64encode(bytes(range(2 * 9 * 4))).decode()
    few = _few(Pictures([2, 9, 1, 2, 2], pixels, ["a", "b"], [[float(i)] for i in range(8)]))
    assert few is not None
    assert (few.shape, few.labels, len(few.matrices)) == ([1, 7, 1, 2, 2], ["a"], 6)
    assert few.values() == bytes(range(7 * 4))
    assert _few(None) is None


@pytest.mark.parametrize("method", METHODS)
def test_a_network_is_trained_tested_and_kept(tmp_path, method):
    job = Job("scaled", method, config_of("mnist", "mlp", "scaled", Request("smoke"), 60), 3)
    folder = tmp_path / "cells"
    (found,) = compute_cells([job.spec("a")], folder, lambda name, done: None).values()
    assert compute_cells([job.spec("a")], folder, lambda name, done: None) == {"a": found}
    assert (found.version, found.method, found.num_train) == ("scaled", method, 60)
    assert found.test.num_samples == (1 if method == "plain" else 3)
    assert (found.evidence is None) == (method == "augerino")
    assert [len(widths) for widths in found.widths.values()] == ([] if method == "plain" else [2] * 6)
    assert found.learned.keys() == found.widths.keys()
    assert (found.samples is not None) == (method == "learned")
    assert found.true_widths["scale_x"] == pytest.approx(math.log(2))


def test_warnings_of_a_fit_are_kept_with_its_record(monkeypatch):
    def warned(method, config, task):
        warnings.warn("no width was learned", stacklevel=2)
        return trained(method, config, task)

    trained = comparison.trained
    monkeypatch.setattr(comparison, "trained", warned)
    with warnings.catch_warnings(record=True) as told:
        found = comparison._cell(Job("scaled", "plain", config_of("mnist", "mlp", "scaled", Request("smoke"), 60), 3))
    assert told == []
    assert found.problem is not None
    assert "no width was learned" in found.problem
    assert group([found], "scaled", "plain").row()["problems"] == 1
