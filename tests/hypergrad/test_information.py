"""The information on a width: the second derivative of the exact evidence, weights integrated out."""

import itertools

import pytest
import torch
from torch import nn

import covary
from covary.augment import Rotation2d
from covary.batches import as_batches
from covary.hypergrad.information import Sample, _scaled_square, displaced, information_along
from oracles.evidence import linear_gaussian_log_evidence, linear_gaussian_mode
from oracles.running import mean_rotated

SIGMA, PRECISION, SAMPLES, SEED, WIDTH = 0.5, 0.7, 4, 3, 0.8


def data(num_data: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    noise = torch.Generator().manual_seed(0)
    x = torch.randn(num_data, 2, generator=noise)
    return x, x @ torch.tensor([1.0, -0.5]) + 0.3 * torch.randn(num_data, generator=noise)


def features(width: torch.Tensor, augment: Rotation2d) -> torch.Tensor:
    x, _ = data()
    return mean_rotated(x, width * augment.sample_noise(torch.arange(len(x)), SAMPLES, seed=SEED).squeeze(-1))


@pytest.fixture
def model() -> covary.Model:
    """A linear model at the mode of its weights."""
    network = covary.Averaged(nn.Linear(2, 1, bias=False), Rotation2d(WIDTH), SAMPLES)
    mode = linear_gaussian_mode(features(torch.tensor(WIDTH), network.augment), data()[1], SIGMA, PRECISION)
    with torch.no_grad():
        network.network.weight.copy_(mode[None])
    likelihood = covary.Gaussian(SIGMA, learn_sigma_noise=False)
    return covary.Model(network, likelihood, covary.Prior(network, precision=PRECISION))


def line(model: covary.Model, step: float):
    """A line along which the width changes by one per unit."""
    raw = model.network.augment.raw_widths
    (slope,) = torch.autograd.grad(model.network.augment.widths.sum(), raw)
    return {"augment.raw_widths": 1 / slope}, step


def exact(model: covary.Model) -> tuple[float, float]:
    """The first and the second derivative of the exact log evidence in the width, by autograd."""

    def log_evidence(width: torch.Tensor) -> torch.Tensor:
        precision = torch.full((2,), PRECISION)
        rows = features(width, model.network.augment)
        return linear_gaussian_log_evidence(rows, data()[1], torch.tensor(SIGMA), precision)

    width = torch.tensor(WIDTH)
    first = torch.autograd.functional.jacobian(log_evidence, width)
    return float(first), float(torch.autograd.functional.hessian(log_evidence, width))


@pytest.mark.parametrize("structure", ["full", "kron"])
def test_the_information_is_the_curvature_of_the_exact_evidence(model, structure):
    """Along the raw parameter, of which the width is a slightly bent function: the gradient's part is added."""
    batches, (direction, step) = as_batches(data()), line(model, 1e-3)
    (found,) = information_along(
        model, Sample([batches], 30), covary.Curvature(structure), [(direction, step)], seed=SEED
    )
    first, second = exact(model)
    moved = []
    for sign in (1, -1):
        with displaced(model, direction, sign * step):
            moved.append(model.network.augment.widths.item())
    bend = (moved[0] - 2 * model.network.augment.widths.item() + moved[1]) / step**2
    assert found.gradient == pytest.approx(first, rel=1e-5)
    assert found.total == pytest.approx(-second - first * bend, rel=1e-4)  # differences of order h²
    assert found.followed > 0.05 * found.fixed, "weights that follow matter here"


def test_parameters_are_as_before(model):
    before = {name: parameter.detach().clone() for name, parameter in model.parameters().items()}
    information_along(model, Sample([as_batches(data())], 30), covary.Curvature("full"), [line(model, 0.1)])
    assert all(torch.equal(before[name], parameter) for name, parameter in model.parameters().items())


def test_blocks_of_all_data_give_the_same(model):
    x, y = data()
    blocks = [as_batches((x[rows], y[rows], rows)) for rows in torch.arange(30).split(10)]
    curvature = covary.Curvature("full")
    whole, parts = (
        information_along(model, Sample(read, 30), curvature, [line(model, 0.01)], seed=SEED)[0]
        for read in ([as_batches(data())], blocks)
    )
    assert parts == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("size", [1, 2])
def test_the_square_of_a_sum_is_estimated_without_bias(size):
    """The mean over all choices of 4 out of 6 data; scaled as a whole, it would be too large."""
    vectors = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)) + 0.2
    whole = float(vectors.sum(0).square().sum())
    found, naive = [], []
    for chosen in itertools.permutations(range(6), 4):
        parts = vectors[list(chosen)].reshape(4 // size, size, 3).sum(1)
        found.append(_scaled_square(parts, parts, Sample([], 6), 4))
        naive.append((6 / 4) ** 2 * float(parts.sum(0).square().sum()))
    assert sum(found) / len(found) == pytest.approx(whole, rel=1e-9)
    assert sum(naive) / len(naive) > 1.1 * whole
