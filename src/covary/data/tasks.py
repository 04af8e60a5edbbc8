"""Synthetic data with a known symmetry."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError
from ..noise import fold, normal, uniform

ARC_DEGREES = 120.0  # angles are uniform on [0°, 120°]: the same label within ±60° of the middle
RADII = (0.5, 1.0)  # of the arc of class 0 and of that of class 1


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
