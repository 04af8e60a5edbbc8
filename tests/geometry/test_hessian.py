import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import hessian

from chart_cases import CURVED, METRICS, NAMES, SIZE, make_charts, make_metric, normal, quartic, start
from covary import Gaussian, Model
from covary.errors import NotPositiveDefiniteError, StructureError
from covary.geometry import (
    HessianOperator,
    Metric,
    Point,
    Vector,
    euclidean_metric,
    hessian_operator,
    kfac_metric,
    riemannian_hessian,
    scaling,
)
from covary.linalg import Dense
from oracles import geometry as oracle

EXACT = {"rtol": 1e-8, "atol": 1e-8}


@pytest.mark.parametrize("size", [1, 3, 10])
def test_scaling_example_of_the_paper(size):
    """Paper 3, App. A: under ψ = 3θ, det H of Σθ² goes from 2^d to (2/9)^d, while det E is 2^d in both."""
    loss, theta = (lambda theta: theta.square().sum()), normal(0, size)
    here = hessian_operator(loss, euclidean_metric(), Point(theta))
    there = hessian_operator(loss, euclidean_metric(), Point(theta).to(scaling(3.0)))
    exact = {"rtol": 1e-14 * size, "atol": 0}
    torch.testing.assert_close(here.hessian.components.det(), torch.tensor(2.0**size), **exact)
    torch.testing.assert_close(there.hessian.components.det(), torch.tensor((2 / 9) ** size), **exact)
    for operator in (here, there):
        torch.testing.assert_close(operator.operator.components.det(), torch.tensor(2.0**size), **exact)
        torch.testing.assert_close(operator.log_det(), size * torch.tensor(2.0).log(), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(operator.eigenvalues(), torch.full((size,), 2.0), **exact)


@given(st.sampled_from(NAMES), st.sampled_from(METRICS), st.integers(0, 10**6), st.booleans())
def test_trace_determinant_and_eigenvalues_are_invariant(name, kind, seed, critical):
    loss, minimum = quartic(seed)
    chart, metric = make_charts(seed)[name], make_metric(kind, seed)
    point = Point(minimum if critical else minimum + 0.01 * normal(seed, SIZE).abs())
    here, there = hessian_operator(loss, metric, point), hessian_operator(loss, metric, point.to(chart))
    for quantity in (HessianOperator.trace, HessianOperator.log_det, HessianOperator.eigenvalues):
        torch.testing.assert_close(quantity(there), quantity(here), **EXACT)
        torch.testing.assert_close(quantity(here.to(chart)), quantity(here), **EXACT)
    naive = [operator.hessian.components for operator in (here, there)]
    for quantity in (torch.trace, torch.logdet, torch.linalg.eigvalsh):
        assert not torch.allclose(quantity(naive[0]), quantity(naive[1]), rtol=1e-5)


@given(st.sampled_from(NAMES), st.sampled_from(METRICS), st.integers(0, 10**6))
def test_hessian_in_a_chart_is_the_transformed_one_at_any_point(name, kind, seed):
    (loss, _), chart, metric = quartic(seed), make_charts(seed)[name], make_metric(kind, seed)
    point = Point(start(seed + 1))
    expected = riemannian_hessian(loss, metric, point).to(chart).components
    found = riemannian_hessian(loss, metric, point.to(chart)).components
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8 * expected.abs().max().item())
    if name in CURVED:  # without the connection it is another matrix
        plain = hessian(lambda psi: loss(chart.inverse(psi)))(chart.forward(point.coordinates))
        assert not torch.allclose(plain, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


@pytest.mark.parametrize("name", NAMES)
def test_hessian_is_the_second_derivative_along_geodesics(name):
    """Those of the Euclidean metric are the straight lines of θ, whatever the coordinates."""
    (loss, _), chart = quartic(3), make_charts(4)[name]
    point = Point(start(5))
    direction = Vector(normal(6, SIZE), point)
    form = riemannian_hessian(loss, euclidean_metric(), point.to(chart))
    expected = oracle.second_derivative_along(loss, point.coordinates, direction.components)
    torch.testing.assert_close(form(direction.to(chart), direction.to(chart)), expected)


def symbols(metric, point):
    """Γᵏᵢⱼ, axes (k, i, j), in the point's chart: minus the Hessian of each coordinate, whose plain one is zero."""
    forward, size = point.chart.maps.forward, len(point.coordinates)
    forms = [riemannian_hessian(lambda theta, k=k: forward(theta)[k], metric, point) for k in range(size)]
    return -torch.stack([form.components for form in forms])


def test_christoffel_symbols_of_the_gaussian():
    """Fisher metric diag(1, 2)/σ² of N(μ, σ²), a hyperbolic plane, whose symbols are known."""
    metric = Metric("Gaussian", lambda theta: Dense(torch.diag(torch.stack([theta[1] ** -2, 2 * theta[1] ** -2]))))
    mean_and_scale = torch.tensor([0.4, 1.7])
    expected = torch.zeros(2, 2, 2)
    expected[0, 0, 1] = expected[0, 1, 0] = expected[1, 1, 1] = -1 / 1.7
    expected[1, 0, 0] = 1 / (2 * 1.7)
    torch.testing.assert_close(symbols(metric, Point(mean_and_scale)), expected)


@pytest.mark.parametrize("name", ["polar", "flow", "logarithm"])
@pytest.mark.parametrize("kind", METRICS)
def test_christoffel_symbols_are_those_of_the_definition(name, kind):
    chart = make_charts(0)[name]
    metric, point = make_metric(kind, 1), Point(start(2)).to(chart)
    torch.testing.assert_close(symbols(metric, point), oracle.christoffel(metric.to(chart).matrix, point.coordinates))


def test_a_flat_metric_has_no_symbols_in_its_own_coordinates():
    chart, theta = make_charts(0)["polar"], start(3)
    zero, point = torch.zeros(SIZE, SIZE, SIZE), Point(theta).to(chart)
    torch.testing.assert_close(symbols(euclidean_metric(), Point(theta)), zero)
    torch.testing.assert_close(symbols(euclidean_metric(chart), point), zero, rtol=0, atol=1e-12)
    assert symbols(euclidean_metric(), Point(theta)).abs().max() < 1e-12
    assert symbols(euclidean_metric(), point).abs().max() > 0.1


def test_eigenvalues_are_those_of_the_operator():
    loss, minimum = quartic(0)
    found = hessian_operator(loss, make_metric("varying", 1), Point(minimum))
    expected = torch.linalg.eigvals(found.operator.components)
    assert expected.imag.abs().max() < 1e-12
    torch.testing.assert_close(found.eigenvalues(), expected.real.sort().values)


def test_log_determinant_needs_a_minimum():
    saddle = hessian_operator(lambda t: t[0] ** 2 - t[1] ** 2, euclidean_metric(), Point(torch.zeros(2)))
    torch.testing.assert_close(saddle.eigenvalues(), torch.tensor([-2.0, 2.0]))
    with pytest.raises(NotPositiveDefiniteError, match="the Hessian"):
        saddle.log_det()


def test_a_metric_that_cannot_be_differentiated_has_no_symbols():
    network, x = nn.Linear(3, 1), normal(0, 4, 3)
    metric = kfac_metric(Model(network, Gaussian()), (x, x[:, :1])).damped(1.0)
    with pytest.raises(StructureError, match="can be differentiated"):
        riemannian_hessian(torch.sum, metric, Point(torch.zeros(4)))
