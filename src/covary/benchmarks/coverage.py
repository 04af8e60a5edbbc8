r"""How often the 90 % interval of a width has the true one in it, on data that are made with a true width.

Points at angles φ on a circle have C targets :math:`y = \hat f(\phi) + \sigma\epsilon`, where f is a linear function of
the first harmonics (a network of one layer) whose weights are drawn from its prior, and f̂ its mean over rotations by up
to the true width. Likelihood and prior are known, so the model is the one that made the data and its Laplace evidence
is exact. The estimate is the maximum of the evidence, from a grid by Newton steps with weights at their mode. So the
rows test the information J, and not how near to the maximum training ends.

Each repeat is twenty data sets for each true width.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._types import Progress
from ..augment import Rotation2d
from ..augment.uniform import raw_from_widths
from ..batches import as_batches
from ..curvature import Curvature
from ..evidence import log_evidence
from ..hypergrad.information import Sample, information_along
from ..likelihoods import Gaussian
from ..models import Model
from ..networks import Averaged
from ..priors import Prior
from ..training.error_bars import NORMAL_90, width_lines

TRUE_WIDTHS = (0.5, 0.65, 0.8)
SETS = 20  # per repeat
NUM_DATA, NUM_TARGETS, NUM_HARMONICS, SIGMA, NUM_SAMPLES = 60, 12, 4, 0.5, 64
STARTS = tuple(0.1 * number for number in range(1, 13))  # a grid, of which the best place is where the steps begin
NUM_STEPS, MOST_CHANGE = 10, 0.1


class Harmonics(nn.Module):
    """The cosines and sines of multiples of the angle of a point."""

    def forward(self, x: Float[Tensor, "N 2"]) -> Float[Tensor, "N F"]:
        """Features (N, 2 · harmonics)."""
        angles = torch.atan2(x[:, 1], x[:, 0])[:, None] * torch.arange(1, NUM_HARMONICS + 1)
        return torch.cat([angles.cos(), angles.sin()], 1)


class Estimate(NamedTuple):
    """A width where the evidence is largest, and its standard error."""

    width: float
    error: float

    def covers(self, truth: float) -> bool:
        """Whether the 90 % interval has the true width in it."""
        return abs(self.width - truth) < NORMAL_90 * self.error


def measure_coverage(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """A row per true width: how many intervals cover it, the mean and the spread of the estimates, the mean error."""
    rows, number = [], SETS * repeats
    for place, truth in enumerate(TRUE_WIDTHS):
        found = []
        for seed in range(number):
            progress(f"width {truth}: data set {seed + 1}", (place + seed / number) / len(TRUE_WIDTHS))
            found.append(estimate(truth, seed))
        widths = torch.tensor([each.width for each in found], dtype=torch.float64)
        rows.append(
            {
                "true width": truth,
                "data sets": number,
                "covered": sum(each.covers(truth) for each in found),
                "mean": float(widths.mean()),
                "spread": float(widths.std()),
                "mean error": sum(each.error for each in found) / number,
            }
        )
    return rows


def estimate(truth: float, seed: int) -> Estimate:
    """The width with the largest evidence for a data set of this seed."""
    data, augment = made_data(truth, seed), Rotation2d(truth).double()
    model = _model(augment)
    sample, error = Sample([as_batches(data)], NUM_DATA), math.inf
    _set_width(augment, max(STARTS, key=lambda width: _log_evidence(model, augment, width, data)))
    for _ in range(NUM_STEPS):
        _move_to_mode(model, data)
        (line,) = width_lines(augment, model)
        assert line is not None, "the width is above 0"
        (found,) = information_along(model, sample, Curvature("kron"), [line])
        error = max(found.total, 1.0) ** -0.5
        step = min(max(found.gradient * error**2, -MOST_CHANGE), MOST_CHANGE)
        _set_width(augment, max(augment.widths.item() + step, 0.01))
        if abs(step) < 0.01 * error:
            break
    return Estimate(augment.widths.item(), error)


def made_data(truth: float, seed: int) -> tuple[Tensor, Tensor]:
    """Points (N, 2) and targets (N, C) with this true width, in float64."""
    noise = torch.Generator().manual_seed(seed)
    angles = 2 * math.pi * torch.rand(NUM_DATA, generator=noise, dtype=torch.float64)
    x = torch.stack([angles.cos(), angles.sin()], 1)
    weights = torch.randn(NUM_TARGETS, 2 * NUM_HARMONICS, generator=noise, dtype=torch.float64)
    # the mean of a harmonic over angles within ±w is the harmonic times sin(kw)/(kw)
    phases = truth * torch.arange(1, NUM_HARMONICS + 1, dtype=torch.float64)
    means = Harmonics()(x) * (phases.sin() / phases).repeat(2)
    targets = means @ weights.T
    return x, targets + SIGMA * torch.randn(targets.shape, generator=noise, dtype=torch.float64)


def _model(augment: Rotation2d) -> Model:
    network = nn.Sequential(Harmonics(), nn.Linear(2 * NUM_HARMONICS, NUM_TARGETS, bias=False)).double()
    averaged = Averaged(network, augment, NUM_SAMPLES)
    prior = Prior(averaged, "scalar", 1.0)
    return Model(averaged, Gaussian(SIGMA, learn_sigma_noise=False).double(), prior)


def _log_evidence(model: Model, augment: Rotation2d, width: float, data: tuple[Tensor, Tensor]) -> float:
    _set_width(augment, width)
    _move_to_mode(model, data)
    return float(log_evidence(model, data).log_evidence)


@torch.no_grad()
def _set_width(augment: Rotation2d, width: float) -> None:
    augment.raw_widths.copy_(raw_from_widths(augment.raw_widths.new_tensor([width]), augment.angular))


@torch.no_grad()
def _move_to_mode(model: Model, data: tuple[Tensor, Tensor]) -> None:
    """Set the weights to the maximum of the log joint, in closed form."""
    (x, y), network = data, model.network
    assert isinstance(network, Averaged)
    features = Averaged(Harmonics(), network.augment, NUM_SAMPLES)(x)
    precision = features.T @ features / SIGMA**2 + torch.eye(features.shape[1], dtype=features.dtype)
    (weight,) = model.weights.values()
    weight.copy_(torch.linalg.solve(precision, features.T @ y / SIGMA**2).T)
