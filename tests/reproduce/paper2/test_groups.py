"""The study of several symmetry groups: what it claims when."""

import pytest

from covary.reproduce.paper2.groups import NETWORK, VERSIONS, _claims, several_groups
from covary.reproduce.paper2.layer_study import EVIDENCE, MAP, Cell, Job
from covary.reproduce.study import Request
from reproduce.relaxed_cells import cell, cells_of

# GCONV's mean fraction over two layers, as in the paper.
GROUP = {"MNIST": 0.75, "translated MNIST": 0.77, "rotated MNIST": 0.83, "CIFAR-10": 0.56, "rotated CIFAR-10": 0.82}


def layers(mean: float) -> list[dict[str, float]]:
    return [{"f-fc": 0.05, "conv": 0.95 - share, "gconv": share} for share in (mean - 0.1, mean + 0.1)]


def cells(
    changes: dict[str, float] | None = None,
    accuracies: dict[str, float] | None = None,
    losses: dict[str, float] | None = None,
) -> list[Cell]:
    """The cells of the paper's pattern, with other shares of GCONV, accuracies or losses by the evidence."""
    group = GROUP | (changes or {})
    accuracy, loss = dict.fromkeys(VERSIONS, 0.8) | (accuracies or {}), dict.fromkeys(VERSIONS, 0.6) | (losses or {})
    alone = [cell(data, NETWORK, MAP, 0.7, loss=0.9) for data in VERSIONS]
    learned = [cell(data, NETWORK, EVIDENCE, accuracy[data], layers(group[data]), loss[data]) for data in VERSIONS]
    return [*alone, *learned]


def failed(found: list[Cell]) -> set[str]:
    return {claim.sentence for claim in _claims(cells_of(found)) if not claim.holds}


def test_all_hold_on_the_figures_of_the_paper():
    assert len(_claims(cells_of(cells()))) == 11
    assert failed(cells()) == set()


@pytest.mark.parametrize("data", VERSIONS)
def test_the_evidence_must_beat_map_on_each(data):
    assert failed(cells(accuracies={data: 0.7})) == {f"{data}: evidence beats MAP, accuracy"}
    assert failed(cells(losses={data: 0.9})) == {f"{data}: evidence beats MAP, test loss"}


@pytest.mark.parametrize("changes", [{"MNIST": 0.825}, {"rotated MNIST": 0.76}, {"rotated CIFAR-10": 0.5}])
def test_both_rotated_sets_must_be_above_all_others(changes):
    assert failed(cells(changes)) == {"the GCONV share is highest on the rotated sets"}


@pytest.fixture
def seen(monkeypatch) -> list[Job]:
    """The jobs of studies that train nothing, and find the figures of the paper."""
    jobs_seen: list[Job] = []
    monkeypatch.setattr(
        "covary.reproduce.paper2.groups.train_all",
        lambda jobs, scale, request: jobs_seen.extend(jobs) or cells_of(cells(), scale, request),
    )
    return jobs_seen


def test_rows_have_the_columns_of_the_table(seen):
    study = several_groups(Request("cpu"))
    rotated = next(row for row in study.rows if (row["data"], row["method"]) == ("rotated MNIST", EVIDENCE))
    assert rotated["gconv %"] == "83 (73–93)"
    assert rotated["f-fc %"] == "5 (5–5)"
    assert {job.config.symmetrize for job in seen if job.data.startswith("rotated")} == {"rotate:180"}
    several_groups(Request("smoke"))
    assert {job.config.data for job in seen[10:]} == {"mnist-mini"}
    assert [job.config.symmetrize for job in seen[:10]] == [job.config.symmetrize for job in seen[10:]]


def test_at_the_paper_s_scale_digits_are_trained_for_fewer_epochs(seen):
    several_groups(Request("paper"))
    assert {(job.config.data, job.config.fit.epochs) for job in seen} == {("mnist", 1000), ("cifar-10", 4000)}
