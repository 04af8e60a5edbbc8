import math

import pytest
import torch

import covary
from covary.augment import Affine2d, Augmentation, Correlated
from covary.errors import DataError
from covary.priors import hyperparameters_of, weights_of

SCALES = ("scale_x", "scale_y")


def bumps(size):
    """Smooth images with content away from the center, (2, 1, H, W)."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    spots = [(0.4, 0.4), (-0.4, 0.4)]
    return torch.stack([torch.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.08) for a, b in spots])[:, None]


def test_starts_as_its_base(generator):
    base = Affine2d(initial_width=0.2)
    augment = Correlated(base)
    assert isinstance(augment, Augmentation)
    assert (augment.names, augment.units) == (base.names, base.units)
    torch.testing.assert_close(augment.widths, base.widths)
    torch.testing.assert_close(augment.correlation, torch.eye(6))
    x, noise = torch.rand(2, 1, 6, 7, generator=generator), augment.sample_noise(torch.arange(2), 3, seed=0)
    assert torch.equal(noise, base.sample_noise(torch.arange(2), 3, seed=0))
    torch.testing.assert_close(augment.transform(x, noise), base.transform(x, noise))
    assert weights_of(augment) == {}
    assert list(hyperparameters_of(augment, {})) == ["raw_mix"]
    assert base.raw_widths.requires_grad


def test_coefficients_are_the_mix_of_the_noise(generator):
    mix = torch.tensor([[0.3, 0.0, 0.0], [0.1, 0.2, 0.0], [-0.4, 0.5, 0.6]])
    base = Affine2d(("scale_x", "shift_y", "rotation"))
    augment = Correlated(base, mix)
    torch.testing.assert_close(augment.mix, mix)
    torch.testing.assert_close(augment.widths, torch.diag(mix @ mix.T).sqrt())
    deviations = torch.diag(mix @ mix.T).sqrt()
    torch.testing.assert_close(augment.correlation, mix @ mix.T / torch.outer(deviations, deviations))
    x, noise = torch.rand(2, 1, 6, 6, generator=generator), augment.sample_noise(torch.arange(2), 4, seed=0)
    coefficients = torch.stack([mix @ e for e in noise.flatten(0, 1)]).reshape(2, 4, 3)
    torch.testing.assert_close(augment.transform(x, noise), base.warp(x, coefficients))


def test_rotation_is_capped_on_its_whole_row_and_keeps_a_gradient():
    augment = Correlated(Affine2d(("shift_x", "rotation")))
    with torch.no_grad():
        augment.raw_mix.copy_(torch.tensor([[9.0, 0.0], [6.0, 8.0]]))
    assert augment.widths[0] == 9
    assert augment.widths[1].item() == pytest.approx(math.pi * math.tanh(10 / math.pi))
    torch.testing.assert_close(augment.mix[1, 0] / augment.mix[1, 1], torch.tensor(6 / 8))
    (gradient,) = torch.autograd.grad(augment.mix.sum(), augment.raw_mix)
    assert gradient[1].abs().min() > 1e-3


def test_gradients_at_zero_are_finite():
    augment = Correlated(Affine2d(("rotation", "scale_x"), initial_width=0.0))
    assert torch.autograd.gradcheck(lambda _: augment.mix, augment.raw_mix)
    (gradient,) = torch.autograd.grad(augment.widths.sum(), augment.raw_mix)
    assert gradient.isfinite().all()


def test_evidence_has_a_gradient_off_the_diagonal_initially(generator):
    """Zero is no stationary point of the entries off the diagonal: they need no start of their own."""
    network = covary.networks.mlp(100, 6, 2, generator=generator).double()
    augment = Correlated(Affine2d(SCALES))
    averaged = covary.Averaged(network, augment, 256)
    data = (bumps(10).repeat(5, 1, 1, 1), torch.arange(10) % 2)
    likelihood, prior = covary.Categorical(), covary.Prior(averaged)
    gradients = [
        covary.hypergrad.direct(covary.Model(averaged, likelihood, prior), data, seed=seed)["augment.raw_mix"]
        for seed in (0, 1)
    ]
    assert gradients[0][1, 0].abs() > 0.005
    # A gradient due to asymmetric noise alone would change with the seed.
    torch.testing.assert_close(gradients[0][1, 0], gradients[1][1, 0], rtol=0.1, atol=0)
    assert gradients[0][0, 1] == 0


def test_learns_that_both_scales_are_one_zoom():
    """From independent scales, by gradient, to rows [[a, 0], [a, 0]]; independent scales cannot fit as well."""
    x, index = bumps(14), torch.arange(2)
    zoom = Correlated(Affine2d(SCALES), torch.tensor([[0.6, 0.0], [0.6, 0.0]]))
    kinds = [Correlated(Affine2d(SCALES, initial_width=0.05)), Affine2d(SCALES, initial_width=0.05)]
    errors = []
    for augment in kinds:
        noise = augment.sample_noise(index, 64, seed=0)
        target = zoom.transform(x, noise).mean(1).detach()
        optimizer = torch.optim.Adam([p for p in augment.parameters() if p.requires_grad], lr=0.03)
        for _ in range(150):
            optimizer.zero_grad()
            error = (augment.transform(x, noise).mean(1) - target).square().sum()
            error.backward()
            optimizer.step()
        errors.append(error.item())
    assert errors[0] < 1e-2 * errors[1]
    mix = kinds[0].mix.detach()
    torch.testing.assert_close(mix[:, 0], torch.tensor([0.6, 0.6]), rtol=0, atol=0.01)
    assert mix[1, 1].abs() < 0.15  # the error is quartic in it: it creeps toward 0
    assert kinds[0].correlation[0, 1] > 0.97


@pytest.mark.parametrize("mix", [torch.ones(2, 2), torch.zeros(2, 3), torch.tensor([[math.nan, 0.0], [0.0, 1.0]])])
def test_bad_mix(mix):
    with pytest.raises(DataError, match=r"finite lower-triangular matrix \(2, 2\)"):
        Correlated(Affine2d(SCALES), mix)
