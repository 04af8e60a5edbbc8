import math

import pytest
import torch

from covary.augment.uniform import raw_from_widths, widths_from_raw
from covary.errors import DataError

ANGULAR = torch.tensor([False, True])


def test_round_trip():
    widths = torch.tensor([4.0, 3.0])
    torch.testing.assert_close(widths_from_raw(raw_from_widths(widths, ANGULAR), ANGULAR), widths)
    torch.testing.assert_close(widths_from_raw(-raw_from_widths(widths, ANGULAR), ANGULAR), widths)


def test_only_angles_are_capped_and_keep_a_gradient():
    raw = torch.tensor([9.0, 9.0], requires_grad=True)
    widths = widths_from_raw(raw, ANGULAR)
    assert widths[0] == 9
    assert 3.1 < widths[1] < math.pi
    (gradient,) = torch.autograd.grad(widths.sum(), raw)
    assert gradient[0] == 1
    assert gradient[1] > 0.01


@pytest.mark.parametrize("width", [-0.1, math.nan, math.inf, math.pi])
def test_widths_out_of_reach(width):
    with pytest.raises(DataError, match="of a rotation below π"):
        raw_from_widths(torch.tensor([0.0, width]), ANGULAR)
