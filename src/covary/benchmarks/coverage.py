r"""How often the 90 % interval of a width has the true one in it, on data that are made with a true width.

Points at angles φ on a circle have C targets :math:`y = \hat f(\phi) + \sigma\epsilon`, where f is a linear function of
the first harmonics (a network of one layer) whose weights are drawn from its prior, and f̂ its mean over rotations by up
to the true width. Likelihood and prior are known, so the model is the one that made the data and its Laplace evidence
is exact. The estimate is the maximum of the evidence, from a grid by Newton steps with weights at their mode: that
tests the information. For training that ends before the maximum, a second estimate is 0.2 below the first, with weights
at their mode there. Its interval has the way that remains, from the gradient of the evidence, and is compared
with one that has not.

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
from ..curvature.passes import curvature_pass
from ..evidence import log_evidence
from ..hypergrad.information import Sample, information_along
from ..hypergrad.two_pass import curvature_cotangents
from ..likelihoods import Gaussian
from ..models import Model
from ..networks import Averaged
from ..priors import Prior
from ..records import Symmetry
from ..training.error_bars import LEAST_WIDTH, evidence_gradients, width_lines, with_error
from ..training.widths import EvidenceChange

TRUE_WIDTHS = (0.5, 0.65, 0.8)
SETS = 20  # per repeat
NUM_DATA, NUM_TARGETS, NUM_HARMONICS, SIGMA, NUM_SAMPLES = 60, 12, 4, 0.5, 64
STARTS = tuple(0.1 * number for number in range(1, 13))  # a grid, of which the best place is where the steps begin
SHORT = 0.2  # by which a width is below the maximum when training ends
NUM_STEPS, MOST_CHANGE, DIFFERENCE = 10, 0.1, 0.02


class Harmonics(nn.Module):
    """The cosines and sines of multiples of the angle of a point."""

    def forward(self, x: Float[Tensor, "N 2"]) -> Float[Tensor, "N F"]:
        """Features (N, 2 · harmonics)."""
        angles = torch.atan2(x[:, 1], x[:, 0])[:, None] * torch.arange(1, NUM_HARMONICS + 1)
        return torch.cat([angles.cos(), angles.sin()], 1)


class Estimate(NamedTuple):
    """A width, its standard error and its 90 % interval, and the interval without the way that remains."""

    width: float
    error: float
    interval: tuple[float, float]
    at_rest: tuple[float, float]


def covers(interval: tuple[float, float], truth: float) -> bool:
    """Whether an interval has the true width in it."""
    return interval[0] < truth < interval[1]


def measure_coverage(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """A row per true width: how many intervals cover it, the mean and the spread of the estimates, the mean error.

    "covered 0.2 below" and "without the way" count the intervals of widths 0.2 below the maximum of the evidence, with
    the way that remains and without.
    """
    rows, number = [], SETS * repeats
    for place, truth in enumerate(TRUE_WIDTHS):
        found: list[Estimate] = []
        below: list[Estimate] = []
        for seed in range(number):
            progress(f"width {truth}: data set {seed + 1}", (place + seed / number) / len(TRUE_WIDTHS))
            for kept, each in zip((found, below), estimates(truth, seed), strict=True):
                kept.append(each)
        widths = torch.tensor([each.width for each in found], dtype=torch.float64)
        rows.append(
            {
                "true width": truth,
                "data sets": number,
                "covered": sum(covers(each.interval, truth) for each in found),
                "mean": float(widths.mean()),
                "spread": float(widths.std()),
                "mean error": sum(each.error for each in found) / number,
                f"covered {SHORT} below": sum(covers(each.interval, truth) for each in below),
                "without the way": sum(covers(each.at_rest, truth) for each in below),
            }
        )
    return rows


def estimates(truth: float, seed: int) -> tuple[Estimate, Estimate]:
    """The width with the largest evidence for a data set of this seed, and one below it."""
    data, augment = made_data(truth, seed), Rotation2d(truth).double()
    network = nn.Sequential(Harmonics(), nn.Linear(2 * NUM_HARMONICS, NUM_TARGETS, bias=False)).double()
    averaged = Averaged(network, augment, NUM_SAMPLES)
    prior = Prior(averaged, "scalar", 1.0)
    model = Model(averaged, Gaussian(SIGMA, learn_sigma_noise=False).double(), prior)
    width = _maximum(model, augment, data)
    return _estimate(model, augment, width, data), _estimate(model, augment, width - SHORT, data)


def _estimate(model: Model, augment: Rotation2d, width: float, data: tuple[Tensor, Tensor]) -> Estimate:
    _log_evidence(model, augment, width, data)  # moves width and weights there
    (line,), (short,) = (width_lines(augment, model, ["radians"], most) for most in (math.inf, LEAST_WIDTH**2))
    assert line is not None, "the width is above 0"
    assert short is not None, "as for the long line"
    sample, curvature = Sample(as_batches(data), NUM_DATA, NUM_DATA), Curvature("kron")
    statistics = curvature_pass(model, sample.batches, curvature)
    (information,) = information_along(model, sample, statistics, [line])
    cotangents = curvature_cotangents(model, statistics, curvature)
    (gradient,) = evidence_gradients(model, sample, cotangents, [short], [information])
    symmetry = Symmetry("rotation", width, "radians", "")
    bar, at_rest = (with_error(symmetry, information, each) for each in (gradient, EvidenceChange(0.0, 0.0)))
    assert bar.error is not None, "the data determine the width"
    assert bar.interval is not None, "as they determine its error"
    assert at_rest.interval is not None, "with the same information"
    return Estimate(width, bar.error, (bar.interval[0], bar.interval[1]), (at_rest.interval[0], at_rest.interval[1]))


def _maximum(model: Model, augment: Rotation2d, data: tuple[Tensor, Tensor]) -> float:
    """The width where the evidence is largest: the best of a grid, then Newton steps by differences."""

    def value(width: float) -> float:
        return _log_evidence(model, augment, width, data)

    width = max(STARTS, key=value)
    for _ in range(NUM_STEPS):
        before, here, after = (value(width + sign * DIFFERENCE) for sign in (-1, 0, 1))
        curvature = max(2 * here - before - after, DIFFERENCE**2)
        step = 0.5 * DIFFERENCE * (after - before) / curvature
        width = max(width + min(max(step, -MOST_CHANGE), MOST_CHANGE), 2 * DIFFERENCE)
        if abs(step) < 1e-3:
            break
    return width


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
