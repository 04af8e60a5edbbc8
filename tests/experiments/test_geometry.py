"""Sharpness and evidence of a saved run against dense ones."""

import json
from dataclasses import replace

import pytest
import torch

import covary
from covary import geometry
from covary.errors import DataError, StructureError
from covary.evidence import chart_evidence
from covary.experiments import Replacements, discover, saved_geometry
from covary.experiments.geometry import _saved
from covary.records import read_run, write_run
from experiments.small import config


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run")
    discover(config(place), place / "run")
    return place / "run"


def measured(folder, **changes):
    given = {"num_images": None, "seed": 0} | changes
    return saved_geometry(folder, Replacements(), **given, progress=lambda message, done: None)


def test_the_network_is_the_one_that_was_saved(folder):
    saved = _saved(read_run(folder), folder, None, Replacements())
    run = read_run(folder)
    terms = covary.log_evidence(covary.Model(saved.network, prior=saved.prior), tuple(saved.batch), seed=saved.seed)
    assert len(saved.batch.x) == run.evidence.num_data
    assert float(terms.log_evidence) == pytest.approx(run.evidence.log_evidence, rel=1e-9)


def test_numbers_are_those_of_dense_matrices(folder):
    saved = _saved(read_run(folder), folder, None, Replacements())
    weights, data = saved.prior.weights(saved.network), tuple(saved.batch)
    chart = geometry.network_chart(weights, {"*.weight": geometry.polar_of})
    rows = {(row["chart"], row["kind"]): row for row in measured(folder).rows}
    dense = geometry.gauss_newton(saved.network, data, seed=saved.seed).to_dense()
    entries = geometry.flat_metric(saved.prior.shifts(), weights)
    for kind, matrix in {"naive": dense, "metric-aware": entries.rsqrt()[:, None] * dense * entries.rsqrt()}.items():
        row = rows["Cartesian", kind]
        assert abs(row["trace"] - float(matrix.trace())) <= 3 * row["trace ±"] + 1e-9 * float(matrix.trace())
        assert row["eigenvalue"] == pytest.approx(float(torch.linalg.eigvalsh(matrix)[-1]), rel=1e-6)
    for name, where in {"Cartesian": geometry.CARTESIAN, "polar": chart}.items():
        known = chart_evidence(covary.Model(saved.network, prior=saved.prior), data, where, seed=saved.seed)
        for kind, terms in {"naive": known.naive, "metric-aware": known.proper}.items():
            row = rows[name, kind]
            assert abs(row["log evidence"] - float(terms.log_evidence)) <= 3 * row["log evidence ±"] + 1e-6
    assert abs(rows["polar", "naive"]["log evidence"] - rows["Cartesian", "naive"]["log evidence"]) > 1


def test_the_study_says_what_depends_on_the_coordinates(folder):
    study = measured(folder, num_images=7, seed=3)
    assert (study.config["num_images"], study.config["probe_seed"]) == (7, 3)
    assert json.loads(json.dumps(study.rows, allow_nan=False)) == study.rows
    assert [claim.holds for claim in study.claims[1:]] == [True] * 3


def test_a_row_without_direction_stays_cartesian():
    chart = covary.experiments.geometry._polar_or_cartesian
    weight = torch.ones(2, 3)
    assert "polar" in chart(weight).name
    weight[1] = 0
    assert chart(weight) is geometry.CARTESIAN
    assert chart(torch.ones(3)) is geometry.CARTESIAN


def test_a_run_that_cannot_be_rebuilt_is_refused(folder, tmp_path):
    run = read_run(folder)
    fit_only = {name: value for name, value in run.config.items() if name != "network"}
    write_run(replace(run, config=fit_only), tmp_path / "run.json")
    with pytest.raises(StructureError, match="does not keep how its network was made"):
        measured(tmp_path)
    write_run(run, tmp_path / "run.json")
    with pytest.raises(DataError, match="model.safetensors' cannot be read"):
        measured(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    write_run(replace(run, config=run.config | {"network": "mlp:5"}), tmp_path / "run.json")
    with pytest.raises(StructureError, match="may have changed since"):
        measured(tmp_path)


def test_baselines_of_the_run_are_no_matter(folder):
    """Widths without their baseline are those of a run by an earlier covary, which took them."""
    run = read_run(folder)
    for other in ({"fixed_widths": {"rotation": 1.5}}, {"baselines": ["plain"]}, {"relaxation": 0.3}):
        saved = _saved(replace(run, config=run.config | other), folder, None, Replacements())
        assert len(saved.batch.x) == run.evidence.num_data


def test_the_parametrization_is_recorded(folder):
    assert read_run(folder).config["parametrization"] == "Cartesian"
