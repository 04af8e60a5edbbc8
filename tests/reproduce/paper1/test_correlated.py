"""Independent against correlated coefficients: rows and claims."""

from dataclasses import replace

import pytest

from covary.reproduce.paper1 import comparison
from covary.reproduce.paper1.correlated import correlated
from covary.reproduce.paper1.table1 import table2
from covary.reproduce.study import Options, Request
from reproduce.paper1.test_comparison import cell


@pytest.mark.parametrize("better", ["correlated", "independent"])
def test_claims_follow_accuracy_and_evidence(monkeypatch, better):
    def trained(job):
        made = cell(job.version, job.method, job.config.fit.seed, 0.9 if job.version == better else 0.8)
        known = [[1.0, 0.7], [0.7, 1.0]] if job.config.augment == "correlated" else None
        widths = {"scale_x": 0.5, "scale_y": 0.6}
        return replace(made, learned=widths, true_widths={"scale_x": 0.69}, correlation=known)

    monkeypatch.setattr(comparison, "_cell", trained)
    study = correlated(Request("smoke", options=Options(num_seeds=2)))
    assert [row["coefficients"] for row in study.rows] == ["independent", "correlated"] * 2
    assert [row["correlation of scales"] for row in study.rows] == [None, 0.7] * 2
    assert [claim.holds for claim in study.claims] == [better == "correlated"] * 2


def test_table_2_is_of_one_network_and_version(monkeypatch):
    monkeypatch.setattr(comparison, "_cell", lambda job: cell(job.version, job.method, job.config.fit.seed, 0.5))
    study = table2(Request("full", options=Options(processes=1)))
    assert [(row["version"], row["paper's accuracy %"]) for row in study.rows] == [
        ("original", 79.5),
        ("original", 83.0),
        ("original", 88.1),
    ]
    assert study.config["network"] == "resnet-14-16"
