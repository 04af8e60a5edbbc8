"""Figures of the studies of paper 1, drawn from their JSON alone."""

import dataclasses
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from covary.records import Study, from_plain
from covary.report.figures import flow
from covary.report.svg import svg
from covary.reproduce.paper1.figures import SHADES, recover_figure, sampling_figure, toy_figure
from report.drawn import texts
from reproduce import smoke_studies

NAMES = ("shift_x", "shift_y", "rotation", "scale_x", "scale_y", "shear")
TRUE = {
    "fully rotated": {"rotation": math.pi},
    "translated": {"shift_x": 8 / 14, "shift_y": 8 / 14},
    "original": {},
}
TURN = [math.cos(1), -math.sin(1), 0.0, math.sin(1), math.cos(1), 0.0, 0.0, 0.0, 1.0]


def as_read(study: Study) -> Study:
    """The study as a file would give it back."""
    read: Study = from_plain(json.loads(json.dumps(dataclasses.asdict(study), allow_nan=False)), Study, "study")
    return read


@pytest.fixture(scope="module")
def toy_study() -> Study:
    return as_read(smoke_studies.toy_study())


@pytest.fixture(scope="module")
def sampling_study() -> Study:
    return as_read(smoke_studies.sampling_study())


def test_the_toy_has_two_maps_per_model(toy_study):
    above, below = toy_figure(toy_study).subfigs
    maps = [panel for panel in above.axes if panel.get_aspect() == 1]
    assert len(maps) == 2 * len(toy_study.series["grids"])
    assert len(below.axes) == 2
    for panel, row in zip(maps[: len(maps) // 2], toy_study.rows, strict=False):
        title = panel.get_title(loc="left")
        assert title.startswith(row["panel"])
        assert f"{row['log_evidence']:.1f} nats" in title
        assert ("°" in title) == (row["degrees"] is not None)


def test_the_toy_draws_every_point_and_every_seed(toy_study):
    above, below = toy_figure(toy_study).subfigs
    assert sum(len(line.get_xdata()) for line in above.axes[0].lines) == len(toy_study.series["points"])
    evidences, widths = below.axes
    assert len(evidences.lines) == 2
    assert len(widths.lines) == len(toy_study.series["trajectories"]) + 1  # and the true rotation


def test_sampling_has_a_panel_per_quantity(sampling_study):
    panels = sampling_figure(sampling_study).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["outputs", "hyper-gradient"]
    for panel in panels:
        assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
        sobol = panel.lines[0]
        expected = [row[panel.get_title(loc="left")] for row in sampling_study.rows if row["sampler"] == "sobol"]
        assert list(sobol.get_ydata()) == expected
        exponent = sampling_study.series["exponents"][f"{panel.get_title(loc='left')}, sobol"]
        assert f"{exponent:.2f}" in str(sobol.get_label())


@pytest.mark.parametrize("draw", [toy_figure, sampling_figure])
def test_the_same_record_gives_the_same_picture(draw, toy_study, sampling_study):
    study = toy_study if draw is toy_figure else sampling_study
    assert svg(draw(study)) == svg(draw(study))


def recover_study(**changes) -> Study:
    """A study of three versions over five epochs, whose best epoch is not its last."""
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


def recover_panels(figure):
    """Rows of panels, a column per version."""
    return np.reshape(figure.axes, (3, len(TRUE)))


def test_recover_lines_are_the_widths_and_dotted_ones_the_true_amounts():
    for panel, (version, true) in zip(recover_panels(recover_figure(recover_study()))[0], TRUE.items(), strict=True):
        lines = [list(line.get_ydata()) for line in panel.lines]
        assert panel.get_title(loc="left") == version
        assert lines[: len(NAMES)] == list(recover_study().series[version]["widths"].values())
        assert [line[0] for line in lines[len(NAMES) :]] == list(true.values())
        assert all(value <= panel.get_ylim()[1] for line in lines for value in line)


def test_recover_bars_are_the_widths_of_the_best_epoch():
    for panel, row in zip(recover_panels(recover_figure(recover_study()))[2], recover_study().rows, strict=True):
        assert [bar.get_width() for bar in panel.patches] == pytest.approx([row[name] for name in NAMES])
        assert [bar.get_width() for bar in panel.patches] != pytest.approx(
            [widths[-1] for widths in recover_study().series[row["version"]]["widths"].values()]
        )


def test_recover_arrows_are_the_flow_of_the_first_samples():
    drawn = recover_panels(recover_figure(recover_study()))[1]
    start, moved = flow(TURN)
    assert [len(panel.collections) for panel in drawn] == [len(SHADES), len(SHADES), 0]
    arrows = drawn[0].collections[0]
    assert np.stack([arrows.U, arrows.V], 1) == pytest.approx(moved - start)


def test_recover_has_its_words():
    found = texts(recover_figure(recover_study()))
    assert {"fully rotated", "original", "rotation", "horizontal shift", "true amount", "epoch"} <= set(found)
    assert any("no affine" in text for text in found)


def test_recover_with_one_version_and_one_epoch_can_be_drawn():
    alone = recover_study(rows=recover_study().rows[:1])
    alone.series["fully rotated"] |= {"epochs": [1], "widths": {name: [0.1] for name in NAMES}}
    assert "fully rotated" in texts(recover_figure(alone))
