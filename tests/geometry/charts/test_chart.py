import pytest
import torch

from chart_cases import NAMES, SIZE, make_charts, normal, start
from covary.errors import ChartError, ShapeError
from covary.geometry import CARTESIAN, Atlas, affine, cube, elementwise, logarithm, polar_atlas, scaling, transition
from oracles.geometry import jacobian

EXACT = {"rtol": 1e-10, "atol": 1e-11}


@pytest.fixture(params=NAMES)
def chart(request):
    return make_charts(0)[request.param]


def test_inverse_returns_to_the_start(chart):
    theta = start(1, 2, 3)
    torch.testing.assert_close(chart.inverse(chart.forward(theta)), theta, **EXACT)
    psi = chart.forward(theta)
    torch.testing.assert_close(chart.inverted().inverse(chart.inverted().forward(psi)), psi, **EXACT)
    chart.verify(theta)


def test_a_chart_moves_points(chart):
    assert not torch.allclose(chart.forward(start(1)), start(1))


def test_jacobian_is_the_derivative(chart):
    points = start(2, 3)
    expected = torch.stack([jacobian(chart.forward, point) for point in points])
    torch.testing.assert_close(chart.jacobian(points), expected, **EXACT)
    torch.testing.assert_close(chart.jacobian(points[0]), expected[0], **EXACT)


def test_inverse_chart_has_the_inverse_jacobian(chart):
    theta = start(3)
    product = chart.inverted().jacobian(chart.forward(theta)) @ chart.jacobian(theta)
    torch.testing.assert_close(product, torch.eye(SIZE), **EXACT)


def test_products_are_those_of_the_jacobian(chart):
    theta, directions = start(4, 3), normal(5, 3, SIZE)
    matrices = torch.stack([jacobian(chart.forward, point) for point in theta])
    torch.testing.assert_close(chart.push(theta, directions), (matrices @ directions[..., None])[..., 0], **EXACT)
    torch.testing.assert_close(chart.pull(theta, directions), (matrices.mT @ directions[..., None])[..., 0], **EXACT)


def test_log_determinant_is_that_of_the_jacobian(chart):
    theta = start(6, 2, 2)
    matrices = torch.stack([jacobian(chart.forward, point) for point in theta.view(4, SIZE)])
    expected = torch.linalg.slogdet(matrices)[1].view(2, 2)
    torch.testing.assert_close(chart.log_det(theta), expected, **EXACT)
    torch.testing.assert_close(chart.inverted().log_det(chart.forward(theta)), -expected, **EXACT)


def test_composition_multiplies_jacobians():
    first, second = make_charts(0)["polar"], make_charts(1)["affine"]
    both, theta = second @ first, start(7)
    torch.testing.assert_close(both.forward(theta), second.forward(first.forward(theta)))
    expected = second.jacobian(first.forward(theta)) @ first.jacobian(theta)
    torch.testing.assert_close(both.jacobian(theta), expected, **EXACT)
    assert not torch.allclose((first @ second.inverted()).jacobian(theta), expected)


def test_composition_refuses_what_either_refuses():
    shifted = logarithm() @ affine(torch.eye(2), torch.tensor([0.0, -1.0]))
    shifted.forward(torch.tensor([0.5, 1.5]))
    with pytest.raises(ChartError, match="above 0"):
        shifted.forward(torch.tensor([0.5, 0.5]))
    with pytest.raises(ChartError, match="above 0"):
        (scaling(2.0) @ logarithm()).inverted().inverse(torch.tensor([-1.0]))


def test_verify_finds_a_wrong_inverse():
    with pytest.raises(ChartError, match="relative error"):
        elementwise(torch.exp, torch.exp).verify(start(8))


def test_verify_finds_a_singular_jacobian():
    flat = elementwise(lambda x: x**3, lambda x: x.sign() * x.abs() ** (1 / 3))
    with pytest.raises(ChartError, match="regular"):
        flat.verify(torch.zeros(2))
    with pytest.raises(ChartError, match="derivative is 0"):
        cube().verify(torch.zeros(2))


def test_transition_between_the_two_polar_charts_inverts_the_sphere():
    north, south = polar_atlas(4).charts
    psi = torch.tensor([1.3, 0.4, -0.2, 0.9])
    found = transition(north, south).forward(psi)
    torch.testing.assert_close(found[0], psi[0])
    torch.testing.assert_close(found[1:], psi[1:] / psi[1:].square().sum())
    torch.testing.assert_close(transition(south, north).forward(found), psi)


def test_an_atlas_covers_what_its_charts_do_not():
    atlas = polar_atlas(3)
    north, south = atlas.charts
    top, bottom = torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0.0, 0.0, -2.0])
    assert atlas.at(top) is north
    assert atlas.at(bottom) is south
    assert atlas.at(torch.tensor([1.0, 0.0, -0.1])) is south  # both cover it; its coordinates are smaller there
    torch.testing.assert_close(south.inverse(south.forward(bottom)), bottom)
    with pytest.raises(ChartError, match="other sign"):
        north.forward(bottom)
    with pytest.raises(ChartError, match="None of the 2 charts"):
        atlas.at(torch.zeros(3))
    with pytest.raises(ShapeError, match="3 coordinates"):
        Atlas(atlas.charts).at(torch.ones(4))


def test_cartesian_is_the_identity():
    theta = normal(9, SIZE)
    assert torch.equal(CARTESIAN.forward(theta), theta)
    assert torch.equal(CARTESIAN.push(theta, theta), theta)
    assert float(CARTESIAN.log_det(theta)) == 0


def test_repr_names_the_chart():
    assert repr(scaling(2.0) @ logarithm()) == "Chart(scaling by 2 ∘ logarithm)"
