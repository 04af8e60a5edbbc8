"""The figure of the study `mnist-mlp`: dots are means over seeds, lines reach from least to most."""

from dataclasses import replace

import pytest

from covary.records import Study
from covary.reproduce.paper1.table1_figure import table_figure
from report.drawn import texts

VERSIONS, METHODS = ("fully rotated", "scaled"), ("plain", "augerino", "learned")
LEVELS = {"plain": 0.8, "augerino": 0.9, "learned": 0.95}


def study(num_seeds: int = 3) -> Study:
    cells = [
        {
            "version": version,
            "method": method,
            "seed": seed,
            "accuracy": LEVELS[method] + 0.01 * seed**2,
            "nll": 0.1,
            "log_evidence": None if method == "augerino" else -100.0 * (2 - LEVELS[method]) - seed,
            "num_data": None if method == "augerino" else 50,
            "seconds": 1.0,
        }
        for seed in range(num_seeds)
        for version in VERSIONS
        for method in METHODS
    ]
    return Study("mnist-mlp", "smoke", "Table 1", {}, {}, [], {"cells": cells}, [], 1.0)


def test_dots_are_means_and_lines_reach_from_least_to_most():
    accuracy, evidence = table_figure(study()).axes
    for line, method in zip(accuracy.lines, METHODS, strict=True):
        assert list(line.get_ydata()) == pytest.approx([100 * (LEVELS[method] + 0.05 / 3)] * 2)
    for spread, method in zip(accuracy.collections, METHODS, strict=True):
        low, high = spread.get_segments()[0][:, 1]
        assert (low, high) == pytest.approx((100 * LEVELS[method], 100 * LEVELS[method] + 4))
    assert list(evidence.lines[0].get_ydata()) == pytest.approx([(-120.0 - 1) / 50] * 2)


def test_a_method_without_an_evidence_has_no_dot_there():
    accuracy, evidence = table_figure(study()).axes
    assert [len(line.get_ydata()) for line in accuracy.lines] == [2, 2, 2]
    assert [len(line.get_ydata()) for line in evidence.lines] == [2, 0, 2]


def test_methods_stand_beside_each_other():
    places = [list(line.get_xdata()) for line in table_figure(study()).axes[0].lines]
    assert places[0] < places[1] < places[2]
    assert [round(place) for place in places[0]] == [0, 1]


@pytest.mark.parametrize(("num_seeds", "title"), [(3, "mean and range over 3 seeds"), (1, "one seed")])
def test_words_are_there(num_seeds, title):
    assert {title, *VERSIONS, *METHODS} <= set(texts(table_figure(study(num_seeds))))


def test_one_cell_can_be_drawn():
    alone = replace(study(), series={"cells": study().series["cells"][:1]})
    assert "plain" in texts(table_figure(alone))
