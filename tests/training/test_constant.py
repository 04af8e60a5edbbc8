"""The best constant prediction against closed forms, and what counts as better, as none, as collapsed."""

import math

import pytest
import torch

import covary
from covary.likelihoods import HeteroscedasticGaussian, Poisson
from covary.training.constant import (
    beats_constant,
    constant_log_likelihood,
    has_collapsed,
    is_constant,
    noise_notes,
    target_deviations,
)
from oracles.running import bernoulli_constant, categorical_constant, gaussian_constant


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("labels", [[0, 1, 2, 2], [0] * 7 + [1] * 2 + [2], list(range(10)) * 3])
def test_a_classification_has_the_class_frequencies(labels, temperature):
    num_outputs = max(labels) + 1
    found = constant_log_likelihood(covary.Categorical(temperature), torch.tensor(labels), (num_outputs,))
    assert found == pytest.approx(categorical_constant(labels), abs=1e-6)


def test_an_absent_class_has_no_part_in_it():
    """Its probability tends to zero: approached from below, to less than any decision needs."""
    labels = [0, 0, 1] * 20
    found = constant_log_likelihood(covary.Categorical(), torch.tensor(labels), (5,))
    assert categorical_constant(labels) - 1e-4 < found <= categorical_constant(labels)


def test_one_class_alone_is_certain():
    assert -1e-4 < constant_log_likelihood(covary.Categorical(), torch.zeros(9, dtype=torch.long), (2,)) <= 0


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_a_regression_has_the_mean(sigma, generator):
    y = 3 + torch.randn(50, 2, generator=generator)
    found = constant_log_likelihood(covary.Gaussian(sigma), y, (2,))
    assert found == pytest.approx(gaussian_constant(y, sigma), rel=1e-6)


def test_several_bits_have_their_frequencies(generator):
    y = (torch.rand(60, 3, generator=generator) < torch.tensor([0.1, 0.5, 0.8])).double()
    found = constant_log_likelihood(covary.Bernoulli(), y, (3,))
    assert found == pytest.approx(bernoulli_constant(y), abs=1e-6)


def test_counts_have_the_mean_rate():
    y = torch.tensor([[0.0], [1.0], [5.0], [2.0]])
    terms = [count * math.log(2.0) - 2.0 - math.lgamma(count + 1) for count in y.flatten().tolist()]
    assert constant_log_likelihood(Poisson(), y, (1,)) == pytest.approx(sum(terms) / 4, abs=1e-6)


def test_noise_that_is_an_output_is_fitted_too(generator):
    """Mean and variance of the targets: the log-density of a fitted normal distribution."""
    y = 1 + 0.5 * torch.randn(200, 1, generator=generator)
    expected = gaussian_constant(y, float(y.var(correction=0).sqrt()))
    assert constant_log_likelihood(HeteroscedasticGaussian(), y, (2,)) == pytest.approx(expected, abs=1e-5)


def test_labels_that_are_ignored_do_not_count():
    y = torch.tensor([0, 1, 1, -100, -100, -100])
    kept = categorical_constant([0, 1, 1]) * 3 / 6  # per datum, as a log-likelihood of training is
    found = constant_log_likelihood(covary.Categorical(ignore_index=-100), y, (2,))
    assert found == pytest.approx(kept, abs=1e-6)


def test_gradients_may_be_off_and_no_parameter_gets_one():
    likelihood = covary.Gaussian(0.5)
    with torch.no_grad():
        assert math.isfinite(constant_log_likelihood(likelihood, torch.randn(5, 1), (1,)))
    assert likelihood.log_sigma_noise.grad is None


def test_better_than_a_constant_is_a_tenth_of_a_nat():
    assert beats_constant(-2.1, -2.3026)
    assert not beats_constant(-2.25, -2.3026)
    assert not beats_constant(-math.inf, -2.3026)
    assert not beats_constant(math.nan, -2.3026)


def test_a_collapse_is_a_whole_series_of_epochs_without_a_gain():
    dead, alive = -2.3026, -2.2
    assert has_collapsed([alive, dead, dead], -2.3026, 2)
    assert not has_collapsed([dead, alive, dead], -2.3026, 2)
    assert not has_collapsed([dead], -2.3026, 2), "too few epochs to tell"
    assert has_collapsed([-5.0, -4.0], -2.3026, 2), "worse than a constant is no gain"
    assert has_collapsed([-2.3020], -2.3026, 1)
    assert not has_collapsed([-2.2990], -2.3026, 1)


def test_outputs_are_constant_up_to_rounding(generator):
    row = torch.randn(1, 3, generator=generator)
    assert is_constant(row.expand(5, -1))
    assert is_constant(row.expand(5, -1) * (1 + 1e-15 * torch.randn(5, 3, generator=generator)))
    assert not is_constant(row.expand(5, -1) + 1e-6 * torch.randn(5, 3, generator=generator))
    assert is_constant(torch.zeros(4, 2))


def test_the_deviation_of_each_target_is_over_data_and_positions(generator):
    x = torch.zeros(7, 1, dtype=torch.float64)
    for shape, expected in (((7,), [()]), ((7, 2), [(), ()]), ((7, 2, 3, 4), [(), ()])):
        y = torch.randn(shape, generator=generator, dtype=torch.float64)
        columns = y.reshape(7, len(expected), -1)
        means = [columns[:, c].sum() / columns[:, c].numel() for c in range(len(expected))]
        squares = [((columns[:, c] - mean) ** 2).sum() / columns[:, c].numel() for c, mean in enumerate(means)]
        means = y[:1].reshape(1, len(expected), *shape[2:])
        found = target_deviations(covary.as_batches((x, y), 3), means)
        assert found == pytest.approx([float(s) ** 0.5 for s in squares])


def test_a_large_noise_is_noted_and_a_small_one_is_not():
    assert noise_notes([0.49], [1.0]) == noise_notes([0.1, 0.2], [1.0, 1.0]) == noise_notes([], []) == []
    (note,) = noise_notes([0.51], [1.0])
    assert "0.51 of 1" in note
    (note,) = noise_notes([0.1, 2.0], [1.0, 3.0])
    assert "(2 of 3)" in note
    (note,) = noise_notes([1.0], [1.5, 9.0])
    assert "(1 of 1.5)" in note, "one noise for all targets"


def test_a_fit_that_explains_nothing_warns(generator):
    x, y = torch.randn(40, 2, generator=generator), torch.randn(40, 1, generator=generator)
    model = covary.Model(torch.nn.Linear(2, 1), covary.Gaussian())
    with pytest.warns(UserWarning, match="The learned noise is more than half"):
        run = covary.fit(model, (x, y), epochs=6, callbacks=())
    assert any("learned noise" in note for note in run.record.notes)
    assert run.record.target_std == pytest.approx([y.std(unbiased=False).item()])
