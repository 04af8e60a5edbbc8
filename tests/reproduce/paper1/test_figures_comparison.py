"""Figures of networks side by side, drawn from their JSON alone."""

import base64
from dataclasses import replace

import pytest

from covary.records import Study
from covary.reproduce.paper1.figures import invariances_figure, table_figure
from report.drawn import texts

VERSIONS, METHODS = ("fully rotated", "scaled"), ("plain", "augerino", "learned")
LEVELS = {"plain": 0.8, "augerino": 0.9, "learned": 0.95}
PICTURES = {
    "shape": [1, 4, 1, 2, 2],
    "pixels": base64.b64encode(bytes(range(16))).decode(),
    "labels": ["7"],
    "matrices": [],
}


def table_study(num_seeds: int = 3) -> Study:
    cells = [
        {
            "version": version,
            "method": method,
            "seed": seed,
            "test": {"accuracy": LEVELS[method] + 0.01 * seed**2},
            "evidence": None
            if method == "augerino"
            else {"log_evidence": -100.0 * (2 - LEVELS[method]) - seed, "num_data": 50},
            "widths": {"rotation": [0.1, 0.5 + seed], "shear": [0.1, 0.0]},
            "learned": {"rotation": 0.5 + seed, "shear": 0.0},
            "true_widths": {"rotation": 3.0} if version == "fully rotated" else {},
            "samples": PICTURES if version == "fully rotated" else None,
        }
        for seed in range(num_seeds)
        for version in VERSIONS
        for method in METHODS
    ]
    return Study("table1", "smoke", "Table 1", {}, {}, [], {"cells": cells}, [], 1.0)


def test_dots_are_means_and_lines_reach_from_minimum_to_maximum():
    accuracy, evidence = table_figure(table_study()).axes
    for line, method in zip(accuracy.lines, METHODS, strict=True):
        assert list(line.get_ydata()) == pytest.approx([100 * (LEVELS[method] + 0.05 / 3)] * 2)
    for spread, method in zip(accuracy.collections, METHODS, strict=True):
        low, high = spread.get_segments()[0][:, 1]
        assert (low, high) == pytest.approx((100 * LEVELS[method], 100 * LEVELS[method] + 4))
    assert list(evidence.lines[0].get_ydata()) == pytest.approx([(-120.0 - 1) / 50] * 2)


def test_a_method_without_an_evidence_has_no_dot_there():
    accuracy, evidence = table_figure(table_study()).axes
    assert [len(line.get_ydata()) for line in accuracy.lines] == [2, 2, 2]
    assert [len(line.get_ydata()) for line in evidence.lines] == [2, 0, 2]


def test_methods_are_side_by_side():
    places = [list(line.get_xdata()) for line in table_figure(table_study()).axes[0].lines]
    assert places[0] < places[1] < places[2]
    assert [round(place) for place in places[0]] == [0, 1]


@pytest.mark.parametrize(("num_seeds", "title"), [(3, "mean and range over 3 seeds"), (1, "one seed")])
def test_the_table_has_its_words(num_seeds, title):
    assert {title, *VERSIONS, *METHODS} <= set(texts(table_figure(table_study(num_seeds))))


def test_one_cell_can_be_drawn():
    alone = replace(table_study(), series={"cells": table_study().series["cells"][:1]})
    assert "plain" in texts(table_figure(alone))


def test_what_was_learned_is_that_of_the_first_seed():
    figure = invariances_figure(table_study())
    curves, pictures, bars = (figure.axes[start : start + 2] for start in (0, 2, 4))
    assert [list(line.get_ydata()) for line in curves[0].lines[:2]] == [[0.1, 0.5], [0.1, 0.0]]
    assert [len(panel.lines) for panel in curves] == [3, 2]  # the true amount of one version is known
    assert [len(panel.images) for panel in pictures] == [4, 0]
    assert [bar.get_width() for bar in bars[0].patches] == [0.5, 0.0]
    assert {"fully rotated", "scaled", "rotation", "true amount"} <= set(texts(figure))
    assert [text.get_text() for text in pictures[1].texts] == ["no images\nwere kept"]
