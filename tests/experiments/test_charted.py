"""Curvature in other coordinates against dense derivatives there."""

import pytest
import torch
from torch.func import jacfwd, jacrev

import covary
from covary import geometry
from covary.experiments.charted import InChart, aware
from covary.networks import mlp


def averaged(num_samples: int):
    network = mlp(16, 3, 2, generator=torch.Generator().manual_seed(0))
    augment = covary.augment.Affine2d(initial_width=0.2)
    return covary.Averaged(network, augment, num_samples) if num_samples else network


def in_polar(network):
    weights = covary.Prior(network).weights(network)
    return InChart(network, weights, geometry.network_chart(weights, {"*.weight": geometry.polar_of}))


@pytest.mark.parametrize("num_samples", [0, 3])
def test_the_function_is_the_network(num_samples):
    network = averaged(num_samples)
    charted, x = in_polar(network), torch.randn(4, 1, 4, 4)
    arguments = {"index": torch.arange(3, 7), "seed": 5} if num_samples else {}
    torch.testing.assert_close(charted(x, **arguments), network(x, **arguments))
    assert isinstance(charted, covary._types.SampleAveraging) == bool(num_samples)


@pytest.mark.parametrize("make", [geometry.loss_hessian, geometry.gauss_newton])
def test_products_are_those_of_the_chart(make):
    network = averaged(0)
    charted, x, y = in_polar(network), torch.randn(6, 1, 4, 4), torch.arange(6) % 2
    likelihood, psi = covary.Categorical(), charted.psi.detach()

    def outputs(psi):
        return torch.func.functional_call(charted, {"psi": psi}, (x,))

    if make is geometry.loss_hessian:
        expected = jacfwd(jacrev(lambda psi: -likelihood.log_prob(outputs(psi), y)))(psi)
    else:
        jacobian, f = jacrev(outputs)(psi), outputs(psi)
        curvature = torch.stack([torch.diag(p) - torch.outer(p, p) for p in f.softmax(1)])
        expected = torch.einsum("ncp,ncd,ndq->pq", jacobian, curvature, jacobian)
    found = make(charted, likelihood, (x, y), weights=["psi"])
    torch.testing.assert_close(found.to_dense(), expected.detach(), rtol=1e-9, atol=1e-9)


def test_a_metric_that_is_carried_along_leaves_the_spectrum():
    network = averaged(0)
    charted, data = in_polar(network), (torch.randn(6, 1, 4, 4), torch.arange(6) % 2)
    metric = 0.5 + torch.rand(len(charted.psi), generator=torch.Generator().manual_seed(0))
    there = geometry.gauss_newton(charted, covary.Categorical(), data, weights=["psi"])
    here = geometry.gauss_newton(network, covary.Categorical(), data)
    expected = torch.linalg.eigvals(here.to_dense() / metric[:, None]).real.sort().values
    found = torch.linalg.eigvalsh(aware(there, charted, metric).to_dense())
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)
    naive = torch.linalg.eigvalsh(there.to_dense())  # the control
    assert (naive[-1] / torch.linalg.eigvalsh(here.to_dense())[-1] - 1).abs() > 0.01
