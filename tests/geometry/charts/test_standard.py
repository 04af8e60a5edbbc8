import pytest
import torch
from torch import nn

from chart_cases import Coupling, start
from covary.errors import ChartError, ShapeError
from covary.geometry import (
    Point,
    affine,
    cube,
    euclidean_metric,
    exponential,
    flow,
    inverse_softplus,
    logarithm,
    scaling,
    softplus,
)
from covary.geometry.hessian import riemannian_hessian


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


def test_elementwise_closed_forms():
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
    with pytest.raises(ChartError, match="derivative is 0"):
        chart.jacobian(torch.tensor([1.0, 0.0]))


def test_derivatives_reach_the_parameters_of_a_flow(generator):
    module = Coupling(generator)
    chart = flow(module)
    (found,) = torch.autograd.grad(chart.log_det(start(0)), module.mixing)

    def scale(mixing):  # log|det J| of a coupling is the sum of its log-scales
        return torch.tanh(start(0)[:3] @ mixing.mT)[3:].sum()

    mixing = module.mixing.detach().requires_grad_()
    (expected,) = torch.autograd.grad(scale(mixing), mixing)
    torch.testing.assert_close(found, expected)
    assert found.abs().max() > 0


def test_a_closed_form_log_determinant_is_used(generator):
    module = Coupling(generator)
    chart = flow(module, log_det=lambda theta: torch.tanh(theta[..., :3] @ module.mixing.mT)[..., 3:].sum(-1))
    torch.testing.assert_close(chart.log_det(start(1, 4)), flow(module).log_det(start(1, 4)))


def test_a_flow_does_not_change_second_derivatives(generator):
    chart, theta = flow(Coupling(generator)), start(2)
    point = Point(theta).to(chart)
    loss = lambda x: (x**4).sum()  # noqa: E731
    form = riemannian_hessian(loss, euclidean_metric(), point).to(Point(theta).chart)
    torch.testing.assert_close(form.components, torch.diag(12 * theta**2))


def test_a_module_without_inverse_is_refused():
    with pytest.raises(ChartError, match="'inverse'"):
        flow(nn.Linear(3, 3))
