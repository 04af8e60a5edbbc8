"""Error bars of widths: lines that change one width alone, the noise of the steps, and what a fit records."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import covary
from covary.augment import Affine2d, Composed, Correlated, FiniteGroup, LearnedGenerators, Mirror3d, Rotation2d, bounded
from covary.batches import as_batches
from covary.hypergrad.information import Information, Line, Sample, displaced
from covary.hypergrad.two_pass import curvature_cotangents
from covary.records import Evidence, Symmetry
from covary.training import error_bars
from covary.training.error_bars import (
    MOST_DISTANCE,
    NORMAL_90,
    evidence_gradients,
    remaining_way,
    step_noise,
    width_lines,
    with_error,
)
from covary.training.widths import EvidenceChange

AT_REST = EvidenceChange(0.0, 0.0)
AUGMENTATIONS = {
    "affine": lambda: Affine2d(initial_width=(0.3, 0.1, 0.2, 0.02, 0.4, 0.1)),
    "correlated": lambda: Correlated(Affine2d(("scale_x", "scale_y"), initial_width=0.2)),
    "finite": lambda: FiniteGroup("flips", 0.1),
    "rare": lambda: FiniteGroup(("identity", "flip_x"), 1e-4),
    "mirrors": lambda: Mirror3d(initial_probability=0.3),
    "generators": lambda: LearnedGenerators(2, dim=2, initial_width=0.4),
    "composed": lambda: Composed(FiniteGroup(("identity", "flip_x"), 0.2), Affine2d(("rotation",), initial_width=1.0)),
}


def units(augment) -> list[str]:
    return list(getattr(augment, "units", [""] * len(augment.names)))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_line_changes_its_own_width_alone(name):
    augment = AUGMENTATIONS[name]()
    model = covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4))
    start = augment.widths.detach().clone()
    for number, line in enumerate(width_lines(augment, model, units(augment))):
        with displaced(model, line.direction, 1e-4 * line.high):
            change = (augment.widths - start) / (1e-4 * line.high)
        expected = torch.eye(len(start))[number]
        torch.testing.assert_close(change.detach(), expected, atol=2e-3, rtol=2e-3)  # of a bent function, in its step
        ends = []
        for end in (line.low, line.high):
            with displaced(model, line.direction, end):
                assert bool((augment.widths >= 0).all())
                ends.append(augment.widths[number].item() ** (1 if units(augment)[number] == "probability" else 2))
        assert line.length == pytest.approx(ends[1] - ends[0])
        assert line.low <= 0 < line.high


def test_the_square_of_a_small_width_changes_by_enough():
    augment = Affine2d(("rotation", "shear"), initial_width=(1.5, 0.01))
    model = covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4))
    rotation, shear = width_lines(augment, model, ["radians", "log-scale"])
    assert rotation.high == pytest.approx(0.05, rel=0.03)
    assert rotation.low == pytest.approx(-0.05, rel=0.03)
    assert (0.01 + shear.low, 0.01 + shear.high) == pytest.approx((0.0, 0.1005), abs=1e-4)


def test_a_width_of_zero_has_no_line():
    augment = Affine2d(("rotation", "shear"), initial_width=(0.3, 0.0))
    model = covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4))
    assert [line is None for line in width_lines(augment, model, units(augment))] == [False, True]


def test_frozen_widths_have_no_lines():
    augment = Rotation2d(0.3).requires_grad_(False)
    assert width_lines(augment, covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4)), ["radians"]) == [None]


def test_the_noise_of_steps_is_that_of_the_last_quarter():
    path = [[10.0, 1.0]] * 12 + [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [2.0, 1.0]]
    assert step_noise(path) == pytest.approx([math.sqrt(2 / 3), 0.0])
    assert step_noise([[1.0]]) == []


def test_an_error_has_both_parts_and_an_interval_within_the_range():
    """Of a width that is large against its error: e/2w, and noise as it is."""
    symmetry = Symmetry("rotation", 3.0, "radians", "±172°")
    found = with_error(symmetry, Information(held=1e9, total=1 / (6 * 0.03) ** 2), AT_REST, 0.04)
    assert found.error == pytest.approx(0.05, rel=1e-3)
    assert found.interval == pytest.approx([3.0 - 0.05 * NORMAL_90, 3.0 + 0.05 * NORMAL_90], rel=1e-3)
    assert with_error(symmetry, Information(1.0, 1 / 16), AT_REST).interval[1] == math.pi
    assert found.no_error is None


def test_a_width_near_zero_has_a_bound():
    found = with_error(Symmetry("shear", 0.01, "log-scale", ""), Information(1e6, 1e4), AT_REST)
    assert found.interval == pytest.approx([0.0, math.sqrt(0.01**2 + NORMAL_90 * 0.01)])
    assert found.error == pytest.approx(found.interval[1] / (2 * NORMAL_90))


@pytest.mark.parametrize(
    ("unit", "width"), [("log-factor", 0.02), ("radians of hue", 2.7), ("probability", 0.1), ("half-widths", 0.3)]
)
def test_an_interval_of_every_width_is_none(unit, width):
    """Earlier "saturation (at most 1068647458152346 %)"."""
    symmetry = Symmetry("w", width, unit, "")
    found = with_error(symmetry, Information(1.0, 1e-2), AT_REST)
    assert (found.error, found.interval, found.no_error) == (None, None, "the data do not limit it")
    assert with_error(symmetry, Information(1.0, 1e4), AT_REST).interval is not None


def test_a_probability_is_not_squared():
    found = with_error(Symmetry("flip_x", 0.4, "probability", ""), Information(1e6, 400.0), AT_REST)
    assert (found.error, *found.interval) == pytest.approx((0.05, 0.4 - 0.05 * NORMAL_90, 0.4 + 0.05 * NORMAL_90))


@pytest.mark.parametrize(
    ("held", "total", "gradient", "noise", "reason"),
    [
        (3.0, 0.0, 1.0, 0.1, "the weights make up for every change of it"),
        (0.0, 0.0, 1.0, 0.1, "the outputs do not change"),
        (math.nan, math.nan, 1.0, 0.1, "its information is not finite"),
        (1.0, 1.0, 1.0, math.nan, "its information is not finite"),
        (1.0, 1.0, math.nan, 0.1, "its information is not finite"),
    ],
)
def test_a_width_without_an_error_says_why(held, total, gradient, noise, reason):
    symmetry, slope = Symmetry("rotation", 3.0, "radians", "±172°"), EvidenceChange(gradient, 0.0)
    found = with_error(symmetry, Information(held, total), slope, noise)
    assert (found.error, found.interval, found.no_error) == (None, None, reason)


def test_the_way_that_remains_is_a_newton_step_of_a_gradient_above_its_noise():
    information = Information(900.0, 400.0)
    assert remaining_way(information, EvidenceChange(-50.0, 30.0)) == 0.0
    assert remaining_way(information, EvidenceChange(-50.0, 14.0)) == pytest.approx(-48.0 / 400.0)
    assert remaining_way(information, EvidenceChange(50.0, 0.0)) == pytest.approx(1 / 8)
    found = with_error(Symmetry("flip_x", 0.4, "probability", ""), information, EvidenceChange(48.0, 0.0))
    assert found.interval == pytest.approx([0.4 - 0.05 * NORMAL_90, 0.4 + 0.13 * NORMAL_90])  # 0.05 and 0.12
    assert found.error == pytest.approx((0.05 + 0.13) / 2)
    bound = with_error(Symmetry("shear", 0.01, "log-scale", ""), Information(1e6, 1e4), EvidenceChange(-1e3, 0.0))
    assert bound.interval == pytest.approx([0.0, math.sqrt(0.01**2 + NORMAL_90 * 0.01)])  # a way to 0 raises no bound


def quadratic(width: float = 0.7) -> tuple[covary.Model, tuple[torch.Tensor, torch.Tensor]]:
    """A linear network on points that are rotated; all in float64."""
    noise = torch.Generator().manual_seed(0)
    x, y = (torch.randn(12, size, generator=noise, dtype=torch.float64) for size in (2, 1))
    network = covary.Averaged(covary.networks.mlp(2, 4, 1, generator=noise), Rotation2d(width), 4).double()
    return covary.Model(network, covary.Gaussian(0.5).double()), (x, y)


def test_gradients_are_differences_of_the_evidence_and_of_all_data_have_no_error():
    """Against the evidence at both ends of the line, anew: the linearized log-determinant is near that."""
    model, data = quadratic()
    (line,) = width_lines(model.network.augment, model, ["radians"])
    curvature, batches = covary.Curvature("full"), as_batches(data)
    statistics = covary.curvature.passes.curvature_pass(model, batches, curvature, seed=3)
    cotangents = curvature_cotangents(model, statistics, curvature)
    bent = [Information(0.0, 1.0)]
    (found,) = evidence_gradients(model, Sample(batches, 12, 12), cotangents, [line], bent, seed=3)
    ends = []
    for end in (line.low, line.high):
        with displaced(model, line.direction, end):
            ends.append(float(covary.log_evidence(model, data, curvature=curvature, seed=3).log_evidence))
    assert found.value == pytest.approx((ends[1] - ends[0]) / line.length, rel=0.02)
    assert found.error == 0.0
    positions = torch.arange(6)
    (half,) = evidence_gradients(model, Sample(batches.at(positions), 6, 12), cotangents, [line], bent, seed=3)
    assert half.error > 0
    assert half.value != pytest.approx(found.value, rel=0.02)


def test_a_gradient_is_corrected_where_the_width_is_not_in_the_middle():
    model, data = quadratic(0.05)
    (line,) = width_lines(model.network.augment, model, ["radians"])
    assert line.middle == pytest.approx(line.length / 2 - 0.05**2, abs=1e-6)  # the lower end is at 0
    curvature, batches = covary.Curvature("full"), as_batches(data)
    cotangents = curvature_cotangents(
        model, covary.curvature.passes.curvature_pass(model, batches, curvature), curvature
    )
    plain, bent = (
        evidence_gradients(model, Sample(batches, 12, 12), cotangents, [line], [Information(held, 1.0)])[0].value
        for held in (0.0, 7.0)
    )
    assert bent - plain == pytest.approx(7.0 * line.middle)


def fitted(augment: Rotation2d | None = None, lr: float = 0.05, scale: float = 1.0, **evaluation: int) -> covary.Run:
    torch.manual_seed(0)
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    network = covary.Averaged(covary.networks.mlp(2, 4, 2), augment or Rotation2d(0.3), 2)
    for parameter in network.network.parameters():
        parameter.data.mul_(scale)
    # widths move from the first hyper step on, whether the network predicts well or not
    hyper = {"width_optimizer": "adam", "burn_in": 10, "num_samples": 2, "num_moves": 1, "num_steps": 1}
    weights = {"lr": lr, "batch_size": 10}
    config = covary.FitConfig().replace(epochs=12, weights=weights, hyper=hyper, evaluation=evaluation)
    return covary.fit(network, (x, (x.norm(dim=1) > 1.2).long()), config, callbacks=())


def test_a_fit_records_errors_and_prints_them(tmp_path, monkeypatch):
    samples = []

    def known(model, sample, statistics, lines, *, seed):
        samples.append(sample)
        return [Information(held=900.0, total=400.0) for _ in lines]

    monkeypatch.setattr(error_bars, "information_along", known)
    run = fitted()
    (symmetry,) = run.symmetries
    assert 0.0 < symmetry.error < 0.3
    assert symmetry.interval[0] < symmetry.width < symmetry.interval[1]
    assert "± error" in str(run)
    assert "no error bar" not in str(run)
    assert covary.load(run.save(tmp_path)).symmetries == run.symmetries
    assert [(sample.num_read, sample.num_data) for sample in samples] == [(40, 40)]
    fitted(num_error_data=30)
    assert (sum(len(batch.x) for batch in samples[-1].batches), samples[-1].num_read) == (30, 30)
    assert len(samples) == 2


def test_a_fit_computes_errors():
    """Without a stand-in for the information, for each structure that may precondition."""
    (symmetry,) = fitted().symmetries
    assert symmetry.error > 0
    assert symmetry.interval[0] <= symmetry.width <= symmetry.interval[1]


def test_weights_far_from_a_mode_have_no_errors():
    """Which width is the best for them says little about that of their mode, and the interval was no wider for it."""
    short, long = fitted(lr=1e-5, scale=5.0), fitted(scale=5.0)
    assert long.evidence.mode_distance < MOST_DISTANCE < short.evidence.mode_distance
    assert long.symmetries[0].error is not None
    assert (short.symmetries[0].error, short.symmetries[0].interval) == (None, None)
    assert "no error bars: the weights have not converged" in str(short)


@pytest.mark.parametrize(
    ("state", "distance", "far"),
    [("settled", 1.1, True), ("settled", 0.9, False), ("still moving", 1.1, True), ("settled", None, False)],
)
def test_a_width_is_without_where_weights_are_far(state, distance, far):
    symmetry = Symmetry("rotation", 0.5, "radians", "", state)
    evidence = replace(Evidence(-40.0, -9.0, 4.0, -45.0, 20, "kron", "exact"), mode_distance=distance)
    assert (error_bars._reason(symmetry, Line({}, -0.1, 0.1, 0.2), evidence) == error_bars.FAR) is far


@pytest.mark.parametrize("setting", ["num_error_data", "num_evaluations"])
def test_errors_can_be_left_out_and_the_run_says_so(setting):
    run = fitted(**{setting: 0})
    assert run.symmetries[0].error is None
    assert f"no error bars: evaluation.{setting} is 0" in str(run)
    assert "± error" not in str(run)


def test_a_width_at_its_limit_has_none():
    """Wherever steps move it, it is within 5 % of one of these limits, and the evidence has no maximum there."""
    run = fitted(bounded(Rotation2d(0.3), rotation=(0.2999, 0.3001)))
    (symmetry,) = run.symmetries
    assert (symmetry.state, symmetry.error, symmetry.limits) == ("at its limit", None, [0.2999, 0.3001])
    assert "no error bars: at its limit" in str(run)
