"""Hyper steps: along which gradients they go, on which data, and what they leave alone."""

from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import covary
from covary.batches import as_batches
from covary.errors import NumericalError, StructureError
from covary.hypergrad.partition import partition_pass
from covary.training import bounds, hyper
from covary.training.ascent import climb
from covary.training.hyper import disjoint_sets, hyper_step, step_size
from covary.training.hyper_state import initial_hyper_state
from covary.training.schedule import EVALUATE, HYPER, seed_for
from covary.training.steps import evaluate
from covary.training.widths import EvidenceChange
from training_models import QUICK, RUNNING, averaged, points


def begun(network, prior, config=QUICK):
    """A state in which widths are learned."""
    state = initial_hyper_state(covary.Model(network, covary.Categorical(), prior), config)
    state.learning.begin(network, 1.0)
    state.num_data = 24
    return state


@pytest.fixture
def state():
    network = averaged()
    return begun(network, covary.Prior(network, precision=2.0))


def test_hyper_steps_leave_point_weights(state):
    prior = covary.Prior(state.network, point="network.1.bias")
    state = begun(state.network, prior)
    assert set(state.hyperparameters()) == {"augment.raw_widths", "prior.log_precision"}
    before = {name: weight.detach().clone() for name, weight in state.model.trained_weights.items()}
    state.num_seen = 2 * 24
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert all(torch.equal(before[name], weight) for name, weight in state.model.trained_weights.items())


def test_hyper_step_moves_by_the_rate_along_the_gradient_of_the_evidence(state):
    """Adam's first step is the rate times the sign of the gradient, which two_pass knows."""
    config = QUICK.replace(hyper={"num_prior_steps": 1, "num_data": None})
    x, y = points()
    state.num_seen = 2 * 24
    seed = seed_for(config.seed, HYPER, 0)
    # the step on the prior comes first: its gradient is that of the state as it is
    at_start = covary.hypergrad.two_pass(state.model, (x, y), seed=seed)
    before = {name: p.detach().clone() for name, p in state.hyperparameters().items()}
    record = hyper_step(state, as_batches((x, y), 8), config)
    moved = state.hyperparameters()
    step = moved["prior.log_precision"] - before["prior.log_precision"]
    rate = config.hyper.prior_lr
    assert torch.equal(step.sign(), at_start["prior.log_precision"].sign())
    torch.testing.assert_close(step.abs(), torch.full_like(step, rate), rtol=0.2, atol=0)
    assert record.log_evidence == pytest.approx(float(at_start.terms.log_evidence), rel=1e-12)
    assert not torch.equal(moved["augment.raw_widths"], before["augment.raw_widths"])


def test_hyper_steps_and_evaluation_may_take_more_samples(state):
    config = QUICK.replace(hyper={"num_samples": 7}, evaluation={"num_samples": 7})
    x, y = points()
    state.num_seen = 2 * 24
    many = state.network.with_samples(7)
    seed = seed_for(config.seed, HYPER, 0)
    expected = covary.hypergrad.two_pass(covary.Model(many, state.likelihood, state.prior), (x, y), seed=seed).terms
    evaluated = covary.log_evidence(
        covary.Model(many, state.likelihood, state.prior), (x, y), seed=seed_for(config.seed, EVALUATE)
    )
    assert evaluate(state, as_batches((x, y), 8), config).log_evidence == pytest.approx(float(evaluated.log_evidence))
    assert hyper_step(state, as_batches((x, y), 8), config).log_evidence == pytest.approx(float(expected.log_evidence))
    assert state.network.num_samples == 3


def test_hyper_step_leaves_weights_and_their_gradients_alone(state):
    weights = state.prior.weights(state.network)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    state.num_seen = 2 * 24
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert all(torch.equal(before[name], weight) for name, weight in weights.items())
    assert all(weight.grad is None for weight in weights.values())


def test_the_bound_takes_its_copies_in_one_even_set(state, monkeypatch):
    """Two independent sets are for Kronecker factors; without them they would only add noise."""
    seen = []

    def spy(model, *arguments, **named):
        seen.append((model.network.num_samples, model.network.num_sets))
        return covary.hypergrad.stochastic(model, *arguments, **named)

    monkeypatch.setattr(bounds, "stochastic", spy)
    config = QUICK.replace(hyper={"estimator": "stochastic", "num_samples": 6, "num_sets": 2, "num_steps": 1})
    hyper_step(state, as_batches(points(), 8), config)
    assert seen == [(6, 1)]


@pytest.mark.parametrize("hyper_data", [None, 10])
def test_stochastic_estimator_moves_everything(state, hyper_data):
    config = QUICK.replace(hyper={"estimator": "stochastic", "num_data": hyper_data})
    before = {name: p.detach().clone() for name, p in state.hyperparameters().items()}
    state.num_seen = 2 * 24
    record = hyper_step(state, as_batches(points(), 8), config)
    assert record.curvature == "kernel"
    assert all(not torch.equal(before[name], p) for name, p in state.hyperparameters().items())


def test_the_kernel_estimator_moves_everything_and_raises_its_bound(state):
    config = QUICK.replace(hyper={"estimator": "kernel", "num_prior_steps": 10, "num_data": 5})
    batches = as_batches(points(), 8)
    before = {name: p.detach().clone() for name, p in state.hyperparameters().items()}
    bounds = [evaluate(state, batches, config)]
    for epoch in range(2, 8):
        state.num_seen = epoch * 24
        hyper_step(state, batches, config)
    bounds.append(evaluate(state, batches, config))
    assert bounds[1].log_evidence > bounds[0].log_evidence
    assert all(
        (bound.curvature, bound.probes, bound.num_data) == ("kernel", "one output, blocks of 5", 24) for bound in bounds
    )
    assert all(not torch.equal(before[name], p) for name, p in state.hyperparameters().items())


def test_the_kernel_estimator_takes_its_copies_in_one_even_set(state, monkeypatch):
    seen = []

    def spy(model, *arguments, **named):
        seen.append((model.network.num_samples, model.network.num_sets))
        return partition_pass(model, *arguments, **named)

    monkeypatch.setattr(bounds, "partition_pass", spy)
    config = QUICK.replace(hyper={"estimator": "kernel", "num_samples": 6, "num_sets": 2})
    hyper_step(state, as_batches(points(), 8), config)
    assert seen == [(6, 1)]


def test_a_gradient_that_is_not_finite_is_an_error_and_moves_nothing(state):
    parameters = state.hyperparameters()
    before = parameters["augment.raw_widths"].detach().clone()
    with pytest.raises(NumericalError, match="augment.raw_widths"):
        climb(parameters, state.optimizer, {"augment.raw_widths": torch.tensor([float("nan")])})
    assert torch.equal(parameters["augment.raw_widths"], before)


def test_a_width_gradient_that_is_not_finite_is_an_error_and_moves_nothing(state, monkeypatch):
    found = hyper.model_gradient

    def spoiled(*arguments, **named):
        second = found(*arguments, **named)
        return second._replace(gradients={name: g * float("inf") for name, g in second.gradients.items()})

    monkeypatch.setattr(hyper, "model_gradient", spoiled)
    before = state.network.augment.widths.tolist()
    with pytest.raises(NumericalError, match="augment.raw_widths"):
        hyper_step(state, as_batches(points(), 8), QUICK)
    assert state.network.augment.widths.tolist() == before


def identities(batches) -> list[int]:
    return [int(entry) for batch in batches for entry in batch.identity]


@pytest.mark.parametrize("config", [QUICK, QUICK.replace(hyper={"num_data": None, "num_steps": 5}), RUNNING])
def test_steps_of_a_hyper_step_read_disjoint_data(config):
    """What makes the variance of their gradients that of data, for minibatches of any size."""
    sets = disjoint_sets(as_batches(points(), 8), config, 24, 3)
    size, read = step_size(config, 24), [identities(part) for part in sets]
    assert len(read) == config.hyper.num_steps + 1
    assert all(len(part) == size for part in read)
    steps = [entry for part in read[:-1] for entry in part]
    assert len(set(steps)) == len(steps) == config.hyper.num_steps * size
    if (config.hyper.num_steps + 1) * size <= 24:
        assert not set(read[-1]) & set(steps), "a move is tested on data that it was not computed from"
    other = [identities(part) for part in disjoint_sets(as_batches(points(), 8), config, 24, 4)]
    assert read != other


@pytest.mark.parametrize("batch_size", [1, 3, 24])
def test_an_iterable_of_batches_is_divided_among_the_steps(batch_size):
    loader = DataLoader(TensorDataset(*points()), batch_size=batch_size)
    config = QUICK.replace(hyper={"num_data": None, "num_steps": 4})
    sets = disjoint_sets(as_batches(loader), config, 24, 0)
    assert [identities(part) for part in sets[:4]] == [list(range(first, 24, 4)) for first in range(4)]


def test_fewer_data_than_steps_are_read_again():
    config = QUICK.replace(hyper={"num_data": None, "num_steps": 5})
    assert step_size(config, 3) == 1
    sets = disjoint_sets(as_batches(points(3), 8), config, 3, 0)
    assert [len(identities(part)) for part in sets] == [1] * 6


@pytest.mark.parametrize("estimator", ["running", "two_pass"])
def test_one_step_has_no_variance_and_is_refused_where_an_augmentation_is_learned(estimator):
    config = QUICK.replace(hyper={"estimator": estimator, "num_steps": 1})
    with pytest.raises(StructureError, match=r"'hyper.num_steps' to be at least 2, got 1"):
        covary.fit(averaged(), points(), config, callbacks=())
    network = averaged()
    network.augment.requires_grad_(False)
    assert covary.fit(network, points(), config.replace(epochs=2), callbacks=()).evidence is not None


def test_adam_takes_a_step_per_minibatch_and_undoes_none(state, monkeypatch):
    """As in paper 1: the first step is the learning rate, whatever the size of the gradient, and bounded."""
    monkeypatch.setattr(hyper, "evidence_change", lambda *_: EvidenceChange(-1.0, 0.1))
    config = QUICK.replace(hyper={"width_optimizer": "adam", "num_steps": 1})
    before = state.network.augment.raw_widths.detach().clone()
    hyper_step(state, as_batches(points(), 8), config)
    change = (state.network.augment.raw_widths.detach() - before).abs()
    torch.testing.assert_close(change, torch.full_like(change, 0.1), rtol=1e-4, atol=0)
    assert (state.learning.num_undone, state.learning.fisher) == (0, [])
    state.learning.max_change = 1e-3
    width = state.network.augment.widths.item()
    hyper_step(state, as_batches(points(), 8), config)
    assert abs(state.network.augment.widths.item() - width) <= 1e-3 * (1 + 1e-4)


def test_a_part_of_zero_leaves_the_widths(state):
    config = QUICK.replace(hyper={"width_lr": 0.0})
    before = state.network.augment.widths.tolist()
    hyper_step(state, as_batches(points(), 8), config)
    assert state.network.augment.widths.tolist() == before
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert state.network.augment.widths.tolist() != before, "the control: the default moves it"


@pytest.mark.parametrize("estimator", ["running", "two_pass", "kernel", "stochastic"])
def test_widths_stay_before_they_are_learned_and_afterwards(state, estimator):
    config = RUNNING.replace(hyper={"estimator": estimator})
    state.learning.begun = None
    before = state.network.augment.raw_widths.detach().clone()
    precision = state.prior.log_precision.detach().clone()
    hyper_step(state, as_batches(points(), 8), config)
    assert torch.equal(state.network.augment.raw_widths, before)
    state.learning.begun, state.learning.ended = 0.0, 1.0
    hyper_step(state, as_batches(points(), 8), config)
    assert torch.equal(state.network.augment.raw_widths, before)
    assert state.network.augment.raw_widths.requires_grad
    assert not torch.equal(state.prior.log_precision, precision), "the prior is learned all the same"


@pytest.mark.parametrize("estimator", ["running", "two_pass", "kernel", "stochastic"])
def test_no_width_moves_by_more_than_the_bound_in_a_hyper_step(state, estimator):
    config = RUNNING.replace(
        hyper={"estimator": estimator, "max_width_change": 1e-3, "augment_lr": 5.0, "augment_lr_min": 5.0}
    )
    state.learning.max_change = 1e-3
    widths = [state.network.augment.widths.item()]
    for _ in range(3):
        hyper_step(state, as_batches(points(), 8), config)
        widths.append(state.network.augment.widths.item())
    changes = [abs(after - before) for before, after in pairwise(widths)]
    assert max(changes) <= 1e-3 * (1 + 1e-4)
    assert max(changes) > 0
    assert state.learning.num_steps == 3
    assert state.learning.widths[1:] == [[width] for width in widths[1:]]


def test_a_move_that_lowers_the_evidence_is_undone_and_the_bound_halved(state, monkeypatch):
    monkeypatch.setattr(hyper, "evidence_change", lambda *_: EvidenceChange(-1.0, 0.1))
    before = state.network.augment.raw_widths.detach().clone()
    first = state.learning.max_change
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert torch.equal(state.network.augment.raw_widths, before)
    assert (state.learning.max_change, state.learning.num_undone) == (first / 2, 1)
    monkeypatch.setattr(hyper, "evidence_change", lambda *_: EvidenceChange(1.0, 0.1))
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert not torch.equal(state.network.augment.raw_widths, before)
    assert (state.learning.max_change, state.learning.num_undone) == (0.75 * first, 1)
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert state.learning.max_change == first, "it grows back, and no further"
