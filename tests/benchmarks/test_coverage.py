"""Data with a true width, and intervals that have it in them."""

import math

import pytest
import torch

from covary.benchmarks import coverage


def test_targets_are_means_over_rotations():
    """The mean over many angles within ±w, in place of the closed form."""
    truth, seed = 0.7, 3
    x, y = coverage.made_data(truth, seed)
    noise = torch.Generator().manual_seed(seed)
    angles = 2 * math.pi * torch.rand(len(x), generator=noise, dtype=torch.float64)
    torch.testing.assert_close(torch.atan2(x[:, 1], x[:, 0]) % (2 * math.pi), angles)
    weights = torch.randn(y.shape[1], 2 * coverage.NUM_HARMONICS, generator=noise, dtype=torch.float64)
    turned = angles[:, None] + truth * torch.linspace(-1, 1, 4001, dtype=torch.float64)
    harmonics = [wave(k * turned).mean(1) for wave in (torch.cos, torch.sin) for k in range(1, 5)]
    added = coverage.SIGMA * torch.randn(y.shape, generator=noise, dtype=torch.float64)
    torch.testing.assert_close(y - added, torch.stack(harmonics, 1) @ weights.T, atol=5e-3, rtol=0)


def test_estimates_are_near_the_truth_and_an_error_that_is_too_small_does_not_cover(monkeypatch):
    monkeypatch.setattr(coverage, "SETS", 2)
    rows = coverage.measure_coverage(1, lambda message, done: None)
    for row in rows:
        assert row["mean"] == pytest.approx(row["true width"], abs=0.1)
        assert 0.01 < row["mean error"] < 0.1
        assert 0 <= row["covered"] <= row["data sets"] == 2
    below, without = (sum(row[name] for row in rows) for name in ("covered 0.2 below", "without the way"))
    assert below == 6
    assert without <= 3, "intervals that know nothing of the way cover no width that is 0.2 off, but for luck"
    assert coverage.covers((0.42, 0.59), 0.58)
    assert not coverage.covers((0.42, 0.57), 0.58)


@pytest.mark.parametrize("truth", [0.3, 0.5, 0.8])
def test_at_the_maximum_no_way_remains(truth):
    """The gradient of a difference that is not corrected would make the intervals half as long again."""
    found, _ = coverage.estimates(truth, seed=1)
    assert found.interval == pytest.approx(found.at_rest, abs=0.05 * found.error)
