"""The two-pass gradient against the direct one, closed forms and central differences."""

import itertools
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

import covary
from cases import targets
from covary.batches import as_batches
from covary.curvature.passes import curvature_pass
from covary.errors import StructureError
from covary.hypergrad import direct, two_pass
from covary.hypergrad.two_pass import prior_gradient
from oracles.evidence import linear_gaussian_log_evidence, linear_gaussian_mode

STEP = 1e-6


class Sharpened(nn.Module):
    """A network with a hyperparameter of its own, the slope of its activation."""

    hyperparameters = ("slope",)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3), nn.Linear(8, 3)
        self.slope = nn.Parameter(torch.tensor(0.8))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.slope * self.first(x)).flatten(1))


def model(kind: str = "categorical", num_data: int = 7):
    """Every kind of hyperparameter at once: widths, a layer's slope, temperature or noise, prior precisions."""
    torch.manual_seed(0)
    network = covary.Averaged(Sharpened(), covary.augment.Affine2d(initial_width=0.2), 4)
    likelihood = covary.Gaussian(0.8) if kind == "gaussian" else covary.Categorical(1.2, learn_temperature=True)
    data = (torch.randn(num_data, 1, 4, 4), targets(kind, num_data))
    return network, likelihood, covary.Prior(network, precision=0.7), data


def named_hyperparameters(network, likelihood, prior) -> dict[str, nn.Parameter]:
    return {
        "augment.raw_widths": network.augment.raw_widths,
        "network.slope": network.network.slope,
        "prior.log_precision": prior.log_precision,
    } | {f"likelihood.{name}": p for name, p in likelihood.named_parameters()}


@pytest.mark.parametrize("gradient_of", [direct, two_pass])
def test_point_weights_are_constants_of_the_evidence(gradient_of):
    """The gradient is that of the network whose point weights are frozen, and has no entry for them."""
    network, likelihood, _, data = model()
    points = covary.Model(network, likelihood, covary.Prior(network, precision=0.7, point="network.first.*"))
    found = gradient_of(points, data)
    network.network.first.requires_grad_(False)
    expected = gradient_of(covary.Model(network, likelihood, covary.Prior(network, precision=0.7)), data)
    assert list(found) == list(expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-10, atol=1e-12, msg=name)
    torch.testing.assert_close(found.terms.log_evidence, expected.terms.log_evidence, rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
@pytest.mark.parametrize("probes", ["exact", 2])
@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_two_passes_equal_one_graph(curvature, probes, kind):
    if curvature == "full" and probes != "exact":
        probes = "exact"
    network, likelihood, prior, data = model(kind)
    one = direct(covary.Model(network, likelihood, prior), data, covary.Curvature(curvature, probes))
    two = two_pass(
        covary.Model(network, likelihood, prior),
        covary.as_batches(data, 3),
        covary.Curvature(curvature, probes),
        share_probes=True,
    )
    assert set(one) == set(two) == set(named_hyperparameters(network, likelihood, prior))
    for name, gradient in one.items():
        assert bool(gradient.abs().max() > 1e-4), "the test needs a gradient to see"
        torch.testing.assert_close(two[name], gradient, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(two.terms.log_evidence, one.terms.log_evidence, rtol=1e-12, atol=0)


@pytest.mark.parametrize("curvature", ["kron", "kron-traced", "full", "diag"])
def test_the_gradient_is_the_central_difference_of_the_evidence(curvature):
    network, likelihood, prior, data = model()
    gradient = two_pass(covary.Model(network, likelihood, prior), data, curvature)
    for name, parameter in named_hyperparameters(network, likelihood, prior).items():
        flat = parameter.data.view(-1)
        for i in range(flat.numel()):
            values = []
            for step in (STEP, -STEP):
                flat[i] += step
                values.append(
                    covary.log_evidence(covary.Model(network, likelihood, prior), data, curvature).log_evidence
                )
                flat[i] -= step
            expected = float(values[0] - values[1]) / (2 * STEP)
            assert float(gradient[name].view(-1)[i]) == pytest.approx(expected, rel=1e-6, abs=1e-6), f"{name}[{i}]"


def test_the_linear_gaussian_gradient_is_exact():
    torch.manual_seed(0)
    x, y = torch.randn(20, 3), torch.randn(20)
    network, likelihood = nn.Linear(3, 1, bias=False), covary.Gaussian(0.7)
    prior = covary.Prior(network, "scalar", 2.0)
    with torch.no_grad():
        network.weight.copy_(linear_gaussian_mode(x, y, 0.7, 2.0))
    log_sigma = torch.tensor(0.7).log().requires_grad_()
    log_precision = torch.tensor(2.0).log().requires_grad_()
    linear_gaussian_log_evidence(x, y, log_sigma.exp(), log_precision.exp()).backward()
    for curvature in ("kron", "full"):
        for gradient in (
            two_pass(covary.Model(network, likelihood, prior), (x, y[:, None]), curvature),
            direct(covary.Model(network, likelihood, prior), (x, y[:, None]), curvature),
        ):
            torch.testing.assert_close(gradient["prior.log_precision"][0], log_precision.grad, rtol=1e-8, atol=0)
            torch.testing.assert_close(gradient["likelihood.log_sigma_noise"], log_sigma.grad, rtol=1e-8, atol=0)


def test_part_of_the_data_in_the_second_pass_is_unbiased(monkeypatch):
    network, likelihood, prior, data = model(num_data=5)
    whole = two_pass(covary.Model(network, likelihood, prior), data, "kron")
    found = []
    for chosen in itertools.combinations(range(5), 2):  # every subset of two, equally likely
        order = torch.tensor(chosen + tuple(i for i in range(5) if i not in chosen))
        monkeypatch.setattr(covary.batches, "permutation", lambda seed, num, stream, order=order: order)
        found.append(two_pass(covary.Model(network, likelihood, prior), data, "kron", num_data=2))
    for name, gradient in whole.items():
        mean = torch.stack([gradient[name] for gradient in found]).mean(0)
        torch.testing.assert_close(mean, gradient, rtol=1e-9, atol=1e-11)
    assert any(not torch.allclose(found[0][name], whole[name], rtol=1e-3) for name in whole)


def test_probes_of_the_two_passes_are_independent_unless_shared():
    network, likelihood, prior, data = model()
    shared = two_pass(covary.Model(network, likelihood, prior), data, share_probes=True)
    independent = two_pass(covary.Model(network, likelihood, prior), data)
    assert not torch.equal(shared["augment.raw_widths"], independent["augment.raw_widths"])
    torch.testing.assert_close(shared["prior.log_precision"], independent["prior.log_precision"])


def test_grad_stays_as_it_is():
    network, likelihood, prior, data = model()
    for function in (direct, two_pass):
        function(covary.Model(network, likelihood, prior), data)
    everything = [*network.parameters(), *likelihood.parameters(), *prior.parameters()]
    assert all(parameter.grad is None for parameter in everything)


def test_the_gradient_works_inside_no_grad():
    network, likelihood, prior, data = model()
    with torch.no_grad():
        inside = two_pass(covary.Model(network, likelihood, prior), data, "kron")
    outside = two_pass(covary.Model(network, likelihood, prior), data, "kron")
    for name, gradient in outside.items():
        torch.testing.assert_close(inside[name], gradient)


def test_several_prior_steps_follow_one_pass():
    network, likelihood, prior, data = model()
    whole = covary.Model(network, likelihood, prior)
    with torch.no_grad():
        statistics = curvature_pass(whole, as_batches(data), covary.Curvature("kron"))
        prior.log_precision += 0.5
    stepped = prior_gradient(whole, statistics)
    fresh = two_pass(whole, data, "kron")
    torch.testing.assert_close(stepped["prior.log_precision"], fresh["prior.log_precision"], rtol=1e-10, atol=0)
    torch.testing.assert_close(stepped.terms.log_evidence, fresh.terms.log_evidence, rtol=1e-12, atol=0)


def test_priors_alone_need_no_second_pass(monkeypatch):
    network = nn.Linear(4, 3)
    data = (torch.randn(5, 4), targets("categorical", 5))
    monkeypatch.setattr(import_module("covary.hypergrad.two_pass"), "captured_chunks", None)
    gradient = two_pass(network, data, "kron")
    assert set(gradient) == {"prior.log_precision"}


@pytest.mark.parametrize("function", [direct, two_pass])
def test_the_kernel_is_sent_to_the_stochastic_bound(function):
    network, likelihood, prior, data = model()
    with pytest.raises(StructureError, match=r"hypergrad\.stochastic"):
        function(covary.Model(network, likelihood, prior), data, "kernel")
