"""Figures of the studies of layer-wise equivariance, drawn from their JSON alone."""

import json
from dataclasses import asdict

import pytest
from matplotlib.patches import Rectangle

from covary.records import Study
from covary.report.svg import svg
from covary.reproduce.paper2.figures import cifar_layers_figure, groups_figure, quadrant_figure, separable_figure
from report.drawn import texts
from reproduce.relaxed_cells import cell

TASKS, NETWORKS = ("digit", "digit and quadrant"), ("FC", "CONV", "F-FC+CONV")
SHARES = [{"f-fc": 0.25, "conv": 0.75}, {"f-fc": 0.99, "conv": 0.01}]


def study(name: str, cells: list, **series) -> Study:
    """The study as a file would give it back."""
    plain = json.loads(json.dumps({"cells": [asdict(one) for one in cells]} | series, allow_nan=False))
    return Study(name, "smoke", "A title", {}, {}, [], plain, [], 1.0)


def quadrant_study() -> Study:
    levels = {(0, "FC"): 0.9, (0, "CONV"): 0.96, (0, "F-FC+CONV"): 0.95}
    return study(
        "quadrant",
        [
            cell(task, network, method, levels.get((number, network), 0.3) - 0.01 * (method == "MAP"))
            for number, task in enumerate(TASKS)
            for network in NETWORKS
            for method in ("MAP", "evidence")
        ],
    )


def cifar_study() -> Study:
    cells = [cell("CIFAR-10", "CONV", "evidence", 0.8, [{"conv": 1.0}] * 2), cell("CIFAR-10", "CONV", "MAP", 0.75)]
    return study("cifar-layers", [*cells, cell("CIFAR-10", "F-FC+CONV, ω", "evidence", 0.7, SHARES, loss=1.5)])


def groups_study() -> Study:
    cells = [cell("MNIST", "all", "MAP", 0.6), cell("MNIST", "all", "evidence", 0.7, SHARES)]
    return study("groups", [*cells, cell("rotated MNIST", "all", "evidence", 0.5, SHARES[:1], loss=0.2)])


def separable_study() -> Study:
    cells = [cell("rotated", "full", "MAP", 0.5), cell("rotated", "pointwise", "MAP", 0.4)]
    parameters, paper = {"full": 1_025_380, "pointwise": 338_770}, {"full": 73.7, "pointwise": 66.77}
    return study("separable", cells, alpha=10, parameters=parameters, paper=paper)


def heights(panel) -> list[float]:
    return [patch.get_height() for patch in panel.patches if isinstance(patch, Rectangle)]


def test_quadrant_has_a_bar_per_cell_and_the_quarter():
    drawn = quadrant_figure(quadrant_study())
    first, second = drawn.axes
    assert heights(first) == pytest.approx([89, 90, 95, 96, 94, 95])
    assert list(second.lines[0].get_ydata()) == pytest.approx([24, 24])
    assert {*TASKS, *NETWORKS, "MAP", "evidence", "96.0"} <= set(texts(drawn))


def test_cifar_layers_divides_the_layers_of_relaxed_networks_alone():
    drawn = cifar_layers_figure(cifar_study())
    accuracies, losses, shares = drawn.axes
    assert heights(accuracies) == pytest.approx([80, 75, 70])
    assert heights(losses) == pytest.approx([0.5, 0.5, 1.5])
    assert [patch.get_width() for patch in shares.patches] == pytest.approx([25, 75, 99, 1])
    assert [patch.get_x() for patch in shares.patches] == pytest.approx([0, 25, 0, 99])
    words = texts(drawn)
    assert {"layer 1", "layer 2", "f-fc", "conv", "75", "99"} <= set(words)
    assert "1" not in words, "too narrow for its number"


def test_groups_has_mean_minimum_and_maximum_of_each_path():
    _, losses, below = groups_figure(groups_study()).axes
    assert heights(losses) == pytest.approx([0.5, 0.5, 0.2])
    free, strict = below.lines
    assert list(free.get_ydata()) == pytest.approx([62, 25])
    assert list(strict.get_ydata()) == pytest.approx([38, 75])
    assert below.collections[0].get_segments()[0][:, 1] == pytest.approx([25, 99])
    assert max(free.get_xdata()) < max(strict.get_xdata())


def test_separable_shows_ours_beside_the_paper():
    drawn = separable_figure(separable_study())
    ours, paper = drawn.axes
    assert [line.get_ydata()[0] for line in ours.lines] == pytest.approx([50, 40])
    assert [line.get_ydata()[0] for line in paper.lines] == [73.7, 66.77]
    assert [line.get_xdata()[0] for line in paper.lines] == [1_025_380, 338_770]
    assert {"full", "pointwise", "0.5 M", "here", "paper"} <= set(texts(drawn))


@pytest.mark.parametrize(
    ("draw", "made"),
    [
        (quadrant_figure, quadrant_study),
        (cifar_layers_figure, cifar_study),
        (groups_figure, groups_study),
        (separable_figure, separable_study),
    ],
)
def test_the_same_record_gives_the_same_picture(draw, made):
    assert svg(draw(made())) == svg(draw(made()))
