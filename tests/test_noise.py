import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from covary import noise
from covary.errors import DataError, ShapeError
from covary.noise import Stream, fold, normal, permutation, rademacher, uniform

DRAWS = [uniform, rademacher, normal]
MASK = 2**64 - 1
INTEGERS = st.integers(-(2**70), 2**70)


def splitmix64(state, number):
    """Output `number` of splitmix64 from `state`, in Python's unbounded integers."""
    z = (state + (number + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_published_outputs_of_splitmix64():
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [splitmix64(1234567, k) for k in range(5)] == expected
    assert [fold(1234567, k) & MASK for k in range(5)] == expected


@given(seed=INTEGERS, stream=st.integers(0, 2**63 - 1), index=st.integers(-(2**63), 2**63 - 1))
def test_uniform_is_three_nested_sequences(seed, stream, index):
    row = splitmix64(splitmix64(seed & MASK, stream), index & MASK)
    expected = torch.tensor([[(splitmix64(row, p) >> 11) / 2**53 for p in range(6)]])
    drawn = uniform(seed, torch.tensor([index]), (2, 3), stream=stream, dtype=torch.float64)
    assert torch.equal(drawn.reshape(1, 6), expected)


@given(seed=INTEGERS, number=INTEGERS)
def test_seeds_are_modulo_two_to_the_64(seed, number):
    assert fold(seed, number) == fold(seed + 2**64, number) == fold(seed, number - 2**64)
    assert -(2**63) <= fold(seed, number) < 2**63


@pytest.mark.parametrize("draw", DRAWS)
def test_independent_of_batch_split_and_order(draw):
    index = torch.arange(50) * 1000 - 7
    whole = draw(3, index, (4, 2))
    assert torch.equal(whole, torch.cat([draw(3, part, (4, 2)) for part in index.split(7)]))
    order = permutation(0, 50)
    assert torch.equal(whole[order], draw(3, index[order], (4, 2)))
    assert torch.equal(whole[:, :2], draw(3, index, (2, 2)))


def test_independent_of_the_global_seed():
    torch.manual_seed(0)
    before, state = normal(0, torch.arange(9)), torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(before, normal(0, torch.arange(9)))
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, -1, 2**63, 123456789012345678901234567890])
def test_distributions(seed, dtype):
    index = torch.arange(20000)
    drawn = uniform(seed, index, (5,), dtype=dtype)
    assert drawn.dtype == dtype
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn.flatten().numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(normal(seed, index, (5,), dtype=dtype).flatten().numpy(), "norm").pvalue > 1e-3
    signs = rademacher(seed, index, (5,), dtype=dtype)
    assert torch.equal(signs.square(), torch.ones_like(signs))
    assert abs(signs.mean()) < 4 / 100000**0.5


def test_extreme_words_are_inside_the_interval(monkeypatch):
    for word in (0, -1):
        monkeypatch.setattr(noise, "_words", lambda *_, word=word: torch.tensor([word]))
        for dtype in (torch.float32, torch.float64):
            assert 0 <= uniform(0, torch.arange(1), dtype=dtype) < 1
            assert normal(0, torch.arange(1), dtype=dtype).isfinite()


def test_float32_is_truncated_float64():
    index = torch.arange(1000)
    single, double = uniform(5, index), uniform(5, index, dtype=torch.float64)
    assert torch.equal(single.double(), (double * 2**24).floor() / 2**24)


@pytest.mark.parametrize("other", ["index", "seed", "stream", "position"])
def test_neighbors_are_uncorrelated(other):
    index, num = torch.arange(40000), 40000
    first = uniform(1, index, (2,), stream=Stream.CURVATURE, dtype=torch.float64)
    second = {
        "index": uniform(1, index + 1, (2,), stream=Stream.CURVATURE, dtype=torch.float64)[:, 0],
        "seed": uniform(2, index, (2,), stream=Stream.CURVATURE, dtype=torch.float64)[:, 0],
        "stream": uniform(1, index, (2,), stream=Stream.CURVATURE_SECOND, dtype=torch.float64)[:, 0],
        "position": first[:, 1],
    }[other]
    assert abs(torch.corrcoef(torch.stack([first[:, 0], second]))[0, 1]) < 4 / num**0.5


def test_permutation():
    order = permutation(7, 1000)
    assert torch.equal(order.sort().values, torch.arange(1000))
    assert torch.equal(order, permutation(7, 1000))
    assert not torch.equal(order, permutation(8, 1000))
    assert not torch.equal(order, permutation(7, 1000, stream=Stream.SUBSET))
    assert permutation(7, 0).shape == (0,)
    # Fixed points of a random permutation are Poisson with mean 1.
    fixed = sum(int((permutation(s, 100) == torch.arange(100)).sum()) for s in range(400))
    assert abs(fixed - 400) < 4 * 20


def test_scalar_and_empty_shapes():
    assert uniform(0, torch.arange(3)).shape == (3,)
    assert uniform(0, torch.arange(0), (2, 3)).shape == (0, 2, 3)
    assert uniform(0, torch.arange(3), (0, 3)).shape == (3, 0, 3)


def test_streams_differ():
    assert len(set(Stream)) == len(Stream.__members__)


def test_speed():
    start = time.perf_counter()
    uniform(0, torch.arange(60000), (6,))
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize("index", [torch.zeros(2, 2, dtype=torch.int64), torch.arange(3, dtype=torch.int32)])
def test_index_must_be_flat_int64(index):
    with pytest.raises((ShapeError, TypeError), match="index"):
        uniform(0, index)


def test_dtype_must_be_known():
    with pytest.raises(DataError, match=r"float32 or torch\.float64, got torch\.float16"):
        uniform(0, torch.arange(2), dtype=torch.float16)
