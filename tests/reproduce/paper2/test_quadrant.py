"""The study of tasks with and without a symmetry: what it claims when."""

import pytest

from covary.reproduce.paper2.layer_study import EVIDENCE, MAP, METHODS, Cell
from covary.reproduce.paper2.quadrant import BOTH, DIGIT, NETWORKS, SCALES, _claims, _speed, quadrant
from covary.reproduce.study import Request
from reproduce.relaxed_cells import cell, cells_of

# As in the paper.
LEVELS = {
    (DIGIT, "FC"): 0.97,
    (DIGIT, "CONV"): 0.99,
    (DIGIT, "F-FC+CONV"): 0.985,
    (BOTH, "FC"): 0.95,
    (BOTH, "CONV"): 0.247,
    (BOTH, "F-FC+CONV"): 0.99,
}


def cells(changes: dict[tuple[str, str, str], float] | None = None) -> list[Cell]:
    return [
        cell(task, network, method, (changes or {}).get((task, network, method), LEVELS[task, network]))
        for task in (DIGIT, BOTH)
        for network in NETWORKS
        for method in METHODS
    ]


def failed(found: list[Cell]) -> set[str]:
    return {claim.sentence for claim in _claims(cells_of(found)) if not claim.holds}


def test_all_hold_on_the_figures_of_the_paper():
    assert len(_claims(cells_of(cells()))) == 4
    assert failed(cells()) == set()


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((BOTH, "CONV", MAP), 0.4, "(MAP)"),
        ((BOTH, "CONV", EVIDENCE), 0.1, "(evidence)"),
        ((BOTH, "F-FC+CONV", EVIDENCE), 0.949, "beats FC"),
        ((BOTH, "FC", MAP), 0.995, "beats FC"),  # the better of the two counts
        ((DIGIT, "F-FC+CONV", EVIDENCE), 0.969, "within 2 points"),
    ],
)
def test_each_fails_where_its_bar_is_missed(place, value, words):
    (sentence,) = failed(cells({place: value}))
    assert words in sentence


def test_the_learned_network_is_the_one_that_followed_the_evidence():
    assert failed(cells({(BOTH, "F-FC+CONV", MAP): 0.1, (DIGIT, "F-FC+CONV", MAP): 0.1})) == set()


@pytest.mark.parametrize(("seconds", "holds"), [(2400.0, True), (2401.0, False)])
def test_forty_minutes_are_the_most(seconds, holds):
    assert _speed(seconds).holds is holds


def test_both_methods_see_the_same_settings(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "covary.reproduce.paper2.quadrant.train_all",
        lambda jobs, scale, request: seen.extend(jobs) or cells_of(cells(), scale, request),
    )
    for scale in SCALES:
        seen.clear()
        study = quadrant(Request(scale, 3))
        assert [(job.data, job.network, job.method) for job in seen] == [
            (cell.data, cell.network, cell.method) for cell in cells()
        ]
        assert [job.config for job in seen[::2]] == [job.config for job in seen[1::2]]
        assert {job.config.task for job in seen if job.data == BOTH} == {"quadrant"}
        narrow = {"FC": 2} if scale == "cpu" else {}
        assert study.config["narrower"] == narrow
        for job in seen:
            width = narrow.get(job.network, SCALES[scale].alpha)
            assert job.config.network == f"relaxed:{NETWORKS[job.network]}:{width}"
        assert study.seconds == 12 * 60.0 / SCALES[scale].processes
        assert len(study.claims) == (5 if scale == "cpu" else 4)
