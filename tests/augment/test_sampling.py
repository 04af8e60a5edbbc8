"""Noise: uniform, a function of (seed, index), and evenly spread where that is claimed."""

import math

import pytest
import torch
from scipy.stats import kstest
from torch.quasirandom import SobolEngine

from covary.augment.sampling import SAMPLERS, check_sampler, sobol_points
from covary.errors import StructureError

EVERY = pytest.mark.parametrize("sampler", SAMPLERS)


def draw(sampler, index, num_samples, seed=0, num_axes=3, dtype=torch.float64):
    return SAMPLERS[sampler](seed, index, num_samples, num_axes, dtype)


def test_points_are_those_of_the_engine():
    expected = SobolEngine(64).draw(100, dtype=torch.float64)
    assert torch.equal(sobol_points(100, 64) / 2**30, expected)


@pytest.mark.parametrize("num_samples", [1, 2, 8, 12, 31])
def test_sobol_numbers_of_one_axis_are_equally_far_from_one_another(num_samples):
    steps = draw("sobol", torch.arange(20), num_samples, num_axes=6).sort(1).values.diff(dim=1)
    torch.testing.assert_close(steps, torch.full_like(steps, 2 / num_samples), rtol=0, atol=1e-12)
    independent = draw("random", torch.arange(20), 8, num_axes=6).sort(1).values.diff(dim=1)
    assert independent.min() < 0.05  # the control: gaps of any size


def test_steps_round_a_circle_average_its_harmonics_exactly():
    """cos(3π ε + 1), three periods: zero over eight even steps, not over eight independent ones."""
    means = {s: torch.cos(3 * math.pi * draw(s, torch.arange(50), 8) + 1).mean(1) for s in SAMPLERS}
    assert means["sobol"].abs().max() < 1e-14
    assert means["random"].square().mean().sqrt() > 0.1


@EVERY
def test_marginals_are_uniform(sampler):
    noise = draw(sampler, torch.arange(4000), 3)
    assert noise.shape == (4000, 3, 3)
    assert noise.min() >= -1
    assert noise.max() < 1
    for s in range(3):
        for k in range(3):
            assert kstest(noise[:, s, k].numpy(), "uniform", args=(-1, 2)).pvalue > 1e-3
    assert kstest(noise[:, 0, 0].square().numpy(), "uniform").pvalue < 1e-6  # the control


@EVERY
def test_data_and_axes_are_independent(sampler):
    noise = draw(sampler, torch.arange(4001), 1)[:, 0]
    columns = torch.cat([noise[:-1], noise[1:]], dim=1)  # three axes of a datum and of its neighbor
    correlation = torch.corrcoef(columns.T) - torch.eye(6)
    assert correlation.abs().max() < 4 / math.sqrt(4000)


@EVERY
def test_depends_on_seed_and_index_alone(sampler):
    index = torch.arange(100) * 7
    noise = draw(sampler, index, 5)
    split = [draw(sampler, part, 5) for part in index.flip(0).split(33)]
    assert torch.equal(torch.cat(split).flip(0), noise)
    assert not torch.equal(draw(sampler, index, 5, seed=1), noise)
    torch.testing.assert_close(draw(sampler, index, 5, dtype=torch.float32).double(), noise, rtol=0, atol=1e-6)


def errors(sampler, sizes, num_axes):
    """Root mean square errors of the mean of cos(Σ ε) over S samples, whose integral is sin(1)ᴷ."""
    noises = [draw(sampler, torch.arange(300), size, num_axes=num_axes) for size in sizes]
    means = torch.stack([torch.cos(noise.sum(-1)).mean(1) for noise in noises])
    return (means - math.sin(1) ** num_axes).square().mean(1).sqrt()


@pytest.mark.parametrize("num_axes", [1, 2, 3])
def test_error_falls_faster_than_the_root_of_s_for_sobol_only(num_axes):
    even, independent = (errors(s, (8, 512), num_axes) for s in ("sobol", "random"))
    gradients = [float((e[1] / e[0]).log() / math.log(512 / 8)) for e in (even, independent)]
    assert gradients[0] < -0.9
    assert gradients[1] == pytest.approx(-0.5, abs=0.07)


def test_few_even_samples_beat_many_independent_ones():
    assert errors("sobol", (16,), 3) < errors("random", (48,), 3)
    assert errors("sobol", (32,), 3) < errors("random", (300,), 3)


def test_errors():
    with pytest.raises(StructureError, match="among sobol, random, got 'halton'"):
        check_sampler("halton")
    with pytest.raises(StructureError, match="at most 64 axes of Sobol points, got 65"):
        sobol_points(2, 65)
