"""Noise ε in [−1, 1) of S samples of each datum, a function of (seed, index): two ways, with one signature.

"sobol" spreads the S points of one datum evenly over the cube: means of smooth integrands converge about as 1/S,
those of "random" as 1/√S. Both are unbiased.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.quasirandom import SobolEngine

from ..errors import StructureError
from ..noise import Stream, uniform

# The engine's own `draw` keeps a running state and fails inside torch.func, so only its direction numbers are taken.
_DIRECTIONS = SobolEngine(64).sobolstate


def sobol(
    seed: int, index: Int[Tensor, "N"], num_samples: int, num_axes: int, dtype: torch.dtype
) -> Float[Tensor, "N S K"]:
    r"""Sobol points on an even grid along every axis, moved at random for each datum: :math:`(r \oplus d + v) / S`.

    r are the ranks of the points along each axis, d a random digit of S and v a random place within a cell, both the
    same for all samples of one datum and axis; :math:`\oplus` adds the bits of the digits modulo 2, which keeps the
    points a net, or where S is no power of two the digits modulo S. So the S numbers of one axis are equally far from
    one another: of a rotation by a full circle these are S even steps, whose mean of a smooth function is exact up to
    its S-th harmonic. One transform mostly dominates, and with few samples the scatter of the mean biases the gradient
    of its width: on rotated digits with S = 8, points that are even but on no grid turned its sign.
    """
    ranks = sobol_points(num_samples, num_axes).argsort(0).argsort(0).to(index.device)
    moves = uniform(seed, index, (1, num_axes), stream=Stream.AUGMENTATION, dtype=torch.float64) * num_samples
    digits = moves.long()
    power_of_two = num_samples & (num_samples - 1) == 0
    moved = ranks ^ digits if power_of_two else (ranks + digits) % num_samples
    return (2 * (moved + moves.frac()) / num_samples - 1).to(dtype)


def sobol_points(num_samples: int, num_axes: int) -> Int[Tensor, "S K"]:
    """First S points of the Sobol sequence, on the CPU, as integers in [0, 2³⁰)."""
    if num_axes > len(_DIRECTIONS):
        raise StructureError(
            f"Sobol points have at most {len(_DIRECTIONS)} axes; {num_axes} were asked. Use sampler='random'."
        )
    number = torch.arange(num_samples)
    gray = (number ^ (number >> 1)).unsqueeze(1)  # neighbors differ in one bit, as in the engine
    points = torch.zeros(num_samples, num_axes, dtype=torch.int64)
    for bit in range(num_samples.bit_length()):
        points = points ^ (((gray >> bit) & 1) * _DIRECTIONS[:num_axes, bit])
    return points


def random(
    seed: int, index: Int[Tensor, "N"], num_samples: int, num_axes: int, dtype: torch.dtype
) -> Float[Tensor, "N S K"]:
    """Independent uniform numbers per datum, sample and axis."""
    return 2 * uniform(seed, index, (num_samples, num_axes), stream=Stream.AUGMENTATION, dtype=dtype) - 1


Sampler = Callable[[int, Tensor, int, int, torch.dtype], Tensor]
SAMPLERS: dict[str, Sampler] = {"sobol": sobol, "random": random}


def check_sampler(name: str) -> str:
    """The name itself, if it is one of a sampler."""
    if name not in SAMPLERS:
        raise StructureError(f"The sampler must be one of {', '.join(SAMPLERS)}; {name!r} came. Choose one of them.")
    return name
