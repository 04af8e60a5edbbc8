import pytest
import torch

from covary.errors import ChartError, ShapeError
from covary.geometry import affine, scaling


def test_scaling_closed_form():
    chart = scaling(torch.tensor([2.0, 0.5, 3.0]))
    theta = torch.tensor([1.0, -2.0, 4.0])
    torch.testing.assert_close(chart.forward(theta), torch.tensor([2.0, -1.0, 12.0]))
    torch.testing.assert_close(chart.log_det(theta), torch.tensor(3.0).log())
    torch.testing.assert_close(scaling(3).log_det(torch.zeros(2, 4)), 4 * torch.full((2,), 3.0).log())


def test_scaling_keeps_the_dtype():
    assert scaling(3.0).forward(torch.ones(2, dtype=torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), torch.tensor([1.0, 0.0])])
def test_scaling_refuses_factors_that_are_no_scale(factor):
    with pytest.raises(ChartError, match="above 0"):
        scaling(factor)


def test_affine_refuses_a_singular_matrix():
    with pytest.raises(ChartError, match="regular matrix"):
        affine(torch.ones(3, 3))
    with pytest.raises(ShapeError, match=r"\(P, P\)"):
        affine(torch.ones(3, 2))


def test_affine_may_mirror():
    mirror = affine(torch.diag(torch.tensor([-1.0, 1.0])))
    torch.testing.assert_close(mirror.forward(torch.tensor([2.0, 3.0])), torch.tensor([-2.0, 3.0]))
    assert float(mirror.log_det(torch.ones(2))) == 0


@pytest.mark.parametrize("chart", [affine(torch.eye(3)), scaling(torch.ones(3))], ids=["affine", "scaling"])
def test_another_number_of_coordinates_is_refused(chart):
    with pytest.raises(ShapeError, match="3 coordinates"):
        chart.forward(torch.ones(4))
    with pytest.raises(ShapeError, match="3 coordinates"):
        chart.inverse(torch.ones(1))
