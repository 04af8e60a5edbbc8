"""The study of layers that may become convolutional: what it claims when."""

import pytest

from covary.reproduce.paper2.cifar_layers import DATA, NETWORKS, _claims, cifar_layers
from covary.reproduce.paper2.layer_study import EVIDENCE, MAP, Cell
from covary.reproduce.study import Request
from reproduce.relaxed_cells import cell, cells_of

# As in the paper: convolutional but for the last layer but one.
SHARES = {
    "CONV": [{"conv": 1.0}] * 8,
    "F-FC+CONV": [{"f-fc": 0.1, "conv": 0.9}] * 6 + [{"f-fc": 0.9, "conv": 0.1}] * 2,
} | dict.fromkeys([name for name in NETWORKS if name.startswith("S-")], [{"s-fc": 0.2, "s-conv": 0.8}] * 8)
LEVELS = {("CONV", MAP): 0.828, ("F-FC+CONV", MAP): 0.816, ("S-FC+S-CONV", MAP): 0.588}
LOSSES = {("CONV", MAP): 1.184, ("F-FC+CONV", MAP): 1.343, ("S-FC+S-CONV", MAP): 5.485}
LEARNED = [(name, EVIDENCE) for name in NETWORKS]

Table = dict[tuple[str, str], float]


def cells(changes: Table | None = None, losses: Table | None = None, shares: dict | None = None) -> list[Cell]:
    levels = LEVELS | dict.fromkeys(LEARNED, 0.83) | (changes or {})
    costs = LOSSES | dict.fromkeys(LEARNED, 0.5) | (losses or {})
    paths = SHARES | (shares or {})
    return [
        cell(DATA, network, method, value, paths[network] if method == EVIDENCE else None, costs[network, method])
        for (network, method), value in levels.items()
    ]


def failed(found: list[Cell]) -> set[str]:
    return {claim.sentence for claim in _claims(cells_of(found)) if not claim.holds}


def test_all_hold_on_the_pattern_of_the_paper():
    assert len(_claims(cells_of(cells()))) == 10
    assert failed(cells()) == set()


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("F-FC+CONV", MAP), 0.828, "MAP hurts F-FC+CONV: accuracy"),
        (("S-FC+S-CONV", MAP), 0.9, "MAP hurts S-FC+S-CONV: accuracy"),
        (("F-FC+CONV", EVIDENCE), 0.809, "evidence repairs F-FC+CONV to within 2 points of CONV"),
        (("S-FC+S-CONV", EVIDENCE), 0.809, "evidence repairs S-FC+S-CONV to within 2 points of CONV"),
    ],
)
def test_each_fails_where_its_bar_is_missed(place, value, sentence):
    assert failed(cells({place: value})) == {sentence}


@pytest.mark.parametrize("network", ["F-FC+CONV", "S-FC+S-CONV"])
def test_losses_have_bars_of_their_own(network):
    assert failed(cells(losses={(network, MAP): 1.184})) == {f"MAP hurts {network}: test loss"}
    assert failed(cells(losses={(network, EVIDENCE): 6.0})) == {f"evidence lowers the test loss of {network}"}


def test_early_layers_must_be_convolutional_and_late_ones_need_not():
    early = [{"f-fc": 0.6, "conv": 0.4}, *SHARES["F-FC+CONV"][1:]]
    late = SHARES["F-FC+CONV"][:4] + [{"f-fc": 0.6, "conv": 0.4}] * 4
    assert failed(cells(shares={"F-FC+CONV": early})) == {"F-FC+CONV: early layers become convolutional"}
    assert failed(cells(shares={"F-FC+CONV": late})) == set()


def test_length_scales_have_a_column_each(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "covary.reproduce.paper2.cifar_layers.train_all",
        lambda jobs, scale, request: seen.extend(jobs) or cells_of(cells(), scale, request),
    )
    study = cifar_layers(Request("cpu"))
    sparse = [(job.config.network, job.method) for job in seen if job.network.startswith("S-")]
    assert sparse == [
        ("relaxed:s-conv:6", MAP),
        ("relaxed:s-conv:6", EVIDENCE),
        ("relaxed:s-fc+s-conv:6", MAP),
        ("relaxed:s-fc+s-conv:6", EVIDENCE),
        ("relaxed:s-fc+s-conv:6:weight", EVIDENCE),
        ("relaxed:s-fc+s-conv:6:hyperparameter", EVIDENCE),
    ]
    assert {job.config.train_augment for job in seen} == {"flips+shifts"}
    learned = next(row for row in study.rows if (row["network"], row["method"]) == ("F-FC+CONV", EVIDENCE))
    assert learned["learned types"].split() == ["conv"] * 6 + ["f-fc"] * 2
