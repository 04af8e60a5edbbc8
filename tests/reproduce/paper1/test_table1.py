"""The study of plain, Augerino's and learned networks: means over seeds, and what is claimed of them."""

import pytest

from covary.records import Evidence, Metrics
from covary.reproduce.paper1.recover import VERSIONS
from covary.reproduce.paper1.table1 import METHODS, Cell, _as_dict, _claims, _row

LEVELS = {"plain": 0.80, "augerino": 0.90, "learned": 0.95}


def cell(version: str, method: str, seed: int, accuracy: float) -> Cell:
    total = -500.0 - 100.0 * (1 - accuracy)
    evidence = None if method == "augerino" else Evidence(total, 0.0, 0.0, total, 200, "kron", "exact")
    return Cell(version, method, seed, Metrics(accuracy, 1 - accuracy, 0.01, 2000, 2), evidence, 10.0 + seed)


def cells(**changes: float) -> list[Cell]:
    """Two seeds on every version, one point above and below the level of each method."""
    levels = LEVELS | changes
    return [
        cell(version, method, seed, levels[method] + (0.01 if seed else -0.01))
        for seed in (0, 1)
        for version in VERSIONS
        for method in METHODS
    ]


def test_rows_are_means_over_seeds():
    row = _row("scaled", "learned", cells())
    assert row["accuracy %"] == pytest.approx(95.0)
    assert row["± over seeds"] == pytest.approx(1.0)
    assert row["nll"] == pytest.approx(0.05)
    assert row["evidence per datum"] == pytest.approx(-505.0 / 200)
    assert row["seconds"] == pytest.approx(10.5)
    assert _row("scaled", "augerino", cells())["evidence per datum"] is None


def test_claims_hold_where_learned_is_best():
    claims = _claims(cells())
    assert len(claims) == 4 * 2 + 5
    assert all(claim.holds for claim in claims)


@pytest.mark.parametrize(
    ("changes", "word"), [({"plain": 0.96}, "above plain"), ({"augerino": 0.96}, "Augerino"), ({"learned": 0.5}, "")]
)
def test_claims_fail_where_it_is_not(changes, word):
    for claim in _claims(cells(**changes)):
        assert claim.holds is (word not in claim.sentence)


def test_on_full_rotation_learned_may_be_a_little_below_augerino():
    held = {claim.sentence: claim.holds for claim in _claims(cells(augerino=0.952))}
    assert held["fully rotated: learned near Augerino"]
    assert not held["translated: learned above Augerino"]


def test_a_cell_as_plain_numbers():
    plain = _as_dict(cell("scaled", "plain", 1, 0.8))
    assert (plain["version"], plain["method"], plain["seed"]) == ("scaled", "plain", 1)
    assert (plain["accuracy"], plain["num_data"]) == (0.8, 200)
    assert _as_dict(cell("scaled", "augerino", 1, 0.8))["log_evidence"] is None
