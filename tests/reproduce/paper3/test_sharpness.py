"""Tables 2 and 3 of paper 3: rows, claims, and how a study grows."""

import math

import pytest

from covary.data import load
from covary.errors import StructureError
from covary.reproduce.paper3 import optimizer_bias
from covary.reproduce.paper3.figures import sharpness_figure
from covary.reproduce.paper3.optimizer_bias import Minimum
from covary.reproduce.paper3.sharpness import sharpness
from covary.reproduce.study import Options, Request
from report.drawn import texts


def minimum(accuracy: float, own: float, gap: float) -> Minimum:
    return Minimum(2.0, own, 0.1, accuracy, [2.0, 8.0, 0.5], [2.0, 2.0, 2.0], [gap] * 3, gap, 1.0)


@pytest.mark.parametrize("better", ["SGD", "Adam"])
def test_rows_stand_beside_the_papers_and_claims_follow(monkeypatch, better):
    def trained(chosen, job, data_dir, scaled):
        good = job[2] == better
        return minimum(0.95 if good else 0.90, 2.0 if job[2] == "SGD" else 50.0, 0.01 if good else 0.03)

    monkeypatch.setattr(optimizer_bias, "_minimum", trained)
    study = sharpness(Request("full", options=Options(data="cifar-10")))
    assert study.config["network"] == "wide-resnet-10-1"
    assert [row["paper's accuracy %"] for row in study.rows] == [94.9, 92.4]
    assert [row["paper's gap %"] for row in study.rows] == [5.2, 7.2]
    assert [row["seeds"] for row in study.rows] == [2, 2]
    held = {claim.sentence[:7]: claim.holds for claim in study.claims if "SGD" in claim.sentence}
    assert held == {"Table 2": better == "SGD", "Table 3": better == "SGD"}
    assert {"trace, two optimizers", "trace under ψ = cθ, SGD"} <= set(texts(sharpness_figure(study)))


def test_unknown_data_are_refused():
    with pytest.raises(StructureError, match="data"):
        sharpness(Request("smoke", options=Options(data="letters")))


def test_a_wide_network_is_measured_in_evaluation_mode_and_the_study_grows(tmp_path, monkeypatch):
    digits = load("mnist-mini")
    few = digits._replace(x_test=digits.x_test[:50], y_test=digits.y_test[:50])
    monkeypatch.setattr(optimizer_bias, "load", lambda name, data_dir: few)

    def studied(**options):
        return sharpness(Request("smoke", folder=tmp_path, options=Options(data="cifar-10", num_train=50, **options)))

    first = studied()
    assert all(math.isfinite(row["trace / N"]) for row in first.rows)
    assert next(claim for claim in first.claims if "4 times" in claim.sentence).holds
    trained = []
    monkeypatch.setattr(
        optimizer_bias, "_minimum", lambda chosen, job, *rest: trained.append(job) or minimum(0.5, 3.0, 0.1)
    )
    assert [row["seeds"] for row in studied(num_seeds=2).rows] == [2, 2]
    assert [job[1:] for job in trained] == [(1, "SGD"), (1, "Adam")]
