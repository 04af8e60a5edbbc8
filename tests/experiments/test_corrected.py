"""The corrected evidence of a saved run."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import covary
from covary.cli.app import app
from covary.evidence import Correction
from covary.experiments import Replacements, corrected_evidence, discover
from covary.experiments.build import prepared
from covary.records import read_run
from covary.training.schedule import EVALUATE, seed_for
from experiments.small import config


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    settings = config(root)
    for name, network in (("narrow", "mlp:3"), ("wide", "mlp:5")):
        discover(settings.replace(network=network), root / name)
    return root / "narrow", root / "wide", settings


def test_it_is_that_of_the_whole_matrix_at_the_saved_weights(folders):
    narrow, _, settings = folders
    found = corrected_evidence(narrow, Correction("exact"))
    run, data = covary.load(narrow), prepared(settings).dataset.train
    model = covary.Model(run.network, run.likelihood, run.prior)
    expected = covary.log_evidence(model, data, "full", seed=seed_for(settings.fit.seed, EVALUATE))
    assert found.log_evidence == pytest.approx(float(expected.log_evidence), rel=1e-9)
    assert (found.corrected_by, found.standard_error, found.num_data) == ("exact", 0.0, 30)
    assert found.log_evidence != pytest.approx(read_run(narrow).evidence.log_evidence, abs=0.1)  # the control
    with pytest.raises(covary.errors.CovaryError):
        corrected_evidence(narrow, Correction("exact"), Replacements(data="missing.npz"))


def test_compare_computes_it_on_request_and_uses_it_afterwards(folders):
    narrow, wide, _ = folders
    before = json.loads(CliRunner().invoke(app, ["compare", str(narrow), str(wide), "--json"]).stdout)
    asked = CliRunner().invoke(app, ["compare", str(narrow), str(wide), "--correction", "lanczos", "--json"])
    assert asked.exit_code == 0, asked.output
    found = json.loads(asked.stdout)
    assert {row["corrected_by"] for row in found["runs"]} == {"lanczos"}
    assert all(row["standard_error"] > 0 for row in found["runs"])
    assert {row["corrected_by"] for row in before["runs"]} == {None}
    again = json.loads(CliRunner().invoke(app, ["compare", str(narrow), str(wide), "--json"]).stdout)
    assert again == found
    (wide / "evidence.json").unlink()
    assert json.loads(CliRunner().invoke(app, ["compare", str(narrow), str(wide), "--json"]).stdout) == before


def test_other_data_than_those_of_the_run_are_refused(folders, tmp_path):
    narrow, _, settings = folders
    arrays = dict(np.load(settings.data))
    arrays["x_train"] = arrays["x_train"][::-1].copy()
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(covary.errors.StructureError, match="not those that the run in .* was trained on"):
        corrected_evidence(narrow, Correction("exact"), Replacements(data=str(tmp_path / "other.npz")))
