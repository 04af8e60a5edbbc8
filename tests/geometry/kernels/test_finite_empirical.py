"""The empirical tangent kernel against whole Jacobians, in any chart, with the control that a new metric changes it."""

import pytest
import torch
from torch import Tensor, nn

import covary
from covary.errors import DataError, NotPositiveDefiniteError, ShapeError, StructureError
from covary.geometry import (
    BilinearForm,
    Point,
    affine,
    empirical_ntk,
    flat_outputs,
    flatten,
    network_chart,
    ntk_in_chart,
    polar_of,
)
from covary.priors import weights_of
from oracles.kernels import tangent_kernel


@pytest.fixture
def network(generator) -> nn.Module:
    return covary.networks.mlp(3, [4, 3], 2, generator=generator)


@pytest.fixture
def x(generator) -> Tensor:
    return torch.randn(5, 3, generator=generator)


def test_the_kernel_is_the_product_of_jacobians(network, x):
    found = empirical_ntk(network, x)
    assert found.shape == (5, 2, 5, 2)
    torch.testing.assert_close(found, tangent_kernel(network, x), rtol=1e-11, atol=1e-12)
    assert not torch.allclose(found[0, 0, 1, 1], found[0, 1, 1, 0])  # so that the order of axes is seen


def test_an_image_network_and_a_diagonal_metric(generator):
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2))
    x = torch.randn(3, 1, 4, 4, generator=generator)
    metric = {n: 0.5 + torch.rand(p.shape, generator=generator) for n, p in network.named_parameters()}
    flat = torch.cat([value.flatten() for value in metric.values()])
    torch.testing.assert_close(empirical_ntk(network, x, metric), tangent_kernel(network, x, flat), rtol=1e-11, atol=0)


def test_the_weights_that_are_named_are_those_that_count(network, x):
    terms = [empirical_ntk(network, x, weights=[name]) for name in weights_of(network)]
    torch.testing.assert_close(sum(terms), empirical_ntk(network, x))
    last = empirical_ntk(network, x, weights=["5.bias"])
    torch.testing.assert_close(last, torch.eye(2).expand(5, 5, 2, 2).permute(0, 2, 1, 3))


def test_with_the_prior_as_metric_it_is_the_dual_of_the_full_curvature(network, x):
    """log|I + JδJᵀ| = log|H + δ| − log|δ| for a Gaussian of unit noise."""
    likelihood, prior = covary.Gaussian(learn_sigma_noise=False), covary.Prior(network, precision=0.7)
    with torch.no_grad():
        kernel = empirical_ntk(network, x, prior.shifts()).reshape(10, 10)
        ggn = covary.curvature.full(covary.Model(network, likelihood), (x, torch.zeros(5, 2))).to_dense()
    ratio = torch.logdet(torch.eye(len(ggn)) + ggn / 0.7)
    torch.testing.assert_close(torch.logdet(torch.eye(10) + kernel), ratio)


def test_an_averaged_network_has_the_kernel_of_its_average(generator, x):
    inner = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    averaged = covary.Averaged(inner, covary.augment.Rotation2d(initial_width=0.7), 4)
    found = empirical_ntk(averaged, x[:, :2], seed=3)
    jacobian = torch.func.jacrev(flat_outputs(averaged, x[:, :2], seed=3))(flatten(weights_of(averaged)).detach())
    torch.testing.assert_close(found, torch.einsum("ncp,mdp->ncmd", jacobian, jacobian))


def random_chart(network: nn.Module, kind: str, generator):
    weights = {name: weight.detach() for name, weight in weights_of(network).items()}
    size = sum(weight.numel() for weight in weights.values())
    if kind == "affine":
        return affine(torch.eye(size) + 0.5 * torch.randn(size, size, generator=generator) / size**0.5)
    return network_chart(weights, {"*.weight": polar_of})


@pytest.mark.parametrize("kind", ["affine", "polar"])
def test_a_chart_that_carries_the_metric_leaves_the_kernel_alone(kind, network, x, generator):
    theta = flatten(weights_of(network)).detach()
    chart, function = random_chart(network, kind, generator), flat_outputs(network, x)
    metric = BilinearForm(torch.diag(0.5 + torch.rand(len(theta), generator=generator)), Point(theta))
    expected = ntk_in_chart(function, metric)
    torch.testing.assert_close(
        expected, tangent_kernel(network, x, metric.components.diagonal()), rtol=1e-11, atol=1e-12
    )
    torch.testing.assert_close(ntk_in_chart(function, metric.to(chart)), expected, rtol=1e-9, atol=1e-10)
    # the same components in the new chart are another metric
    kept = BilinearForm(metric.components, metric.point.to(chart))
    assert not torch.allclose(ntk_in_chart(function, kept), expected, rtol=0.05)


def test_bad_input(network, x):
    complete = {name: torch.tensor(1.0) for name in weights_of(network)}
    with pytest.raises(DataError, match="at least one"):
        empirical_ntk(network, x[:0])
    with pytest.raises(StructureError, match="none for '5.bias'"):
        empirical_ntk(network, x, {n: m for n, m in complete.items() if n != "5.bias"})
    with pytest.raises(ShapeError, match=r"'1.bias', got shape \(3,\)"):
        empirical_ntk(network, x, complete | {"1.bias": torch.ones(3)})
    with pytest.raises(NotPositiveDefiniteError, match="'1.bias', got an entry 0"):
        empirical_ntk(network, x, complete | {"1.bias": torch.zeros(4)})
