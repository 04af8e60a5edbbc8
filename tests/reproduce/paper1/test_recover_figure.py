"""The figure of the study `recover`: lines, flow and bars are the numbers of the record."""

import math
from dataclasses import replace

import numpy as np
import pytest

from covary.records import Study
from covary.report.figures import flow
from covary.reproduce.paper1.recover_figure import SHADES, recover_figure
from report.drawn import texts

NAMES = ("shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear")
TRUE = {
    "fully rotated": {"rotation": math.pi},
    "translated": {"shift_x": 8 / 14, "shift_y": 8 / 14},
    "original": {},
}
TURN = [math.cos(1), -math.sin(1), 0.0, math.sin(1), math.cos(1), 0.0, 0.0, 0.0, 1.0]


def study(**changes) -> Study:
    """A study of three versions over five epochs, whose kept state is not its last."""
    series, rows = {}, []
    for number, (version, true) in enumerate(TRUE.items()):
        widths = {name: [0.05 + 0.1 * epoch * true.get(name, 0.1) for epoch in range(5)] for name in NAMES}
        series[version] = {
            "epochs": [1, 2, 3, 4, 5],
            "widths": widths,
            "true_widths": true,
            "correlation": None,
            "matrices": [TURN] * (5 * (number < 2)),
        }
        rows.append({"version": version, "dominant": "rotation"} | {name: widths[name][3] for name in NAMES})
    made = Study("recover", "smoke", "Known symmetries", {}, {}, rows, series, [], 1.0)
    return replace(made, **changes)


def panels(figure):
    """Rows of panels, a column per version."""
    return np.reshape(figure.axes, (3, len(TRUE)))


def test_lines_are_the_widths_and_dotted_ones_the_true_amounts():
    for panel, (version, true) in zip(panels(recover_figure(study()))[0], TRUE.items(), strict=True):
        lines = [list(line.get_ydata()) for line in panel.lines]
        assert panel.get_title(loc="left") == version
        assert lines[: len(NAMES)] == list(study().series[version]["widths"].values())
        assert [line[0] for line in lines[len(NAMES) :]] == list(true.values())
        assert all(value <= panel.get_ylim()[1] for line in lines for value in line)


def test_bars_are_the_widths_that_were_kept():
    for panel, row in zip(panels(recover_figure(study()))[2], study().rows, strict=True):
        assert [bar.get_width() for bar in panel.patches] == pytest.approx([row[name] for name in NAMES])
        assert [bar.get_width() for bar in panel.patches] != pytest.approx(
            [widths[-1] for widths in study().series[row["version"]]["widths"].values()]
        )


def test_arrows_are_the_flow_of_the_first_samples():
    drawn = panels(recover_figure(study()))[1]
    start, moved = flow(TURN)
    assert [len(panel.collections) for panel in drawn] == [len(SHADES), len(SHADES), 0]
    arrows = drawn[0].collections[0]
    assert np.stack([arrows.U, arrows.V], 1) == pytest.approx(moved - start)


def test_words_are_there():
    found = texts(recover_figure(study()))
    assert {"fully rotated", "original", "rotation", "horizontal shift", "true amount", "epoch"} <= set(found)
    assert any("no affine" in text for text in found)


def test_one_version_and_one_epoch_can_be_drawn():
    alone = study(rows=study().rows[:1])
    alone.series["fully rotated"] |= {"epochs": [1], "widths": {name: [0.1] for name in NAMES}}
    assert "fully rotated" in texts(recover_figure(alone))
