"""Every benchmark gives rows with the same keys, measured on something small."""

import pytest

from covary.benchmarks import curvature as curvature_file
from covary.benchmarks import evidence as evidence_file
from covary.benchmarks import peers as peers_file
from covary.benchmarks import scaling as scaling_file
from covary.benchmarks.figures import scaling_figure
from covary.benchmarks.measure import Memory, mlp_workload
from covary.errors import DataError

KEYS = {"workload", "probes", "seconds", "ratio", "peak_mb"}


def small(*_):
    return mlp_workload(6, 2, 10, 3)


@pytest.fixture(autouse=True)
def _small_workloads(monkeypatch):
    for module in (curvature_file, evidence_file, scaling_file):
        monkeypatch.setattr(module, "peak_memory", lambda build, name: Memory(1.0, 1.0))
    monkeypatch.setattr(curvature_file, "build_workload", small)
    monkeypatch.setattr(evidence_file, "build_workload", small)
    monkeypatch.setattr(evidence_file, "_has_photographs", lambda: True)
    monkeypatch.setattr(evidence_file, "_matmul_peak", lambda: 1e11)
    monkeypatch.setattr(scaling_file, "CENTER", {"N": 6, "S": 2, "C": 10, "hidden": 3})
    monkeypatch.setattr(scaling_file, "AXES", {"N": (4, 6), "C": (2, 12)})
    monkeypatch.setattr(scaling_file, "EPOCH_SIZES", ())
    monkeypatch.setattr(peers_file, "labeled_images", lambda num_data, num_outputs: _first_images(num_outputs))


def _first_images(num_outputs: int):
    workload = mlp_workload(20 if num_outputs == 10 else 100, 1, num_outputs, 3)
    return workload.x, workload.y


def test_curvature_rows_and_progress_from_0_to_1():
    seen = []
    rows = curvature_file.measure_curvature(1, lambda message, done: seen.append(done))
    assert seen[0] == 0.0
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(rows) == 6
    assert all(row.keys() >= KEYS for row in rows)
    assert [row["ratio"] for row in rows if row["pass"] == "training"] == [1.0, 1.0]
    assert all(("logdet_bias" in row) == (row["probes"] == 1) for row in rows)


def test_evidence_rows_have_the_bias_of_one_probe():
    rows = evidence_file.measure_evidence(1, lambda message, done: None)
    assert {row["workload"] for row in rows} == {"W1", "W2", "W2'", "W4"}
    assert all(row.keys() >= KEYS | {"peak_share"} for row in rows)
    assert all(("logdet_bias" in row) == (row["probes"] == 1) for row in rows)


def test_without_photographs_a_workload_is_left_out_and_said(monkeypatch):
    def absent(name):
        raise DataError(f"Data set '{name}' was not found.")

    monkeypatch.undo()
    monkeypatch.setattr(evidence_file.data, "load", absent)
    with pytest.warns(UserWarning, match="W4 is left out. Data set 'cifar-10' was not found."):
        assert not evidence_file._has_photographs()


def test_an_epoch_with_hyper_steps_takes_longer():
    training, learning = scaling_file.epoch_rows(300, "mlp:5")
    assert [row["pass"] for row in (training, learning)] == ["training", "learning"]
    assert training["ratio"] == 1.0 < learning["ratio"]
    assert {row["size"] for row in (training, learning)} == {300}
    scaling_figure([training, learning])


def test_scaling_rows_cover_every_size_and_can_be_drawn(tmp_path):
    rows = scaling_file.measure_scaling(1, lambda message, done: None)
    assert {(row["axis"], row["size"]) for row in rows} == {("N", 4), ("N", 6), ("C", 2), ("C", 12)}
    assert {row["pass"] for row in rows} == {"training", "one probe", "exact", "stochastic bound"}
    assert all(("gradient_bias" in row) == (row["pass"] == "one probe") for row in rows)
    figure = scaling_figure(rows)
    lines = [line for panel in figure.axes for line in panel.get_lines()]
    assert len(lines) == 3 + 4 + 2  # passes over N, passes over C, and the two whose memory over N was measured
    figure.savefig(tmp_path / "scaling.svg")
    assert (tmp_path / "scaling.svg").stat().st_size > 1000


def test_peer_rows_are_relative_to_covary():
    rows = peers_file.measure_peers(1, lambda message, done: None)
    assert all(row.keys() >= KEYS for row in rows)
    assert all(row["ratio"] == 1.0 for row in rows if row["pass"] == "covary")
