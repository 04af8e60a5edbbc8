"""What all likelihoods have in common, against torch.distributions and Hessians."""

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from covary.errors import CovaryError, DataError, ShapeError
from covary.likelihoods import Bernoulli, Categorical, Gaussian, HeteroscedasticGaussian, Likelihood, Poisson
from oracles import likelihoods as oracle

LIKELIHOODS = {
    "categorical": Categorical(1.7, learn_temperature=True),
    "gaussian": Gaussian(0.6),
    "gaussian of several": Gaussian([0.6, 1.1, 0.2, 3.0]),
    "bernoulli": Bernoulli(),
    "poisson": Poisson(),
    "heteroscedastic": HeteroscedasticGaussian(),
}
ORACLES = {
    "categorical": lambda f, y: oracle.categorical(f, y, 1.7),
    "gaussian": lambda f, y: oracle.gaussian(f, y, 0.6),
    "gaussian of several": lambda f, y: oracle.gaussian(f, y, torch.tensor([0.6, 1.1, 0.2, 3.0])),
    "bernoulli": oracle.bernoulli,
    "poisson": oracle.poisson,
    "heteroscedastic": oracle.heteroscedastic,
}
BOUNDED = ("categorical", "gaussian", "bernoulli")  # whose values are finite for all outputs


def example(name, generator, num_data=5, num_outputs=4):
    outputs = 2 * torch.randn(num_data, num_outputs, generator=generator)
    targets = {
        "categorical": torch.randint(num_outputs, (num_data,), generator=generator),
        "gaussian": torch.randn(num_data, num_outputs, generator=generator),
        "bernoulli": torch.randint(2, (num_data, num_outputs), generator=generator).double(),
        "poisson": torch.randint(9, (num_data, num_outputs), generator=generator),
        "heteroscedastic": torch.randn(num_data, num_outputs // 2, generator=generator),
    }
    return outputs, targets.get(name, targets["gaussian"])


def curvature(likelihood, outputs):
    """Λ from the columns of its root."""
    num_outputs = outputs.shape[1]
    columns = [likelihood.root_product(outputs, e.expand_as(outputs)) for e in torch.eye(num_outputs).to(outputs)]
    return sum(torch.einsum("ni,nj->nij", column, column) for column in columns)


each = pytest.mark.parametrize("name", LIKELIHOODS)


@each
def test_is_a_likelihood_that_accepts_its_own_targets(name, generator):
    assert isinstance(LIKELIHOODS[name], Likelihood)
    LIKELIHOODS[name].check(*example(name, generator))


@each
def test_log_prob_is_the_sum_of_torch_distributions(name, generator):
    outputs, targets = example(name, generator)
    expected = ORACLES[name](outputs, targets)
    torch.testing.assert_close(LIKELIHOODS[name].log_prob_each(outputs, targets), expected)
    torch.testing.assert_close(LIKELIHOODS[name].log_prob(outputs, targets), expected.sum())


@each
def test_columns_of_the_root_give_the_hessian(name, generator):
    outputs, targets = example(name, generator)
    expected = oracle.curvature(ORACLES[name], outputs, targets)
    if name == "heteroscedastic":
        expected = oracle.heteroscedastic_fisher(outputs)
    torch.testing.assert_close(curvature(LIKELIHOODS[name], outputs), expected)


@each
def test_random_probes_average_to_the_curvature_over_all_signs(name, generator):
    outputs, _ = example(name, generator)
    sketches = [LIKELIHOODS[name].root_product(outputs, e.expand_as(outputs)) for e in oracle.all_signs(4)]
    average = sum(torch.einsum("ni,nj->nij", sketch, sketch) for sketch in sketches) / len(sketches)
    torch.testing.assert_close(average, curvature(LIKELIHOODS[name], outputs))


@each
def test_gradients_in_outputs_epsilon_and_hyperparameters(name, generator):
    likelihood = LIKELIHOODS[name]
    outputs, targets = example(name, generator)
    epsilon = torch.randn(outputs.shape, generator=generator)
    inputs = [outputs.requires_grad_(), epsilon.requires_grad_(), *likelihood.parameters()]
    for check in (gradcheck, gradgradcheck):
        assert check(lambda f, e, *_: likelihood.root_product(f, e), inputs)
        assert check(lambda f, e, *_: likelihood.log_prob(f, targets), inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [40.0, 690.8, 1000.0])
@pytest.mark.parametrize("name", BOUNDED)
def test_confident_outputs_give_finite_values_and_gradients(name, size, dtype):
    likelihood = LIKELIHOODS[name]
    outputs = torch.tensor([[size, 0, -size], [-size, size, size]], dtype=dtype, requires_grad=True)
    targets = {
        "categorical": torch.tensor([0, 0]),
        "gaussian": torch.zeros(2, 3, dtype=dtype),
        "bernoulli": torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype),
    }
    likelihood.check(outputs, targets[name])
    values = [
        likelihood.root_product(outputs, torch.ones_like(outputs)).sum(),
        likelihood.log_prob(outputs, targets[name]),
    ]
    for value in values:
        (gradient,) = torch.autograd.grad(value, outputs, create_graph=True, materialize_grads=True)
        assert value.dtype == dtype
        assert value.isfinite()
        assert gradient.isfinite().all()
        if gradient.requires_grad:
            second = torch.autograd.grad(gradient.square().sum(), outputs, materialize_grads=True)
            assert second[0].isfinite().all()


def test_the_square_root_of_probabilities_would_give_nan():
    """The control: the formula that `root_product` avoids."""
    outputs = torch.tensor([[2000.0, 0.0]], requires_grad=True)
    assert torch.autograd.grad(outputs.softmax(-1).sqrt().sum(), outputs)[0].isnan().any()


def test_mean(generator):
    outputs, _ = example("gaussian", generator)
    torch.testing.assert_close(Categorical(1.7).mean(outputs), (outputs / 1.7).softmax(-1))
    assert Gaussian().mean(outputs) is outputs
    torch.testing.assert_close(Bernoulli().mean(outputs), outputs.sigmoid())
    torch.testing.assert_close(Poisson().mean(outputs), outputs.exp())
    torch.testing.assert_close(HeteroscedasticGaussian().mean(outputs), outputs[:, :2])
    torch.testing.assert_close(HeteroscedasticGaussian().noise_variance(outputs), outputs[:, 2:].exp().square())
    several = LIKELIHOODS["gaussian of several"]
    torch.testing.assert_close(several.noise_variance(outputs), several.sigma_noise.square().detach())


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Bernoulli()], ids=["gaussian", "bernoulli"])
def test_one_output_takes_flat_targets(likelihood, generator):
    outputs = torch.randn(6, 1, generator=generator)
    targets = torch.randint(2, (6,), generator=generator).double()
    likelihood.check(outputs, targets)
    likelihood.check(outputs, targets[:, None])
    flat, column = (likelihood.log_prob_each(outputs, y) for y in (targets, targets[:, None]))
    torch.testing.assert_close(flat, column, rtol=0, atol=0)


def test_learned_parameters_require_grad_and_are_exact():
    assert not Categorical().log_temperature.requires_grad
    assert Categorical(learn_temperature=True).log_temperature.requires_grad
    assert Gaussian().log_sigma_noise.requires_grad
    assert not Gaussian(learn_sigma_noise=False).log_sigma_noise.requires_grad
    assert Gaussian(0.3).sigma_noise.item() == pytest.approx(0.3, rel=1e-15)
    assert Categorical(2.5).temperature.item() == pytest.approx(2.5, rel=1e-15)
    torch.set_default_dtype(torch.float32)
    assert Gaussian(0.3).sigma_noise.item() == pytest.approx(0.3, rel=1e-15)


def test_temperature_is_normalized(generator):
    outputs, _ = example("categorical", generator)
    total = sum(Categorical(3.0).log_prob_each(outputs, torch.full((5,), k)).exp() for k in range(4))
    torch.testing.assert_close(total, torch.ones(5))


F = torch.zeros(3, 2, dtype=torch.float64)
INDICES = torch.zeros(3, dtype=torch.int64)
BAD = [
    (Categorical(), torch.zeros(3), INDICES, ShapeError, r"\(N, C\), got \(3,\)"),
    (Categorical(), torch.zeros(3, 2, dtype=torch.int64), INDICES, DataError, "floating, got torch.int64"),
    (Categorical(), F * math.nan, INDICES, DataError, "got 6 of 6 NaN"),
    (Categorical(), F, F[:, 0], DataError, "class indices of dtype torch.int64 .*got torch.float64.*covary.Gaussian"),
    (Categorical(), F, INDICES.int(), DataError, r"targets\.long\(\)"),
    (Categorical(), F, INDICES[:2], ShapeError, r"shape \(3,\) for Categorical, got \(2,\)"),
    (Categorical(), F, INDICES[:, None], ShapeError, r"got \(3, 1\)"),
    (Categorical(), F, INDICES + 2, DataError, "Class 2 is out of range: .*the network has 2 outputs"),
    (Categorical(), F, INDICES - 1, DataError, "Class -1 is out of range: expected 0 to 1"),
    (Categorical(), F[:, :1], INDICES, ShapeError, r"two outputs or more .*got 1\. Use Bernoulli\(\) .*Gaussian\(\)"),
    (Gaussian(), F, torch.zeros(3), ShapeError, r"\(3, 2\) for Gaussian, got \(3,\)"),
    (Gaussian(), F[:, :1], torch.zeros(3, 2), ShapeError, r"\(3, 1\) or \(3,\) for Gaussian, got \(3, 2\)"),
    (Gaussian(), F, torch.zeros(3, 2, dtype=torch.float32), DataError, r"targets\.to\(torch\.float64\)"),
    (Gaussian(), F, F + math.inf, DataError, "Targets must be finite, got 6 of 6"),
    (Bernoulli(), F, F + 0.5, DataError, "0 or 1 .*got 0.5"),
    (Bernoulli(), F, F.float(), DataError, "dtype of the outputs .*torch.float64, got torch.float32"),
    (Gaussian(), F, F.long(), DataError, "dtype of the outputs .*torch.float64, got torch.int64"),
    (Gaussian([1.0, 2.0, 3.0]), F, F, ShapeError, r"\(N, 3\), one for each sigma_noise, got \(3, 2\)"),
    (Poisson(), F, F - 1, DataError, "whole numbers from 0 on, got -1"),
    (Poisson(), F, F + 0.5, DataError, "whole numbers from 0 on, got 0.5"),
    (Poisson(), F + 800, F, DataError, "expected counts that are finite numbers for Poisson, got e.800"),
    (HeteroscedasticGaussian(), F[:, :1], F[:, :1], ShapeError, "an even number of outputs .*got 1"),
    (HeteroscedasticGaussian(), F, F, ShapeError, r"shape \(3, 1\) or \(3,\) for HeteroscedasticGaussian"),
    (HeteroscedasticGaussian(), F - 400, F[:, 0], DataError, "variances and their inverses .* e.800"),
    (Bernoulli(), F, torch.zeros(2, 2), ShapeError, r"got \(2, 2\)"),
]


@pytest.mark.parametrize(("likelihood", "outputs", "targets", "error", "message"), BAD)
def test_invalid_inputs(likelihood, outputs, targets, error, message):
    with pytest.raises(error, match=message) as caught:
        likelihood.check(outputs, targets)
    assert isinstance(caught.value, CovaryError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_scales_must_be_positive(value):
    with pytest.raises(DataError, match="sigma_noise must be finite and above 0"):
        Gaussian(value)
    with pytest.raises(DataError, match="temperature must be finite and above 0"):
        Categorical(value)


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "categorical"])
def test_positions_are_flattened_or_not(name, generator):
    """Outputs (N, C, ...) of an image or a sequence, as networks return them and as curvature reads them."""
    outputs, targets = torch.randn(3, 4, 2, 3, generator=generator), torch.ones(3, 4, 2, 3)
    if name == "heteroscedastic":
        targets = targets[:, :2]
    likelihood = LIKELIHOODS[name]
    flat, epsilon = outputs.flatten(1), torch.randn(3, 24, generator=generator)
    for f in (outputs, flat):
        likelihood.check(f, targets)
        torch.testing.assert_close(
            likelihood.log_prob_each(f, targets), likelihood.log_prob_each(outputs, targets), rtol=0, atol=0
        )
        product = likelihood.root_product(f, epsilon.reshape(f.shape))
        torch.testing.assert_close(product.flatten(1), likelihood.root_product(flat, epsilon), rtol=0, atol=0)
    if name.startswith("gaussian"):
        log_probs = [ORACLES[name](f, torch.ones(3, 4)) for f in outputs.flatten(2).unbind(-1)]
        torch.testing.assert_close(likelihood.log_prob_each(outputs, targets), sum(log_probs))
    with pytest.raises(ShapeError, match="for "):
        likelihood.check(outputs, targets.transpose(2, 3))


@pytest.mark.parametrize("likelihood", [Bernoulli(), Poisson()], ids=["bernoulli", "poisson"])
def test_counts_and_binary_targets_may_be_integers(likelihood, generator):
    outputs, targets = torch.randn(6, 1, generator=generator), torch.randint(2, (6,), generator=generator)
    likelihood.check(outputs, targets)
    whole, real = (likelihood.log_prob(outputs, y) for y in (targets, targets.double()))
    torch.testing.assert_close(whole, real, rtol=0, atol=0)
