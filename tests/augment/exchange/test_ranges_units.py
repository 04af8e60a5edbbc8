import math

import numpy as np
import pytest

from covary.augment.exchange import ranges

WIDTHS = [0.0, 0.03, 0.4, 1.3]


@pytest.mark.parametrize("width", WIDTHS)
def test_there_and_back(width):
    assert ranges.from_factors(*ranges.to_factors(width)) == pytest.approx(width)
    assert ranges.from_turns(ranges.to_turns(width)) == pytest.approx(width)
    assert ranges.from_shear_degrees(ranges.to_shear_degrees(width)) == pytest.approx(width)
    assert 2 * ranges.to_fraction(width) == pytest.approx(width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_shear_parallel_to_x_has_the_same_stretch(width):
    """Singular values of the shear of covary, exp((0, w; w, 0)), are exp(±w)."""
    shear = np.array([[1.0, math.tan(math.radians(ranges.to_shear_degrees(width)))], [0.0, 1.0]])
    stretches = np.linalg.svd(shear, compute_uv=False)
    np.testing.assert_allclose(stretches, [math.exp(width), math.exp(-width)])


@pytest.mark.parametrize("width", WIDTHS)
def test_gains_and_two_shears_stay_inside_of_what_was_learned(width):
    low, high = ranges.to_factors(width)
    gain = ranges.to_gain(width)
    assert 1 - gain >= low * (1 - 1e-12)
    assert 1 + gain <= high * (1 + 1e-12)
    t = math.tan(math.radians(ranges.to_two_shears_degrees(width)))
    for x, y in ((t, t), (t, -t), (t, 0.0)):
        stretches = np.linalg.svd(np.array([[1.0, x], [y, 1.0]]), compute_uv=False)
        if (x, y) != (t, -t):  # that is a turn, which enlarges a little
            assert stretches.max() <= high * (1 + 1e-12)
            assert stretches.min() >= low * (1 - 1e-12)


def test_ends():
    assert ranges.to_fraction(3.0) == 1.0
    assert ranges.to_turns(10.0) == 0.5
    assert ranges.symmetric(0.123456) == "(-0.1235, 0.1235)"
