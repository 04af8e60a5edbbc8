"""Noise ε of S samples of each datum, a function of (seed, index).

"sobol" spreads the S points of one datum evenly over the cube: means of smooth integrands converge about as 1/S,
those of "random" as 1/√S. Both are unbiased, with ε in [−1, 1).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.quasirandom import SobolEngine

from .._text import require_choice
from ..errors import StructureError
from ..noise import Stream, normal, uniform
from .protocol import Augmentation, WeightedAugmentation

_CANDIDATES = 64  # of which one is drawn where samples are weighted; a multiple of the size of every group here
# The engine's own `draw` keeps a running state and fails inside torch.func, so only its direction numbers are used.
_DIRECTIONS = SobolEngine(64).sobolstate


def sobol(
    seed: int, index: Int[Tensor, "N"], num_samples: int, num_axes: int, dtype: torch.dtype
) -> Float[Tensor, "N S K"]:
    r"""Sobol points on an even grid along every axis, shifted at random for each datum: :math:`(r \oplus d + v) / S`.

    r are the ranks of the points along each axis, d a random digit of S and v a random offset within a cell, both the
    same for all samples of one datum and axis; :math:`\oplus` adds the bits of the digits modulo 2, which keeps the
    points a net, or, if S is not a power of two, the digits modulo S. So the S numbers of one axis are equidistant: for
    rotations by a full circle, the mean of a smooth function is exact up to its S-th harmonic. With few samples the
    variance of the mean biases the gradient of the dominant width: on rotated digits with S = 8, Sobol points that are
    not on a grid had a gradient of the wrong sign.
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
            f"Expected at most {len(_DIRECTIONS)} axes of Sobol points, got {num_axes}. Use sampler='random'."
        )
    number = torch.arange(num_samples, device="cpu")
    gray = (number ^ (number >> 1)).unsqueeze(1)  # neighbors differ in one bit, as in the engine
    points = torch.zeros(num_samples, num_axes, dtype=torch.int64, device="cpu")
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
    """Return the name, or raise `StructureError` if it is not one of `SAMPLERS`."""
    require_choice("a sampler", name, SAMPLERS)
    return name


def drawn_noise(
    augment: Augmentation, index: Int[Tensor, "N"], num_samples: int, *, seed: int
) -> Float[Tensor, "N S ..."]:
    """Noise of S equally weighted samples of each datum, a function of (seed, index).

    If the augmentation weights its samples, each is one of many candidates, drawn with their weights as probabilities.
    """
    if not isinstance(augment, WeightedAugmentation):
        return augment.sample_noise(index, num_samples, seed=seed)
    noise = augment.sample_noise(index, num_samples * _CANDIDATES, seed=seed)
    candidates = noise.unflatten(1, (num_samples, _CANDIDATES)).flatten(0, 1)
    # the inverse of the weights' distribution function: candidate c with probability w_c
    steps = augment.sample_weights(candidates).cumsum(1).contiguous()
    levels = uniform(seed, index, (num_samples,)).to(steps).reshape(-1, 1)
    chosen = torch.searchsorted(steps, levels).squeeze(1).clamp(max=_CANDIDATES - 1)
    rows = torch.arange(len(candidates), device=index.device)
    return candidates[rows, chosen].unflatten(0, (len(index), num_samples))


def white_noise(number: Float[Tensor, "N S"], shape: tuple[int, ...]) -> Float[Tensor, "N S ..."]:
    """Standard normal numbers of each sample, shape (N, S, *shape), a function of one random number of the sample.

    So noise of every value of a datum needs one axis of `sample_noise`, whatever the size of the datum.
    """
    words = number.detach().double().contiguous().view(torch.int64)
    drawn = torch.float64 if number.dtype == torch.float64 else torch.float32
    return normal(0, words.flatten(), shape, dtype=drawn).unflatten(0, number.shape).to(number.dtype)
