import pytest
import torch
from torch import nn

from covary.curvature.capture import capture
from covary.curvature.rows import Sharing, called, gradient_rows, input_rows, products, stack
from covary.linalg.gram import Gram
from covary.priors import weights_of


@pytest.fixture
def network(generator):
    network = nn.Sequential(nn.Linear(4, 3), nn.Flatten(), nn.Linear(15, 2))
    for parameter in network.parameters():
        parameter.data.normal_(generator=generator)
    return network


def test_rows_of_a_layer_are_its_inputs_and_output_gradients(network, generator):
    """Tokens are rows; reduced, inputs are averaged and gradients summed over them."""
    x, probe = torch.randn(6, 5, 4, generator=generator), torch.randn(6, 2, generator=generator)
    with torch.no_grad():
        captured = capture(network, x, weights_of(network))
        gradients = captured.pull(probe)
    expected = (probe @ network[2].weight).view(6, 5, 3)
    for sharing, a, g in (
        (Sharing(), x, expected),
        (Sharing(rows="reduce"), x.mean(1, keepdim=True), expected.sum(1, keepdim=True)),
    ):
        (found,) = input_rows(captured, "0.weight", sharing)[0]
        torch.testing.assert_close(found, a[None, :, :, None])
        (found,) = gradient_rows(captured, "0.weight", gradients, sharing)[0]
        torch.testing.assert_close(found, g[None, :, :, None])
    assert called(captured, "kron") == ["0.weight", "2.weight"]
    assert called(captured, "dense") == ["0.bias", "2.bias"]


def test_products_sum_over_data_rows_and_calls(generator):
    calls = [torch.randn(1, 3, rows, 2, 4, generator=generator) for rows in (5, 2)]
    weights = [torch.rand(3, rows, 2, generator=generator) for rows in (5, 2)]
    for weight in (None, weights):
        found = products(calls, weight).matrix
        for q in range(2):
            rows = torch.cat([call[0, :, :, q].flatten(0, 1) for call in calls])
            count = torch.cat([w[:, :, q].flatten() for w in weights]) if weight else torch.ones(len(rows))
            torch.testing.assert_close(found[q], rows.T @ (count[:, None] * rows))


SHAPES = {"linear": (5, 1, 1, 3), "convolution": (3, 5, 1, 2), "blocks": (3, 2, 2, 4)}  # (N, R, Q, D)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_products_of_rows_with_themselves_have_first_and_second_derivatives(shape, generator):
    rows = torch.randn(shape, generator=generator, requires_grad=True)
    weight = torch.randn(shape[2:3] + shape[3:] * 2 if shape[2] > 1 else shape[3:] * 2, generator=generator)
    torch.autograd.gradcheck(lambda a: products([a[None]]).matrix, rows)
    torch.autograd.gradgradcheck(lambda a: products([a[None]]).matrix.square(), rows)
    (found,) = torch.autograd.grad((weight * products([rows[None]]).matrix).sum(), rows)
    expected = torch.einsum("qij,nrqj->nrqi", (weight + weight.mT).view(shape[2], shape[3], -1), rows)
    torch.testing.assert_close(found, expected)


def test_two_sets_give_symmetric_cross_products(generator):
    one, other = torch.randn(2, 6, 4, generator=generator)
    found = products([torch.stack([one, other])[:, :, None, None]]).matrix
    torch.testing.assert_close(found, (one.T @ other + other.T @ one) / 2)


def test_few_rows_are_kept_without_graph(generator):
    few, many = (torch.randn(1, number, 1, 1, 4, generator=generator) for number in (3, 4))
    with torch.no_grad():
        kept = products([few])
        torch.testing.assert_close(kept.rows[0].T @ kept.rows[0], kept.matrix)
        assert products([many]).rows is None
    assert products([few]).rows is None


def test_factors_of_several_blocks_are_stacked():
    one, other = Gram(torch.eye(2)), Gram(2 * torch.eye(2))
    assert stack([one]) is one
    assert torch.equal(stack([one, other]).matrix, torch.stack([one.matrix, other.matrix]))
