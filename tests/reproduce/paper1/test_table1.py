"""The study of plain, Augerino's and learned networks: what is claimed of them, and how it grows."""

import pytest

from covary.errors import StructureError
from covary.reproduce.paper1 import comparison
from covary.reproduce.paper1.comparison import METHODS, Cell
from covary.reproduce.paper1.figures import invariances_figure
from covary.reproduce.paper1.recover import VERSIONS
from covary.reproduce.paper1.table1 import _claims, _printed, _row, table1
from covary.reproduce.study import Options, Request
from report.drawn import texts
from reproduce.paper1.test_comparison import cell

LEVELS = {"plain": 0.80, "augerino": 0.90, "learned": 0.95}


def cells(**changes: float) -> list[Cell]:
    """Two seeds on every version, one point above and below the level of each method."""
    levels = LEVELS | changes
    return [
        cell(version, method, seed, levels[method] + (0.01 if seed else -0.01))
        for seed in (0, 1)
        for version in VERSIONS
        for method in METHODS
    ]


def holding(found: list[Cell], data: str = "mnist") -> dict[str, bool]:
    return {claim.sentence: claim.holds for claim in _claims(found, data)}


def test_a_row_has_the_papers_figures_beside_ours():
    row = _row("scaled", "learned", cells(), ("mnist", "mlp"))
    assert row["accuracy %"] == pytest.approx(95.0)
    assert (row["paper's accuracy %"], row["paper's evidence per datum"]) == (98.33, pytest.approx(-11.3 / 60))


def test_claims_hold_where_learned_is_best():
    for data, number in (("mnist", 11), ("fashion-mnist", 12), ("cifar-10", 17)):
        held = holding(cells(), data)
        assert len(held) == number
        assert all(held.values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"plain": 0.96}, ("above plain",)),
        ({"augerino": 0.96}, ("above Augerino",)),
        ({"learned": 0.5}, ("learned", "evidence")),
    ],
)
def test_claims_fail_where_it_is_not(changes, words):
    for sentence, holds in holding(cells(**changes), "cifar-10").items():
        assert holds is not any(word in sentence for word in words), sentence


def test_one_version_may_be_below_augerino_and_not_two():
    one, two = (
        [
            cell(
                made.version,
                made.method,
                made.seed,
                0.96 if made.method == "augerino" and made.version in low else made.test.accuracy or 0.0,
            )
            for made in cells()
        ]
        for low in (("scaled",), ("scaled", "original"))
    )
    assert holding(one)["learned at or above Augerino"]
    assert not holding(two)["learned at or above Augerino"]


def test_five_points_on_rotated_clothes():
    assert not holding(cells(plain=0.91), "fashion-mnist")["fully rotated: learned 5 points above plain"]


def test_with_all_images_the_papers_figures_and_an_hour_are_bars():
    held = {claim.sentence: claim.holds for claim in _printed(cells(learned=0.98), "mnist", "mlp", 2)}
    assert held == {
        "fully rotated: learned at or above the paper": True,
        "partially rotated: learned at or above the paper": True,
        "translated: learned at or above the paper": True,
        "scaled: learned at or above the paper": False,
        "original: learned at or above the paper": False,
        "learned on all versions": True,
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(data="imagenet"), "data"),
        (Options(data="mnist", network="resnet-8-8"), "network"),
        (Options(versions=("turned",)), "versions"),
        (Options(methods=("lerned",)), "learned"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(StructureError, match=words):
        table1(Request("smoke", options=options))


def test_methods_epochs_and_samples_can_be_chosen_and_only_what_was_trained_is_claimed(monkeypatch):
    jobs = []

    def trained(job):
        jobs.append((job.method, job.config.fit.epochs, job.config.num_samples))
        return cell(job.version, job.method, job.config.fit.seed, LEVELS[job.method])

    monkeypatch.setattr(comparison, "_cell", trained)

    def studied(*methods):
        return table1(
            Request("smoke", options=Options(versions=("original",), epochs=7, num_samples=3, methods=methods))
        )

    learned = studied("learned")
    assert jobs == [("learned", 7, 3)]
    assert not learned.claims
    assert set(texts(invariances_figure(learned))) >= {"original"}
    both = studied("plain", "learned")
    assert [row["method"] for row in both.rows] == ["plain", "learned"]
    assert "original: learned above plain" in {claim.sentence for claim in both.claims}
    assert not any("Augerino" in claim.sentence for claim in both.claims)
    plain = studied("plain")
    assert not plain.claims
    assert any("left out" in text for text in texts(invariances_figure(plain)))


def test_a_study_grows_by_versions_and_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(
        comparison, "_cell", lambda job: cell(job.version, job.method, job.config.fit.seed, LEVELS[job.method])
    )

    def studied(**options):
        return table1(Request("smoke", folder=tmp_path / "cells", options=Options(num_train=60, **options)))

    small = studied(versions=("original",))
    assert [row["version"] for row in small.rows] == ["original"] * 3
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    grown = studied(versions=("original", "scaled"), num_seeds=2)
    assert [row["version"] for row in grown.rows] == ["scaled"] * 3 + ["original"] * 3
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert len(after) == 12
    assert {name: after[name] for name in before} == before
    with pytest.raises(StructureError, match="num_train = 60"):
        table1(Request("smoke", folder=tmp_path / "cells", options=Options(num_train=61, versions=("original",))))
