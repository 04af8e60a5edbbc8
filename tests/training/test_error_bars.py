"""Error bars of widths: lines that change one width alone, the noise of the steps, and what a fit records."""

import math

import pytest
import torch
from torch import nn

import covary
from covary.augment import Affine2d, Composed, Correlated, FiniteGroup, LearnedGenerators, Mirror3d, Rotation2d, bounded
from covary.hypergrad.information import Information, displaced
from covary.records import Symmetry
from covary.training import error_bars
from covary.training.error_bars import NORMAL_90, _with_error, step_noise, width_lines

AUGMENTATIONS = {
    "affine": lambda: Affine2d(initial_width=(0.3, 0.1, 0.2, 0.02, 0.4, 0.1)),
    "correlated": lambda: Correlated(Affine2d(("scale_x", "scale_y"), initial_width=0.2)),
    "finite": lambda: FiniteGroup("flips", 0.1),
    "rare": lambda: FiniteGroup(("identity", "flip_x"), 1e-4),
    "mirrors": lambda: Mirror3d(initial_probability=0.3),
    "generators": lambda: LearnedGenerators(2, dim=2, initial_width=0.4),
    "composed": lambda: Composed(FiniteGroup(("identity", "flip_x"), 0.2), Affine2d(("rotation",), initial_width=1.0)),
}


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_a_line_changes_its_own_width_alone(name):
    augment = AUGMENTATIONS[name]()
    model = covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4))
    start = augment.widths.detach().clone()
    for number, line in enumerate(width_lines(augment, model)):
        direction, step = line
        with displaced(model, direction, 1e-4 * step):
            change = (augment.widths - start) / (1e-4 * step)
        expected = torch.eye(len(start))[number]
        torch.testing.assert_close(change.detach(), expected, atol=2e-3, rtol=2e-3)  # of a bent function, in its step
        assert step <= 0.05
        with displaced(model, direction, -step):
            assert bool((augment.widths >= 0).all())


def test_a_width_of_zero_has_no_line():
    augment = Affine2d(("rotation", "shear"), initial_width=(0.3, 0.0))
    model = covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4))
    assert [line is None for line in width_lines(augment, model)] == [False, True]


def test_frozen_widths_have_no_lines():
    augment = Rotation2d(0.3).requires_grad_(False)
    assert width_lines(augment, covary.Model(covary.Averaged(nn.Linear(2, 2), augment, 4))) == [None]


def test_the_noise_of_steps_is_that_of_the_last_quarter():
    path = [[10.0, 1.0]] * 12 + [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [2.0, 1.0]]
    assert step_noise(path) == pytest.approx([math.sqrt(2 / 3), 0.0])
    assert step_noise([[1.0]]) == []


def test_an_error_has_both_parts_and_an_interval_within_the_range():
    symmetry = Symmetry("rotation", 3.0, "radians", "±172°")
    information = Information(gradient=0.12 / 0.03**2, fixed=5 / 0.03**2, followed=4 / 0.03**2)
    found = _with_error(symmetry, information, 0.04, whole=False)
    assert found.error == pytest.approx(0.05)
    assert found.interval == pytest.approx([3.0 - 0.05 * NORMAL_90, 3.0 + 0.05 * NORMAL_90])
    assert _with_error(symmetry, information, 0.04, whole=True).error == pytest.approx(0.13)
    assert _with_error(symmetry, Information(0.0, 1.0, 0.0), 0.0, True).interval == pytest.approx(
        [3.0 - NORMAL_90, math.pi]
    )
    for nowhere in (0.0, -3.0, math.nan, math.inf):
        assert _with_error(symmetry, Information(0.0, nowhere, 0.0), 0.1, False).error is None


def fitted(augment: Rotation2d | None = None, **evaluation: int) -> covary.Run:
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    network = covary.Averaged(covary.networks.mlp(2, 4, 2), augment or Rotation2d(0.3), 2)
    # widths move from the first hyper step on, whether the network predicts well or not
    hyper = {"width_optimizer": "adam", "burn_in": 1, "num_samples": 2, "num_moves": 1, "num_steps": 1}
    config = covary.FitConfig().replace(epochs=3, hyper=hyper, evaluation=evaluation)
    return covary.fit(network, (x, (x.norm(dim=1) > 1.2).long()), config, callbacks=())


def test_a_fit_records_errors_and_prints_them(tmp_path, monkeypatch):
    samples = []

    def known(model, sample, curvature, lines, *, seed):
        samples.append(sample)
        return [Information(gradient=0.0, fixed=900.0, followed=500.0) for _ in lines]

    monkeypatch.setattr(error_bars, "information_along", known)
    run = fitted()
    (symmetry,) = run.symmetries
    assert 0.05 <= symmetry.error < 0.2
    assert symmetry.interval == pytest.approx(
        [max(symmetry.width - NORMAL_90 * symmetry.error, 0), symmetry.width + NORMAL_90 * symmetry.error]
    )
    assert "± error" in str(run)
    assert covary.load(run.save(tmp_path)).symmetries == run.symmetries
    assert [(len(sample.blocks), sample.num_data) for sample in samples] == [(1, 40)]
    fitted(num_error_data=30)
    assert [sum(len(batch.x) for batch in block) for block in samples[-1].blocks] == [3] * 10
    assert len(samples) == 2


def test_errors_can_be_left_out():
    run = fitted(num_error_data=0)
    assert run.symmetries[0].error is None
    assert "± error" not in str(run)


def test_a_width_at_its_limit_has_none():
    """Wherever steps move it, it is within 5 % of one of these limits, and the evidence has no maximum there."""
    run = fitted(bounded(Rotation2d(0.3), rotation=(0.2999, 0.3001)))
    (symmetry,) = run.symmetries
    assert (symmetry.state, symmetry.error, symmetry.limits) == ("at its limit", None, [0.2999, 0.3001])
    assert "at its limit" in str(run)
