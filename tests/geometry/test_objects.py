import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.func import grad

from chart_cases import METRICS, NAMES, SIZE, make_charts, make_metric, normal, quartic, start
from covary.errors import ChartError, KindError, NotPositiveDefiniteError, ShapeError
from covary.geometry import BilinearForm, Covector, Density, Operator, Point, Vector, scaling

EXACT = {"rtol": 1e-8, "atol": 1e-8}
cases = given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(METRICS), st.integers(0, 10**6))


def charts_and_point(first, second, seed):
    return make_charts(seed)[first], make_charts(seed + 1)[second], Point(start(seed))


def changes(left, right):
    return not torch.allclose(left, right, rtol=1e-5)


@cases
def test_pairing_inner_product_and_operator_are_invariant(first, second, kind, seed):
    source, target, point = charts_and_point(first, second, seed)
    metric = make_metric(kind, seed).at(point)
    v, u, w = Vector(normal(1, SIZE), point), Vector(normal(2, SIZE), point), Covector(normal(3, SIZE), point)
    operator = Operator(normal(4, SIZE, SIZE), point)
    v_there, u_there, w_there = (thing.to(source).to(target) for thing in (v, u, w))
    metric_there, operator_there = metric.to(source).to(target), operator.to(source).to(target)
    torch.testing.assert_close(w_there @ v_there, w @ v, **EXACT)
    torch.testing.assert_close(metric_there(u_there, v_there), metric(u, v), **EXACT)
    torch.testing.assert_close(w_there @ (operator_there @ v_there), w @ (operator @ v), **EXACT)
    torch.testing.assert_close(operator_there.trace(), operator.trace(), **EXACT)
    torch.testing.assert_close(operator_there.log_abs_det(), operator.log_abs_det(), **EXACT)
    torch.testing.assert_close(w_there @ metric_there.solve(w_there), w @ metric.solve(w), **EXACT)
    # the naive products of components, without rule or metric, change
    assert changes(v_there.components @ v_there.components, v.components @ v.components)
    assert changes(w_there.components @ w_there.components, w.components @ w.components)
    assert changes(metric_there.components.trace(), metric.components.trace())


@cases
def test_there_and_back(first, second, kind, seed):
    source, target, point = charts_and_point(first, second, seed)
    things = [
        Vector(normal(1, SIZE), point),
        Covector(normal(2, SIZE), point),
        make_metric(kind, seed).at(point),
        Operator(normal(3, SIZE, SIZE), point),
        Density(torch.tensor(-1.3), point),
    ]
    for thing in things:
        back = thing.to(source).to(target).to(point.chart)
        torch.testing.assert_close(back.components, thing.components, **EXACT)
        torch.testing.assert_close(back.point.coordinates, point.coordinates)


@cases
def test_density_under_a_metric_is_invariant(first, second, kind, seed):
    source, target, point = charts_and_point(first, second, seed)
    log_det = (target @ source.inverted()).log_det(source.forward(point.coordinates))
    assume(abs(log_det.item()) > 1e-3)
    density, metric = Density(torch.tensor(-2.0), point), make_metric(kind, seed).at(point)
    here, there = density.to(source), density.to(source).to(target)
    torch.testing.assert_close(here.under(metric.to(source)), density.under(metric), **EXACT)
    torch.testing.assert_close(there.under(metric.to(target)), density.under(metric), **EXACT)
    torch.testing.assert_close(here.components - there.components, log_det, **EXACT)
    assert changes(there.components, here.components)


@pytest.mark.parametrize("name", NAMES)
def test_rules_are_those_of_differentiation(name):
    """A covector moves as the differential of a loss in the new coordinates, a vector as the velocity of a curve."""
    chart, theta, (loss, _) = make_charts(5)[name], start(6), quartic(7)
    point = Point(theta)
    moved = Covector(grad(loss)(theta), point).to(chart)
    expected = grad(lambda psi: loss(chart.inverse(psi)))(chart.forward(theta))
    torch.testing.assert_close(moved.components, expected)
    direction, small = normal(8, SIZE), 1e-6
    velocity = (chart.forward(theta + small * direction) - chart.forward(theta - small * direction)) / (2 * small)
    # central differences: error of third derivatives times small², and rounding over small
    torch.testing.assert_close(Vector(direction, point).to(chart).components, velocity, rtol=1e-6, atol=1e-6)


def test_linear_combinations():
    point = Point(start(0))
    v, u = Vector(normal(1, SIZE), point), Vector(normal(2, SIZE), point)
    chart = make_charts(0)["polar"]
    combined = (2 * v - u * 0.5 + u).to(chart)
    expected = 2 * v.to(chart).components + 0.5 * u.to(chart).components
    torch.testing.assert_close(combined.components, expected)


def test_mixing_kinds_is_an_error():
    point = Point(start(0))
    v, w = Vector(normal(1, SIZE), point), Covector(normal(2, SIZE), point)
    form, operator = BilinearForm(torch.eye(SIZE), point), Operator(torch.eye(SIZE), point)
    density = Density(torch.tensor(0.0), point)
    wrong = [
        lambda: v + w,
        lambda: w - v,
        lambda: form + operator,
        lambda: v + 1.0,
        lambda: w @ w,
        lambda: form @ w,
        lambda: form(v, w),
        lambda: form.solve(v),
        lambda: form.operator(operator),
        lambda: operator @ w,
        lambda: density.under(operator),
    ]
    for mixture in wrong:
        with pytest.raises(KindError, match="got"):
            mixture()


def test_mixing_charts_or_points_is_an_error():
    here, there = Point(start(0)), Point(start(1))
    v, w = Vector(normal(1, SIZE), here), Covector(normal(2, SIZE), here)
    chart = scaling(2.0)
    with pytest.raises(ChartError, match="scaling by 2"):
        w @ v.to(chart)
    with pytest.raises(ChartError, match="another point"):
        w @ Vector(normal(1, SIZE), there)
    torch.testing.assert_close(w.to(chart) @ v.to(chart), w @ v)


def test_bad_components_are_refused():
    point = Point(start(0))
    with pytest.raises(ShapeError, match=r"shape \(6, 6\)"):
        BilinearForm(torch.ones(SIZE), point)
    with pytest.raises(ChartError, match="above 0"):
        Point(-start(0), make_charts(0)["exponential"])
    with pytest.raises(NotPositiveDefiniteError, match="the metric"):
        Density(torch.tensor(0.0), point).under(BilinearForm(-torch.eye(SIZE), point))
