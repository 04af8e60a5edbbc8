"""Widths that regressions were made with: hyper steps find them, from any seed.

Targets are drawn from the model itself: fixed random features of the inputs, averaged over a transform of a known
width, random weights, and noise. The mode of the weights is that of a ridge regression, so that nothing depends on how
weights are trained, and the evidence has its maximum near the known width.
"""

import pytest
import torch
from torch import Tensor, nn

import covary
from covary.augment import ColorJitter, Points3d, Signal1d, Volume3d

NUM_DATA, NUM_FEATURES, NUM_SAMPLES, NOISE = 200, 20, 16, 0.05
CONFIG = covary.FitConfig().replace(
    epochs=25,
    hyper={
        **{"estimator": "two_pass", "every": 1, "burn_in": 0, "probes": "exact", "num_sets": 1, "num_samples": None},
        **{"num_steps": 4, "num_moves": 3, "num_prior_steps": 1},
    },
)


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def colors(seed: int) -> Tensor:
    return drawn(NUM_DATA, 3, 2, 2, seed=seed)


def clouds(seed: int) -> Tensor:
    return drawn(NUM_DATA, 2, 3, seed=seed)


def signals(seed: int) -> Tensor:
    """Two bumps each."""
    times, centers = (2 * torch.arange(24) + 1) / 24 - 1, 0.5 * drawn(NUM_DATA, 2, 1, seed=seed)
    heights = drawn(NUM_DATA, 2, 1, seed=seed + 1)
    return (heights * torch.exp(-(((times - centers) / 0.15) ** 2) / 2)).sum(1, keepdim=True)


def volumes(seed: int) -> Tensor:
    """Three blobs each."""
    side = torch.arange(6) - 2.5
    places = torch.stack(torch.meshgrid(side, side, side, indexing="ij")[::-1], -1)
    centers, heights = 1.2 * drawn(NUM_DATA, 3, 3, seed=seed), drawn(NUM_DATA, 3, seed=seed + 1)
    square = (places - centers[:, :, None, None, None]).square().sum(-1)
    return (heights[..., None, None, None] * torch.exp(-square / 2)).sum(1, keepdim=True)


# Name -> the augmentation of a width, inputs of a seed, and the width that the targets are made with.
FAMILIES = {
    "brightness": (lambda width: ColorJitter(("brightness",), initial_width=width), colors, 0.7),
    "contrast": (lambda width: ColorJitter(("contrast",), initial_width=width), colors, 0.7),
    "saturation": (lambda width: ColorJitter(("saturation",), initial_width=width), colors, 0.7),
    "hue": (lambda width: ColorJitter(("hue",), initial_width=width), colors, 1.0),
    "shift": (lambda width: Signal1d(("shift",), initial_width=width), signals, 0.3),
    "stretch": (lambda width: Signal1d(("stretch",), initial_width=width), signals, 0.5),
    "amplitude": (lambda width: Signal1d(("amplitude",), initial_width=width), signals, 0.7),
    "rotation of points": (lambda width: Points3d(("rotation_z",), initial_width=width), clouds, 1.0),
    "scale of points": (lambda width: Points3d(("scale",), initial_width=width), clouds, 0.7),
    "rotation of volumes": (lambda width: Volume3d(("rotation_z",), initial_width=width), volumes, 1.0),
    "scale of volumes": (lambda width: Volume3d(("scale",), initial_width=width), volumes, 0.5),
}


def features(x: Tensor, seed: int) -> nn.Sequential:
    """Random features of data that are of size 2, without parameters to learn."""
    fixed = nn.Linear(x[0].numel(), NUM_FEATURES)
    with torch.no_grad():
        fixed.weight.copy_(2 * drawn(*fixed.weight.shape, seed=seed) / x.flatten(1).norm(dim=1).mean())
        fixed.bias.copy_(drawn(NUM_FEATURES, seed=seed + 1))
    return nn.Sequential(nn.Flatten(), fixed, nn.Tanh()).requires_grad_(False)


def learned(name: str, made_with: float, start: float, seed: int = 0) -> float:
    """The width that hyper steps end at, of targets that are made with a width."""
    make, inputs, _ = FAMILIES[name]
    x = inputs(100 * seed)
    body, head = features(x, 100 * seed + 7), nn.Linear(NUM_FEATURES, 1, bias=False)
    augment = make(start)
    with torch.no_grad():
        weights = drawn(NUM_FEATURES, 1, seed=100 * seed + 9)
        y = covary.Averaged(body, make(made_with), 64)(x, seed=5) @ weights
        y += NOISE * drawn(NUM_DATA, 1, seed=100 * seed + 10)
    averaged = covary.Averaged(body, augment, NUM_SAMPLES)
    network = covary.Averaged(nn.Sequential(body, head), augment, NUM_SAMPLES)
    model = covary.Model(network, covary.Gaussian(NOISE, learn_sigma_noise=False))
    learner = covary.EvidenceLearner(model, (x, y), CONFIG.replace(seed=seed))
    for epoch in range(CONFIG.epochs):
        with torch.no_grad():
            found = averaged(x, seed=epoch)
            precision = NOISE**2 * model.prior.precision.mean() * torch.eye(NUM_FEATURES)
            head.weight.copy_(torch.linalg.solve(found.T @ found + precision, found.T @ y).T)
        learner.step(NUM_DATA)
    (width,) = learner.widths.values()
    return width


@pytest.mark.parametrize("name", FAMILIES)
def test_a_width_grows_to_that_of_the_data(name):
    width = FAMILIES[name][2]
    assert learned(name, width, 0.5 * width) == pytest.approx(width, rel=0.15)


@pytest.mark.parametrize("name", ["saturation", "contrast", "scale of points"])
def test_it_does_so_from_another_seed(name):
    width = FAMILIES[name][2]
    assert learned(name, width, 0.5 * width, seed=3) == pytest.approx(width, rel=0.15)


@pytest.mark.parametrize("name", ["contrast", "scale of points"])
def test_a_width_shrinks_to_that_of_the_data(name):
    """The control: the same width is found from above, and next to none where targets were made without."""
    width = FAMILIES[name][2]
    assert learned(name, width, 1.6 * width) == pytest.approx(width, rel=0.15)
    assert learned(name, 0.0, 0.4 * width) < 0.15 * width
