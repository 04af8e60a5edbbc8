"""Figures of studies, drawn from nothing but their JSON."""

import dataclasses
import json

import pytest

from covary.records import Study, from_plain
from covary.report.svg import svg
from covary.reproduce.paper1.sampling import sampling
from covary.reproduce.paper1.sampling_figure import sampling_figure
from covary.reproduce.paper1.toy import toy
from covary.reproduce.paper1.toy_figure import toy_figure


def as_read(study: Study) -> Study:
    """The study as a file would give it back."""
    read: Study = from_plain(json.loads(json.dumps(dataclasses.asdict(study), allow_nan=False)), Study, "study")
    return read


@pytest.fixture(scope="module")
def toy_study() -> Study:
    return as_read(toy("smoke", 0, lambda message, done: None))


@pytest.fixture(scope="module")
def sampling_study() -> Study:
    return as_read(sampling("smoke", 0, lambda message, done: None))


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
        slope = sampling_study.series["slopes"][f"{panel.get_title(loc='left')}, sobol"]
        assert f"{slope:.2f}" in str(sobol.get_label())


@pytest.mark.parametrize("draw", [toy_figure, sampling_figure])
def test_the_same_record_gives_the_same_picture(draw, toy_study, sampling_study):
    study = toy_study if draw is toy_figure else sampling_study
    assert svg(draw(study)) == svg(draw(study))
