"""Figures over epochs: a line per quantity, through the recorded values."""

import dataclasses

import pytest

from covary.report import evidence_figure, page, precisions_figure, trajectories_figure
from covary.report.curves import burn_in, held_fixed
from report.drawn import texts
from report.runs import SPARSE, WIDTHS, full_run

FIGURES = [trajectories_figure, evidence_figure, precisions_figure]


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_sparse_records_can_be_drawn(name, draw):
    assert texts(draw(SPARSE[name]()))


def test_burn_in_ends_before_the_first_hyper_step():
    assert burn_in(full_run()) == 10
    assert burn_in(SPARSE["no evidence"]()) == 0
    assert burn_in(SPARSE["one epoch"]()) == 0


def test_one_line_per_width_and_a_dotted_one_per_true_width():
    lines = [line for panel in trajectories_figure(full_run()).axes for line in panel.lines]
    dotted = [line for line in lines if line.get_linestyle() == ":"]
    assert (len(lines), len(dotted)) == (len(WIDTHS) + 1, 1)
    assert all(len(line.get_xdata()) == 60 for line in lines if line not in dotted)
    assert {"rotation", "shear", "true amount", "burn-in"} <= set(texts(trajectories_figure(full_run())))


def test_burn_in_is_shaded_only_where_there_was_one():
    without = dataclasses.replace(full_run(), history=full_run().history[10:])
    shaded = [[panel.patches for panel in trajectories_figure(run).axes] for run in (full_run(), without)]
    assert all(len(patches) == 1 for patches in shaded[0])
    assert all(len(patches) == 0 for patches in shaded[1])
    assert shaded[0][0][0].get_bbox().intervalx.tolist() == [0.5, 10.5]


def test_epochs_at_the_end_in_which_widths_are_held_fixed_are_shaded():
    """Earlier a width that was still moving was drawn as a line that is flat at its end, with nothing said."""
    history = full_run().history
    held = [*history[:48], *(dataclasses.replace(epoch, widths=history[47].widths) for epoch in history[48:])]
    run = dataclasses.replace(full_run(), history=held)
    assert (held_fixed(run), held_fixed(full_run())) == (12, 0)
    assert held_fixed(dataclasses.replace(run, history=held[48:])) == 0, "never learned"
    for panel in trajectories_figure(run).axes:
        assert panel.patches[1].get_bbox().intervalx.tolist() == [48.5, 60.5]
    assert "held fixed" in texts(trajectories_figure(run))
    assert "held fixed" not in texts(trajectories_figure(full_run()))
    assert "At the end (shaded) widths are held fixed." in page(run)
    assert "held fixed" not in page(full_run())


def test_evidence_is_per_datum_and_its_terms_add_up():
    figure = evidence_figure(full_run())
    values = [[float(value) for value in panel.lines[0].get_ydata()] for panel in figure.axes]
    known = [epoch.evidence for epoch in full_run().history if epoch.evidence is not None]
    assert values[0] == pytest.approx([evidence.log_evidence / 5000 for evidence in known])
    assert values[0] == pytest.approx([sum(terms) for terms in zip(*values[1:], strict=True)])


def test_evaluated_states_are_dots_and_the_kept_one_a_star():
    for panel in evidence_figure(full_run()).axes:
        evaluated, kept = panel.lines[1:3]
        assert list(evaluated.get_xdata()) == [30, 60]
        assert list(kept.get_xdata()) == [60]


def test_the_legend_names_only_what_is_drawn():
    shown = texts(evidence_figure(SPARSE["nothing evaluated"]()))
    assert "estimate of a hyper step" in shown
    assert not {"evaluation", "selected"} & set(shown)
    assert {"evaluation", "selected"} <= set(texts(evidence_figure(full_run())))


def test_one_row_per_precision():
    assert {f"module.{layer}.{part}" for layer in (1, 3) for part in ("weight", "bias")} <= set(
        texts(precisions_figure(full_run()))
    )
    many = {f"group {number}": 1.0 + number for number in range(60)}
    run = dataclasses.replace(full_run(), history=[dataclasses.replace(full_run().history[0], precisions=many)])
    assert "precision; 36 more in run.json" in texts(precisions_figure(run))
