import pytest
import torch
from torch import nn

from chart_cases import Coupling, start
from covary.errors import ChartError
from covary.geometry import Point, euclidean_metric, flow, riemannian_hessian


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
