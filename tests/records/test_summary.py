"""What was learned, in sentences."""

import dataclasses
import math

import pytest

from covary.records import Metrics, RunRecord, Symmetry, Verdict
from covary.records.settling import with_states
from covary.records.summary import summary, verdict_sentences
from report.runs import SPARSE, bare_run, full_run, layer_path, symmetry


def of_widths(found: list[Symmetry]) -> RunRecord:
    return dataclasses.replace(full_run(), symmetries=found, layers=[], baselines=[], verdicts=[])


def measured(name: str, width: float, state: str = "settled") -> Symmetry:
    """A width with an interval that does not begin at 0."""
    return dataclasses.replace(symmetry(name, width), interval=[0.9 * width, 1.1 * width], state=state)


def learned(**widths: float) -> str:
    return summary(of_widths([measured(name, width) for name, width in widths.items()]))


def test_summary():
    assert learned(shift_x=0.0, rotation=math.radians(87), shear=0.01) == (
        "The labels ignore rotation by up to ±87°; every other width is negligible."
    )
    assert learned(rotation=0.2, shear=0.0).endswith("; the one other width is negligible.")
    assert learned(rotation=0.2) == "The labels ignore rotation by up to ±11°."
    assert learned(rotation=0.06) == "The labels slightly ignore rotation by up to ±3.4°."
    assert learned(shift_x=0.3, rotation=1.0, scale_y=math.log(2)) == (
        "The labels ignore rotation by up to ±57°, vertical scale (up to 2 × taller or shorter) and horizontal shift "
        "by up to 4.2 pixels left or right."
    )
    assert learned(rotation=0.0, shear=0.01) == (
        "The labels ignore none of the transforms: every learned width is negligible."
    )
    assert summary(bare_run()) == "This run has no transforms whose width could be learned."


def test_the_summary_calls_a_bound_a_bound():
    """An interval that begins at 0 does not say that the labels ignore anything of the transform."""
    rotation = dataclasses.replace(symmetry("rotation", 1.0), interval=[0.8, 1.2])
    shift = dataclasses.replace(symmetry("shift_x", 0.1), interval=[0.0, 0.16])
    said = [
        summary(of_widths(found)) for found in ([rotation, shift], [rotation, shift, symmetry("shear", 0.01)], [shift])
    ]
    bound = "may ignore horizontal shift (at most 2.2 pixels)"
    assert said == [
        f"The labels ignore rotation by up to ±57°, and {bound}.",
        f"The labels ignore rotation by up to ±57°, and {bound}; the one other width is negligible.",
        f"The labels {bound}.",
    ]


def test_a_negligible_width_that_may_be_clear_is_not_called_negligible():
    """Earlier "every width is negligible" of a flip of 0.6 % whose interval reached 89 %."""
    flip = Symmetry("flip_x", 0.006, "probability", "0.6 % of the samples", interval=[0.0, 0.89])
    assert summary(of_widths([flip])) == "The labels may ignore left–right flip (at most 89 %)."
    known = dataclasses.replace(flip, interval=[0.0, 0.08])
    assert summary(of_widths([flip, known])).endswith("(at most 89 %); the one other width is negligible.")


def test_a_width_without_an_error_bar_claims_no_more_than_one_with_it():
    """Earlier "ignore", where a width with an interval that begins at 0 "may" be ignored."""
    found = [symmetry("rotation", 1.38), symmetry("shear", math.log(1.1)), symmetry("shift_x", 0.0)]
    assert summary(of_widths(found)) == (
        "The labels may ignore rotation by up to ±79° (no error bar) and shear (up to 10 % longer or 9.1 % shorter "
        "along the diagonals; no error bar); the one other width is negligible."
    )
    withheld = dataclasses.replace(found[1], no_error="the weights have not converged")
    assert summary(of_widths([measured("rotation", 1.38), withheld])) == (
        "The labels ignore rotation by up to ±79°, and may ignore shear (up to 10 % longer or 9.1 % shorter along the "
        "diagonals; no error bar)."
    )


def decided(symmetries: list[Symmetry], **answers: str) -> RunRecord:
    verdicts = [Verdict(name, answer, -6.3, 1.5, 0.39, 2.0, 8.3, 1.0, 1.1) for name, answer in answers.items()]
    return dataclasses.replace(of_widths(symmetries), verdicts=verdicts)


def test_the_summary_follows_the_verdicts():
    """Earlier "may ignore left–right flip (at most 39 %)" above a table that said no."""
    flip = Symmetry("flip_x", 0.2, "probability", "20 % of the samples", interval=[0.0, 0.39])
    rotation, shear = measured("rotation", 1.38), measured("shear", 0.01)
    assert summary(decided([flip], flip_x="no")) == "By the verdicts, the labels do not ignore left–right flip."
    assert summary(decided([rotation, flip, shear], flip_x="no")) == (
        "By the verdicts, the labels do not ignore left–right flip. The labels ignore rotation by up to ±79°; the one "
        "other width is negligible."
    )
    assert summary(decided([rotation, flip, shear], rotation="yes", flip_x="undecided")) == (
        "By the verdicts, the labels ignore rotation by up to ±79°, and may ignore left–right flip (undecided). Every "
        "other width is negligible."
    )
    assert summary(decided([rotation], other="no")).startswith("The labels ignore rotation")


def test_a_verdict_says_what_was_asked():
    flip = Symmetry("flip_x", 0.2, "probability", "20 % of the samples")
    assert verdict_sentences(decided([flip], flip_x="no")) == [
        "Left–right flip: no. Flipping half of all images makes the labels 6.3 ± 1.5 nats less probable than never "
        "flipping."
    ]
    turn = Symmetry("rotate_90", 0.2, "probability", "20 % of the samples")
    by_learned = Verdict("rotation", "yes", 412.3, 35.1, 1.518, 412.3, 6.2, 35.1, 4.4)
    by_full = Verdict("shear", "undecided", -1.2, 2.0, 0.01, 1.2, 800.5, 2.0, 60.3, "undertrained")
    run = decided([measured("rotation", 1.518), measured("shear", 0.01), turn], rotate_90="no")
    assert verdict_sentences(dataclasses.replace(run, verdicts=[by_learned, by_full, *run.verdicts])) == [
        "Rotation: yes. With rotation by up to ±87°, the labels are 412 ± 35 nats more probable than without it.",
        "Shear: undecided (undertrained). With the complete symmetry, the labels are 1.2 ± 2.0 nats less probable than "
        "without it.",
        "Rotate 90: no. With the complete symmetry, the labels are 6.3 ± 1.5 nats less probable than without it.",
    ]


def test_a_regression_begins_with_noise_and_error():
    """Earlier with the sentence that no width could be learned."""
    test = Metrics(None, 1.5, None, 9, 1, rmse=0.182)
    run = RunRecord("houses", likelihood={"sigma_noise": 0.167}, target_std=[1.49], test=test)
    assert summary(run) == (
        "Noise of the targets: standard deviation 0.167 (1.49 without the network). Root mean squared error on the "
        "test data: 0.182. This run has no transforms whose width could be learned."
    )
    counts = dataclasses.replace(run, test=None, likelihood={})
    assert summary(counts).startswith("Standard deviation of the targets: 1.49. This run has no transforms")
    assert summary(dataclasses.replace(counts, target_std=[])).startswith("This run has no transforms")
    several = dataclasses.replace(run, test=dataclasses.replace(test, rmse_by_target=[0.1, 0.24]))
    assert "on the test data: 0.182 (0.1, 0.24 by target)." in summary(several)


def in_states(**states: str) -> str:
    widths = {"rotation": math.radians(87), "shift_x": 0.3, "shear": 0.01, "scale_x": 0.01}
    return summary(of_widths([measured(name, widths[name], state) for name, state in states.items()]))


def test_the_summary_speaks_of_settled_widths_alone():
    settled, moving = "settled", "still moving"
    assert in_states(rotation=moving, shear=settled, shift_x=settled, scale_x=settled) == (
        "The labels ignore horizontal shift by up to 4.2 pixels left or right; every other settled width "
        "is negligible. Still moving: rotation (now ±87°). Train for more epochs to learn it."
    )
    assert in_states(rotation=moving, shift_x=moving, shear=settled) == (
        "Every settled width is negligible. Still moving: rotation (now ±87°) and horizontal shift (now up to 4.2 "
        "pixels left or right). Train for more epochs to learn them."
    )
    assert in_states(rotation=moving) == "Still moving: rotation (now ±87°). Train for more epochs to learn it."
    assert in_states(rotation="fixed", shear=settled).endswith("is negligible. Fixed: rotation by up to ±87°.")
    assert in_states(rotation="not learned yet", shift_x="not learned yet") == (
        "No width was learned: they are as they started."
    )


def of_layers(*layers: tuple[str, float]) -> str:
    """The summary of layers by their learned path and its share."""
    made = [
        dataclasses.replace(
            full_run().layers[0],
            learned=name,
            paths=[layer_path(name, share, 10), layer_path("other", 1 - share, 10, inactive=share > 0.99)],
        )
        for name, share in layers
    ]
    return summary(dataclasses.replace(full_run(), symmetries=[], layers=made, baselines=[]))


def test_summary_of_layers():
    conv, mostly, dense = ("conv", 1.0), ("conv", 0.8), ("f-fc", 1.0)
    assert of_layers(conv, conv, conv) == "Every layer became convolutional."
    assert of_layers(conv, conv, dense) == (
        "Layers 1 to 2 became convolutional, layer 3 became fully connected (factored)."
    )
    assert of_layers(mostly, dense) == (
        "Layer 1 became mostly convolutional, layer 2 became fully connected (factored)."
    )
    assert of_layers(("wobble", 1.0)) == "Every layer became wobble."
    assert (
        summary(dataclasses.replace(SPARSE["plain layers"](), baselines=[]))
        == "Each layer has a single path, so there was nothing to choose."
    )


def test_summary_of_both_is_two_sentences_and_one_about_the_baselines():
    text = summary(full_run())
    assert text.startswith("By the verdicts, the labels ignore rotation")
    both, tested = text.split(" On the test data ")
    assert both.endswith("layer 3 became mostly convolutional, layer 4 became mostly fully connected (factored).")
    assert "the best baseline" in tested


@pytest.mark.parametrize("name", SPARSE)
def test_summary_ends_like_a_sentence(name):
    assert summary(SPARSE[name]()).endswith(".")


def test_widths_that_no_hyper_step_moved_are_not_called_learned():
    run = dataclasses.replace(full_run(), verdicts=[])
    still = [dataclasses.replace(epoch, evidence=None, widths=run.history[0].widths) for epoch in run.history]
    states = with_states(run.symmetries, still, (1, 28, 28))
    assert summary(dataclasses.replace(run, history=still, symmetries=states)).startswith("No width was learned")
    assert summary(run).startswith("The labels ignore")


def test_a_problem_is_said_first():
    run = RunRecord("digits", problem="The network has collapsed.")
    assert summary(run).startswith("The network has collapsed. ")
    assert not summary(RunRecord("digits")).startswith("The network")
