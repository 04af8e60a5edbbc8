"""Figures of what was learned: as many marks as there are numbers, at their places."""

import base64
import dataclasses
import math

import numpy as np
import pytest

from covary.groups import affine_generators, exponential
from covary.groups.affine import to_normalized
from covary.records import Pictures
from covary.report import comparison_figure, correlation_figure, flow_figure, page, pictures_figure, widths_figure
from covary.report.figures import MOST_FLOWS, flow
from report.drawn import identifiers, number_of, texts
from report.runs import HOSTILE, SPARSE, eight_widths, evidence, full_run, hostile_run, pictures

FIGURES = [widths_figure, pictures_figure, flow_figure, correlation_figure]


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_sparse_records_can_be_drawn(name, draw):
    shown = texts(draw(SPARSE[name]()))
    assert shown or draw is flow_figure


def test_one_bar_per_width_with_its_amount():
    figure = widths_figure(full_run())
    assert len([name for name in identifiers(figure) if "-bar-" in name]) == 6
    shown = texts(figure)
    assert {"rotation", "87", "1.05", "± degrees", "± % of the side"} <= set(shown)


def test_a_line_is_drawn_from_end_to_end_of_an_interval():
    lines = [
        line.get_xdata()
        for panel in widths_figure(full_run()).axes
        for line in panel.lines
        if len(line.get_xdata()) == 2
    ]
    assert lines[0] == pytest.approx([math.degrees(1.518 - 0.06), math.degrees(1.518 + 0.06)])
    assert lines[1] == pytest.approx([100 * math.expm1(0.034), 100 * math.expm1(0.154)])
    assert len(lines) == 2


def test_bars_are_as_long_as_the_amounts():
    bars = [bar for panel in widths_figure(eight_widths()).axes for bar in panel.patches]
    assert sorted(bar.get_width() for bar in bars)[-2:] == pytest.approx([42.0, math.degrees(1.518)])
    assert len(widths_figure(eight_widths()).axes) == 5, "one axis per unit"


def test_true_widths_are_marked_only_where_known():
    known, unknown = full_run(), dataclasses.replace(full_run(), true_widths={})
    marks = [
        [line.get_xdata()[0] for panel in widths_figure(run).axes for line in panel.lines if len(line.get_xdata()) == 1]
        for run in (known, unknown)
    ]
    assert marks == [[pytest.approx(math.degrees(1.571))], []]
    assert "◆ true amount" in texts(widths_figure(known))
    assert "◆ true amount" not in texts(widths_figure(unknown))


def test_widths_that_have_not_settled_are_hatched():
    first, *rest = full_run().symmetries
    run = dataclasses.replace(full_run(), symmetries=[dataclasses.replace(first, state="still moving"), *rest])
    hatched = [bool(bar.get_hatch()) for panel in widths_figure(run).axes for bar in panel.patches]
    assert hatched.count(True) == 1
    assert "hatched where it is not settled" in page(run)
    assert "<td>still moving</td>" in page(run)
    assert "hatched where" not in page(full_run())


def test_a_negligible_width_looks_like_one():
    run = dataclasses.replace(full_run(), symmetries=full_run().symmetries[:1])
    panel = widths_figure(run).axes[0]
    assert panel.patches[0].get_width() < 0.1 * panel.get_xlim()[1]


def test_one_picture_per_image_and_version():
    figure = pictures_figure(full_run())
    assert number_of(figure, "image") == 4 * 7
    assert texts(figure) == ["given", "transformed", *pictures().labels]
    many = dataclasses.replace(full_run(), samples=pictures(10, 10))
    assert number_of(pictures_figure(many), "image") == 8 * 9


def test_pictures_show_the_pixels_in_their_order():
    samples = pictures(2, 1)
    expected = np.frombuffer(samples.values(), np.uint8).reshape(4, 28, 28)
    shown = pictures_figure(dataclasses.replace(full_run(), samples=samples)).axes[0].images
    assert all((image.get_array() == array).all() for image, array in zip(shown, expected, strict=True))


def test_flow_has_one_panel_per_transform():
    assert len(flow_figure(full_run()).axes) == MOST_FLOWS
    assert len([panel for panel in flow_figure(full_run()).axes if panel.collections]) == MOST_FLOWS


@pytest.mark.parametrize(("name", "width"), [("shift_x", 0.3), ("rotation", 0.7), ("scale_y", 0.5)])
def test_content_lies_where_the_flow_says(name, width):
    """The matrix takes each arrow's head, a place in the output, back to its foot, the place it was read from."""
    matrix = exponential(width * affine_generators((name,)).double())[0].numpy()
    start, moved = flow(matrix.ravel().tolist())
    homogeneous = np.concatenate([moved, np.ones((len(moved), 1))], 1)
    np.testing.assert_allclose((homogeneous @ matrix.T)[:, :2], start, atol=1e-12)
    forwards = np.concatenate([start, np.ones((len(start), 1))], 1) @ matrix.T
    assert not np.allclose(forwards[:, :2], moved), "the matrix itself would draw the flow backwards"


def test_a_rotation_of_a_wide_image_looks_like_one():
    """All arrows turn about the center, and pixels are squares."""
    height, width = 20, 50
    algebra = to_normalized(0.7 * affine_generators(("rotation",)).double(), height, width)
    pixels = base64.b64encode(bytes(2 * height * width)).decode()
    wide = Pictures([1, 2, 1, height, width], pixels, ["wide"], [exponential(algebra).flatten().tolist()])
    panel = flow_figure(dataclasses.replace(full_run(), samples=wide)).axes[0]
    left, right, bottom, top = panel.images[0].get_extent()
    assert (right - left) / (bottom - top) == pytest.approx(width / height)
    arrows = panel.collections[0]
    feet, moves = np.asarray(arrows.XY), np.stack([arrows.U, arrows.V], 1)
    radii = np.linalg.norm(feet, axis=1)
    np.testing.assert_allclose(np.linalg.norm(feet + moves, axis=1), radii, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), 2 * math.sin(0.35) * radii, atol=1e-12)


def test_correlation_shows_each_number():
    numbers = [text for text in texts(correlation_figure(full_run())) if text[0] in "+-"]
    assert len(numbers) == 36
    assert numbers[:2] == ["+1.0", "-0.2"]


def test_comparison_ranks_by_evidence():
    runs = [dataclasses.replace(full_run(), title=f"run {fit}", evidence=evidence(fit)) for fit in (-0.5, -0.3, -0.4)]
    shown = [text for text in texts(comparison_figure(runs)) if "run" in text]
    assert shown == ["1. run -0.3 (+0.0)", "2. run -0.4 (-500.0)", "3. run -0.5 (-1000.0)"]
    assert texts(comparison_figure([SPARSE["bare"]()])) == ["None of these runs has an evidence."]
    assert texts(comparison_figure(runs[:1]))[0]


def test_hostile_names_are_shown_as_they_are_written():
    for draw in FIGURES[:2]:
        assert any(text.startswith(HOSTILE[:10]) for text in texts(draw(hostile_run())))
