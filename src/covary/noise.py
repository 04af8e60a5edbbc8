"""Counter-based noise: random numbers as functions of (seed, stream, index, position) alone.

Word p of datum i is output p of the splitmix64 sequence from a state that is itself output i of a state that is output
`stream` of `seed`. There is no running state, so batch size, order, device and restarts do not change a bit.
"""

import math
from enum import IntEnum

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .errors import DataError, ShapeError

_GAMMA = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio, odd: the step of the splitmix64 counter
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = {torch.float64: 53, torch.float32: 24}  # bits of the significand, which convert without rounding


class Stream(IntEnum):
    """The uses of noise: equal seeds and indices give independent numbers in different streams."""

    GENERAL = 0
    AUGMENTATION = 1  # transforms of a datum
    CURVATURE = 2  # signs of random probes of Λ^½, for the factors
    CURVATURE_SECOND = 3  # the same for the second pass, independent of the first
    SHUFFLE = 4  # order of data within an epoch
    SUBSET = 5  # the M of N data that a hyper step sees
    POSTERIOR = 6  # samples of weights
    PROBE = 7  # probe vectors of stochastic traces
    SYMMETRIZE = 8  # transforms that make a data set with a known symmetry


def uniform(
    seed: int,
    index: Int[Tensor, "N"],
    shape: tuple[int, ...] = (),
    *,
    stream: int = Stream.GENERAL,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N ..."]:
    """Uniform numbers in [0, 1), shape (N, *shape): multiples of 2⁻⁵³ in float64, of 2⁻²⁴ in float32, never 1.

    Arguments:
        seed: Any integer, taken modulo 2⁶⁴.
        index: The identity of each datum, int64; the result is on its device.
        shape: The shape per datum; position counts its entries in row-major order.
        stream: The use of the numbers, see `Stream`.
        dtype: torch.float32 or torch.float64; the former is the latter truncated to 24 bits.
    """
    bits = _significand_bits(dtype)
    return _logical_shift(_words(seed, index, shape, stream), 64 - bits).to(dtype) * 2.0**-bits


def rademacher(
    seed: int,
    index: Int[Tensor, "N"],
    shape: tuple[int, ...] = (),
    *,
    stream: int = Stream.GENERAL,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N ..."]:
    """Random signs, −1 or +1 with equal probability, shape (N, *shape); arguments as in `uniform`."""
    return (1 - 2 * _logical_shift(_words(seed, index, shape, stream), 63)).to(dtype)


def normal(
    seed: int,
    index: Int[Tensor, "N"],
    shape: tuple[int, ...] = (),
    *,
    stream: int = Stream.GENERAL,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N ..."]:
    """Standard normal numbers, shape (N, *shape), as the inverse normal CDF of a uniform; arguments as in `uniform`."""
    # one bit less, for the half that keeps u = (k + ½) / 2ᵇ exact and strictly inside (0, 1).
    bits = _significand_bits(dtype) - 1
    middle = _logical_shift(_words(seed, index, shape, stream), 64 - bits).to(dtype) + 0.5
    return torch.special.ndtri(middle * 2.0**-bits)


def permutation(seed: int, num: int, *, stream: int = Stream.SHUFFLE) -> Int[Tensor, "num"]:
    """Random permutation of 0, …, num − 1, on the CPU."""
    # Mixing is a bijection of 64-bit words, so distinct indices have distinct words and the order has no ties.
    return _words(seed, torch.arange(num, device="cpu"), (), stream).argsort()


def fold(seed: int, number: int) -> int:
    """Seed derived from a seed by a number, such as the epoch: in [−2⁶³, 2⁶³), independent for different numbers."""
    word = ((number + 1) * _GAMMA + seed) % 2**64
    word = (word ^ word >> 30) * _MIX_1 % 2**64
    word = (word ^ word >> 27) * _MIX_2 % 2**64
    return _as_int64(word ^ word >> 31)


def _words(seed: int, index: Tensor, shape: tuple[int, ...], stream: int) -> Int[Tensor, "N ..."]:
    """Random 64-bit words, shape (N, *shape)."""
    if index.ndim != 1 or index.dtype != torch.int64:
        raise ShapeError(
            f"index must be (N,) of dtype torch.int64, one identity per datum, got {tuple(index.shape)} of "
            f"{index.dtype}. Pass for example torch.arange(len(x))."
        )
    rows = _child(fold(seed, stream), index)
    positions = torch.arange(math.prod(shape), device=index.device)
    return _child(rows.unsqueeze(-1), positions).reshape(len(index), *shape)


def _child(state: Tensor | int, number: Int[Tensor, "*any"]) -> Int[Tensor, "*all"]:
    """Output `number` of the splitmix64 sequence that starts at `state`; int64 arithmetic wraps modulo 2⁶⁴."""
    word = (number + 1) * _as_int64(_GAMMA) + state
    word = (word ^ _logical_shift(word, 30)) * _as_int64(_MIX_1)
    word = (word ^ _logical_shift(word, 27)) * _as_int64(_MIX_2)
    return word ^ _logical_shift(word, 31)


def _logical_shift(word: Int[Tensor, "*any"], num_bits: int) -> Int[Tensor, "*any"]:
    """Right shift that fills with zeros; torch's own on int64 repeats the sign bit."""
    return (word >> num_bits) & ((1 << (64 - num_bits)) - 1)


def _as_int64(number: int) -> int:
    """Representative modulo 2⁶⁴ in [−2⁶³, 2⁶³)."""
    return (int(number) + 2**63) % 2**64 - 2**63


def _significand_bits(dtype: torch.dtype) -> int:
    if dtype not in _BITS:
        raise DataError(f"Noise must be torch.float32 or torch.float64, got {dtype}. Draw one of them and cast it.")
    return _BITS[dtype]
