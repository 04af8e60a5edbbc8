import pytest
import torch
from torch.func import hessian, jacfwd

from chart_cases import METRICS, NAMES, SIZE, make_charts, make_metric, normal, start
from covary import Gaussian
from covary.errors import NotPositiveDefiniteError, StructureError
from covary.geometry import (
    CARTESIAN,
    Metric,
    Point,
    affine,
    cube,
    diagonal_metric,
    empirical_fisher_metric,
    euclidean_metric,
    fisher_metric,
    ggn_metric,
    scaling,
)
from covary.linalg import Dense, Diagonal
from oracles.geometry import jacobian

INPUTS, TARGETS = normal(0, 12, 2), normal(1, 12, 2)
LIKELIHOOD = Gaussian(0.5, learn_sigma_noise=False)


def model(theta):
    """A nonlinear model with six parameters and two outputs."""
    return theta[4:] * torch.tanh(INPUTS @ theta[:4].view(2, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", METRICS)
def test_pulled_back_matrix_and_its_products(name, kind):
    chart, theta, metric = make_charts(0)[name], start(1), make_metric(kind, 2)
    psi, vector = chart.forward(theta), normal(3, SIZE)
    back = jacobian(chart.inverse, psi)
    expected = back.T @ metric.matrix(theta) @ back
    pulled = metric.to(chart)
    torch.testing.assert_close(pulled.matrix(psi), expected)
    torch.testing.assert_close(pulled.at(Point(theta).to(chart)).components, expected)
    torch.testing.assert_close(pulled.matvec(psi, vector), expected @ vector)
    torch.testing.assert_close(pulled.solve(psi, vector), torch.linalg.solve(expected, vector))
    torch.testing.assert_close(pulled.log_det(psi), torch.logdet(expected))
    torch.testing.assert_close(pulled.to(CARTESIAN).matrix(theta), metric.matrix(theta))


def test_damping_is_part_of_the_metric():
    chart, theta = make_charts(0)["polar"], start(1)
    metric = make_metric("varying", 2).damped(0.5).damped(1)
    expected = make_metric("varying", 2).matrix(theta) + 1.5 * torch.eye(SIZE)
    torch.testing.assert_close(metric.matrix(theta), expected)
    torch.testing.assert_close(metric.solve(theta, theta), torch.linalg.solve(expected, theta))
    psi, back = chart.forward(theta), chart.inverted().jacobian(chart.forward(theta))
    torch.testing.assert_close(metric.to(chart).matrix(psi), back.T @ expected @ back)
    torch.testing.assert_close(metric.to(chart).matvec(psi, psi), back.T @ expected @ back @ psi)
    diagonal = diagonal_metric(start(3)).damped(2.0)
    torch.testing.assert_close(diagonal.solve(theta, theta), theta / (start(3) + 2))
    torch.testing.assert_close(diagonal.log_det(theta), (start(3) + 2).log().sum())
    with pytest.raises(StructureError, match="above 0"):
        metric.damped(0.0)


def test_euclidean_metric_of_a_chart_is_the_identity_there():
    chart, theta = make_charts(0)["flow"], start(1)
    metric = euclidean_metric(chart)
    torch.testing.assert_close(metric.to(chart).matrix(chart.forward(theta)), torch.eye(SIZE))
    assert not torch.allclose(metric.matrix(theta), torch.eye(SIZE), atol=0.1)


@pytest.mark.parametrize("kind", METRICS)
def test_solutions_and_volumes_can_be_differentiated_twice_in_any_mode(kind):
    metric, theta, covector = make_metric(kind, 0), start(1), normal(2, SIZE)
    matrix = metric.matrix

    def energy(point):
        return covector @ torch.linalg.inv(matrix(point)) @ covector

    found = jacfwd(jacfwd(lambda point: covector @ metric.solve(point, covector)))(theta)
    torch.testing.assert_close(found, torch.autograd.functional.hessian(energy, theta))
    expected = torch.autograd.functional.hessian(lambda point: torch.logdet(matrix(point)), theta)
    torch.testing.assert_close(hessian(metric.log_det)(theta), expected)
    torch.testing.assert_close(jacfwd(jacfwd(metric.log_det))(theta), expected)


@pytest.mark.parametrize("what", ["at", "solve", "log_det"])
def test_a_singular_fisher_says_so_and_offers_damping(what):
    few = fisher_metric(lambda theta: model(theta)[:2], LIKELIHOOD)  # 4 numbers for 6 parameters

    def use(metric):
        theta = start(0)
        return {
            "at": lambda: metric.at(Point(theta)),
            "solve": lambda: metric.solve(theta, theta),
            "log_det": lambda: metric.log_det(theta),
        }[what]()

    with pytest.raises(NotPositiveDefiniteError, match=r"more weights than N·C .* metric.damped"):
        use(few)
    use(few.damped(1e-3))
    use(fisher_metric(model, LIKELIHOOD))  # and 24 numbers are enough


def test_a_diagonal_metric_must_be_positive():
    metric = diagonal_metric(torch.tensor([1.0, 0.0]))
    with pytest.raises(NotPositiveDefiniteError, match="diagonal metric"):
        metric.at(Point(torch.ones(2)))


# Which metrics, computed by plain differentiation of the model in ψ, are the ones pulled back from θ? The table of
# docs/explanation/geometry.md (paper 3, App. C).


def diagonal_fisher(outputs):
    fisher = fisher_metric(outputs, LIKELIHOOD)
    return Metric("diagonal", lambda point: Diagonal(fisher.matrix(point).diagonal()))


def adams(outputs):
    """√v with v the sum of squared gradients of the data."""
    fisher = empirical_fisher_metric(outputs, LIKELIHOOD, TARGETS)
    return Metric("Adam's", lambda point: Diagonal(fisher.matrix(point).diagonal().sqrt()))


def squared_loss(outputs):
    return 2 * (outputs - TARGETS).square().sum()


FROM_OUTPUTS = {
    "Fisher": lambda outputs: fisher_metric(outputs, LIKELIHOOD),
    "GGN": lambda outputs: ggn_metric(outputs, squared_loss),
    "empirical Fisher": lambda outputs: empirical_fisher_metric(outputs, LIKELIHOOD, TARGETS),
    "diagonal of the Fisher": diagonal_fisher,
    "damped Fisher": lambda outputs: fisher_metric(outputs, LIKELIHOOD).damped(50.0),
    "Adam's": adams,
    "Euclidean": lambda outputs: euclidean_metric(),
}
SIGNED_PERMUTATION = torch.eye(SIZE)[[2, 0, 1, 5, 3, 4]].double() * torch.tensor([1, -1, 1, 1, -1, 1]).double()
CHARTS = {
    "polar": make_charts(0)["polar"],
    "flow": make_charts(0)["flow"],
    "affine": make_charts(0)["affine"],
    "element-wise": cube(),
    "scaling": scaling(3.0),
    "rotation": affine(torch.linalg.qr(normal(5, SIZE, SIZE))[0]),
    "signed permutation": affine(SIGNED_PERMUTATION),
}
AUTOMATIC = {
    "Fisher": set(CHARTS),
    "GGN": set(CHARTS),
    "empirical Fisher": set(CHARTS),
    "diagonal of the Fisher": {"element-wise", "scaling", "signed permutation"},
    "damped Fisher": {"rotation", "signed permutation"},
    "Adam's": {"signed permutation"},
    "Euclidean": {"rotation", "signed permutation"},
}


@pytest.mark.parametrize("metric", FROM_OUTPUTS)
@pytest.mark.parametrize("name", CHARTS)
def test_which_metrics_transform_by_themselves(metric, name):
    chart, make, theta = CHARTS[name], FROM_OUTPUTS[metric], start(1)
    psi = chart.forward(theta)
    pulled_back = make(model).to(chart).matrix(psi)
    by_itself = make(lambda point: model(chart.inverse(point))).matrix(psi)
    if name in AUTOMATIC[metric]:
        torch.testing.assert_close(by_itself, pulled_back)
    else:
        assert not torch.allclose(by_itself, pulled_back, rtol=1e-2, atol=1e-2 * pulled_back.abs().max().item())


def test_a_field_of_ones_own():
    metric = Metric("mine", lambda theta: Dense(torch.diag(theta.exp())))
    theta = normal(6, 3)
    torch.testing.assert_close(metric.log_det(theta), theta.sum())
