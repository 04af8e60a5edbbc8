"""Shift, stretch, amplitude and noise of signals."""

import pytest
import torch

from covary.augment import Signal1d
from covary.errors import ShapeError, StructureError


def moved(x, padding="zeros", **widths):
    """The signals at the upper end of the transforms."""
    augment = Signal1d(tuple(widths), initial_width=widths, padding=padding)
    return augment.transform(x, torch.ones(len(x), 1, len(widths)))[:, 0].detach()


def test_a_shift_by_whole_steps(generator):
    x = torch.rand(2, 3, 8, generator=generator)
    expected = torch.cat([x[..., 2:], torch.zeros(2, 3, 2)], -1)
    torch.testing.assert_close(moved(x, shift=0.5), expected)  # 2 of 8 steps, half of half the length
    torch.testing.assert_close(moved(x, "border", shift=0.5)[..., -1], x[..., -1])


def test_a_stretch_reads_between_the_steps():
    x = torch.arange(8.0).reshape(1, 1, 8)
    centers = torch.arange(8.0) - 3.5
    wide = torch.tensor(0.3).exp() * centers + 3.5
    inside = (wide >= 0) & (wide <= 7)
    torch.testing.assert_close(moved(x, stretch=0.3)[0, 0][inside], wide[inside])


def test_amplitude_and_noise(generator):
    x = torch.rand(500, 1, 8, generator=generator)
    torch.testing.assert_close(moved(x, amplitude=0.7), x * torch.tensor(0.7).exp())
    augment = Signal1d(("noise",), initial_width=0.2)
    noise = augment.sample_noise(torch.arange(500), 2, seed=3)
    added = (augment.transform(x, noise) - x.unsqueeze(1)).detach()
    assert float(added.std()) == pytest.approx(0.2, rel=0.05)
    assert float(added.mean()) == pytest.approx(0, abs=0.01)
    flat = added.flatten(1)
    assert float((flat[:, 0] * flat[:, 9]).mean().abs()) < 0.01, "samples are independent"


def test_what_does_not_fit_is_named():
    with pytest.raises(ShapeError, match=r"signals \(N, C, T\), got \(2, 8\)"):
        moved(torch.rand(2, 8), shift=0.1)
    with pytest.raises(StructureError, match="padding among zeros, border, reflection, got 'wrap'"):
        Signal1d(padding="wrap")
