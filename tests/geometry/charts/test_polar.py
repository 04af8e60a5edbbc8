import pytest
import torch

from chart_cases import normal
from covary.errors import ChartError, ShapeError
from covary.geometry import polar_of
from covary.geometry.charts.polar import polar
from oracles.geometry import jacobian


@pytest.fixture
def rows():
    return normal(0, 5, 4)


def test_the_first_coordinate_of_a_row_is_its_length(rows):
    psi = polar_of(rows).forward(rows.flatten()).view(5, 4)
    torch.testing.assert_close(psi[:, 0], rows.norm(dim=1))
    assert (psi[:, 1:].norm(dim=1) <= 1).all(), "polar_of keeps every row in the unit ball of its chart"


def test_scaling_a_row_moves_its_length_alone(rows):
    chart = polar_of(rows)
    psi, scaled = chart.forward(rows.flatten()).view(5, 4), chart.forward(3 * rows.flatten()).view(5, 4)
    torch.testing.assert_close(scaled[:, 0], 3 * psi[:, 0])
    torch.testing.assert_close(scaled[:, 1:], psi[:, 1:])


def test_there_is_no_redundant_direction(rows):
    chart_jacobian = jacobian(polar_of(rows).forward, rows.flatten())
    assert torch.linalg.matrix_rank(chart_jacobian) == rows.numel()
    # torch's weight norm, for comparison: a coordinate more per row, and a map back that loses as many
    lengths, directions = rows.norm(dim=1, keepdim=True), rows.clone()
    back = jacobian(lambda v: (lengths * v / v.norm(dim=1, keepdim=True)).flatten(), directions).view(20, 20)
    assert torch.linalg.matrix_rank(back) == rows.numel() - len(rows)


def test_volume_of_the_sphere():
    """∫ |det ∂w/∂(r, s)| over the unit ball of directions is half the sphere: 2π of 4π in three dimensions."""
    chart = polar(3, torch.ones(1)).inverted()
    distance = (torch.arange(2000) + 0.5) / 2000
    psi = torch.stack([torch.ones(2000), distance, torch.zeros(2000)], dim=1)
    areas = chart.log_det(psi).exp() * 2 * torch.pi * distance
    torch.testing.assert_close(areas.mean(), torch.tensor(2 * torch.pi), rtol=1e-6, atol=0)  # midpoint rule, 1/n²


def test_a_convolution_is_taken_row_by_row():
    weight = normal(1, 3, 2, 2, 2)
    psi = polar_of(weight).forward(weight.flatten()).view(3, 8)
    torch.testing.assert_close(psi[:, 0], weight.flatten(1).norm(dim=1))


def test_a_row_of_one_entry_is_its_size():
    weight = torch.tensor([[2.0], [-3.0]])
    chart = polar_of(weight)
    torch.testing.assert_close(chart.forward(weight.flatten()), torch.tensor([2.0, 3.0]))
    torch.testing.assert_close(chart.inverse(torch.tensor([4.0, 5.0])), torch.tensor([4.0, -5.0]))
    with pytest.raises(ChartError, match="other sign"):
        chart.forward(torch.tensor([2.0, 3.0]))


def test_a_radius_of_zero_is_refused(rows):
    chart = polar_of(rows)
    with pytest.raises(ChartError, match="norm above 0 .* got 0"):
        chart.forward(torch.cat([torch.zeros(4), rows.flatten()[4:]]))
    with pytest.raises(ChartError, match="norm above 0 .* got -1"):
        chart.inverse(-torch.ones(20))


def test_bad_arguments_are_refused():
    with pytest.raises(ShapeError, match="rows"):
        polar_of(torch.ones(3))
    with pytest.raises(ShapeError, match=r"\+1 or −1"):
        polar(3, torch.zeros(2))
    with pytest.raises(ShapeError, match="6 coordinates"):
        polar(3, torch.ones(2)).forward(torch.ones(5))
