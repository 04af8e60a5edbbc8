import pytest
import torch

from covary.errors import ChartError
from covary.geometry import cube, exponential, inverse_softplus, logarithm, softplus


def test_closed_forms():
    theta = torch.tensor([0.5, 2.0])
    torch.testing.assert_close(exponential().log_det(theta), theta.sum())
    torch.testing.assert_close(logarithm().log_det(theta), -theta.log().sum())
    torch.testing.assert_close(cube().log_det(theta), (3 * theta**2).log().sum())
    torch.testing.assert_close(softplus().forward(theta), theta.exp().log1p())


@pytest.mark.parametrize("chart", [softplus(), inverse_softplus().inverted()], ids=["softplus", "inverted"])
def test_softplus_keeps_its_digits_far_out(chart):
    theta = torch.tensor([-30.0, -1.0, 1.0, 30.0, 50.0])
    torch.testing.assert_close(chart.inverse(chart.forward(theta)), theta, rtol=1e-12, atol=0)


@pytest.mark.parametrize("chart", [logarithm(), inverse_softplus()], ids=["log", "softplus"])
@pytest.mark.parametrize("bad", [0.0, -0.1, float("nan")])
def test_a_variance_must_be_positive(chart, bad):
    with pytest.raises(ChartError, match="above 0"):
        chart.forward(torch.tensor([1.0, bad]))
    with pytest.raises(ChartError, match="above 0"):
        chart.inverted().inverse(torch.tensor([bad]))
    chart.inverse(torch.tensor([-3.0]))  # any real number is the coordinate of a variance


def test_cube_is_no_chart_at_zero():
    chart = cube()
    torch.testing.assert_close(chart.inverse(torch.tensor([-8.0, 27.0])), torch.tensor([-2.0, 3.0]))
    with pytest.raises(ChartError, match="slope 0"):
        chart.jacobian(torch.tensor([1.0, 0.0]))
