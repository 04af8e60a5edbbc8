r"""The points of the toy study, and its five models, each trained on the same ones.

The inputs of *plain* and *polar* networks are a point, or its radius and angle (in radians, not scaled). *Learned* ones
average their logits over rotations, :math:`\hat f(x) = E[f(x')]`, whose width is learned by the evidence. *Standard
augmentation* averages log-likelihoods instead of logits, at the true width of ±60°:

.. math:: \log p(D|\theta) = \sum_n \frac1S \sum_s \log p(y_n | f(x_{ns}; \theta)), \qquad
    H = \sum_n \frac1S \sum_s J_{ns}^\top \Lambda_{ns} J_{ns}.

That is the model of N·S data, each of weight 1/S: its likelihood and its curvature follow from a `log_prob` scaled by
1/S and a root of Λ scaled by :math:`S^{-1/2}`. Each sample must be explained by itself, so its evidence is lower
(Nabarro et al. 2021).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ...augment import Rotation2d
from ...config import FitConfig
from ...errors import DataError
from ...likelihoods import Categorical, Likelihood
from ...models import Model
from ...networks import Averaged, mlp
from ...noise import fold, normal, uniform
from ...priors import Prior
from ...training import fit

ARC_DEGREES = 120.0  # angles are uniform on [0°, 120°]: the same label within ±60° of the middle
RADII = (0.5, 1.0)  # of the arc of class 0 and of that of class 1
PLAIN, POLAR, STANDARD, FULL, KFAC = PANELS = (
    "plain",
    "polar",
    "standard augmentation",
    "learned, full",
    "learned, KFAC",
)
TRUE_DEGREES = ARC_DEGREES / 2
NUM_HIDDEN = 50


class Points(NamedTuple):
    """Points of the plane (N, 2) with their classes (N,)."""

    x: Float[Tensor, "N 2"]
    y: Int[Tensor, "N"]


def rotated_arcs(
    num_data: int = 200, noise: float | int = 0.065, *, seed: int, dtype: torch.dtype = torch.float32
) -> Points:
    r"""Two classes on arcs about the origin that differ only in radius (paper 1, Fig. 1 and 2).

    Class 0: N/2 points on the arc of radius 0.5. Class 1: a third of its N/2 points in a Gaussian blob at the origin,
    of standard deviation `noise`; the others on the arc of radius 1. A point of an arc at angle α, uniform on
    [0°, 120°], is at :math:`(\cos\alpha\,(r + n\epsilon_1), \sin\alpha\,(r + n\epsilon_2))`, ε standard normal.

    Arguments:
        num_data: The number N of points, even.
        noise: The amount n of noise, at least 0.
        seed: Any integer; point i is a function of it and of i.
    """
    if num_data < 2 or num_data % 2:
        raise DataError(f"Expected an even number of points, at least 2, got {num_data}.")
    if not (math.isfinite(noise) and noise >= 0):
        raise DataError(f"Expected finite noise of at least 0, got {noise}. Pass for example 0.065.")
    half = num_data // 2
    num_blob = half // 3
    index = torch.arange(num_data)
    jitter = noise * normal(fold(seed, 0), index, (2,), dtype=torch.float64)
    angles = math.radians(ARC_DEGREES) * uniform(fold(seed, 1), index, dtype=torch.float64)
    directions = torch.stack([angles.cos(), angles.sin()], 1)
    radii = torch.full((num_data, 1), RADII[0], dtype=torch.float64)
    radii[half:] = RADII[1]
    x = directions * (radii + jitter)
    x[half : half + num_blob] = jitter[half : half + num_blob]
    return Points(x.to(dtype), (index >= half).long())


def polar_coordinates(x: Float[Tensor, "N 2"]) -> Float[Tensor, "N 2"]:
    """Radius and angle of points, the angle in radians in (−π, π] from the first axis, counter-clockwise."""
    return torch.stack([x.norm(dim=1), torch.atan2(x[:, 1], x[:, 0])], 1)


class WeightedCategorical(nn.Module):
    r"""Categorical likelihood of S samples of a datum, each with the weight 1/S: :math:`\log p(y|f) / S`."""

    def __init__(self, num_samples: int) -> None:
        super().__init__()
        self.num_samples, self.whole = num_samples, Categorical()

    def check(self, outputs: Tensor, targets: Tensor) -> None:
        """Raise an error as `Categorical.check` does."""
        self.whole.check(outputs, targets)

    def log_prob(self, outputs: Float[Tensor, "N C"], targets: Int[Tensor, "N"]) -> Float[Tensor, ""]:
        """Weighted sum over the samples."""
        return self.log_prob_each(outputs, targets).sum()

    def log_prob_each(self, outputs: Float[Tensor, "N C"], targets: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
        """Weighted log-probability of each sample."""
        return self.whole.log_prob_each(outputs, targets) / self.num_samples

    def root_product(self, outputs: Float[Tensor, "N C"], epsilon: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        r"""Product :math:`L \epsilon` with :math:`L L^\top = \Lambda / S`."""
        return self.whole.root_product(outputs, epsilon) / math.sqrt(self.num_samples)

    def mean(self, outputs: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
        """Class probabilities of one point."""
        return self.whole.mean(outputs)


class Trained(NamedTuple):
    """One trained model with its data."""

    model: Model  # the model, in float64
    data: Points  # the data of the likelihood, in float64
    coordinates: Callable[[Tensor], Tensor]  # the map from points of the plane to inputs of the network
    widths: list[float]  # the width of the rotations after each epoch, in degrees; empty if there are none


def train(panel: str, num_samples: int, precision: float, config: FitConfig) -> Trained:
    """One panel's model, trained on the points and from the initial weights of the seed, returned in float64.

    Arguments:
        config: The settings; batch and curvature are the panel's.
    """
    data, coordinates = rotated_arcs(seed=config.seed), polar_coordinates if panel == POLAR else nn.Identity()
    likelihood: Likelihood = Categorical()
    network: nn.Module = mlp(2, NUM_HIDDEN, 2, generator=torch.Generator().manual_seed(config.seed)).float()
    if panel == STANDARD:
        data, likelihood = rotated_samples(data, num_samples, config.seed), WeightedCategorical(num_samples)
    if panel in (FULL, KFAC):
        network = Averaged(network, Rotation2d(), num_samples).float()
    data = data._replace(x=coordinates(data.x))
    prior = Prior(network, structure="scalar", precision=precision)
    settings = config.replace(curvature="kron" if panel == KFAC else "full", weights={"batch_size": len(data.x)})
    run = fit(Model(network, likelihood, prior), tuple(data), settings, callbacks=())
    widths = [math.degrees(epoch.widths["rotation"]) for epoch in run.record.history if epoch.widths]
    double = data._replace(x=data.x.double())
    return Trained(Model(network.double(), likelihood, prior.double()), double, coordinates, widths)


@torch.no_grad()
def rotated_samples(points: Points, num_samples: int, seed: int) -> Points:
    """S rotations of each point by up to the true ±60°, N·S points, those of one point together."""
    rotation = Rotation2d(math.radians(TRUE_DEGREES)).to(points.x)
    noise = rotation.sample_noise(torch.arange(len(points.x)), num_samples, seed=seed)
    return Points(rotation.transform(points.x, noise).flatten(0, 1), points.y.repeat_interleave(num_samples))
