"""Steps against gradients taken of the whole objective at once, by autograd."""

import pytest
import torch

import covary
from covary.batches import IndexedBatch, as_batches
from covary.errors import NumericalError, StructureError
from covary.hypergrad.partition import partition_pass
from covary.training import steps
from covary.training.schedule import EVALUATE, HYPER, WEIGHTS, seed_for
from covary.training.state import initial_state
from covary.training.steps import _climb, evaluate, hyper_step, weight_step
from training_models import QUICK, averaged, points


@pytest.fixture
def state():
    network = averaged()
    return initial_state(network, covary.Categorical(), covary.Prior(network, precision=2.0), QUICK)


def test_weight_step_descends_minus_the_log_joint_per_datum(state):
    x, y = points()
    index = torch.arange(8)
    seed = seed_for(QUICK.seed, WEIGHTS, 0)
    weights = state.prior.weights(state.network)
    log_likelihood = state.likelihood.log_prob(state.network(x[:8], index, seed=seed), y[:8])
    objective = log_likelihood / 8 + state.prior.log_density(weights) / 24
    expected = torch.autograd.grad(-objective, list(weights.values()))
    weight_step(state, IndexedBatch(x[:8], y[:8], index), 8, 24, QUICK)
    for (name, weight), gradient in zip(weights.items(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-10, atol=1e-12, msg=name)
    assert state.log_likelihood == pytest.approx(float(log_likelihood.detach()), rel=1e-12)
    assert (state.step, state.num_seen) == (1, 8)


def test_point_weights_descend_minus_the_log_joint_too(state):
    """Their log-density has the fixed precision, and their gradient is that of the whole objective at once."""
    prior = covary.Prior(state.network, precision={"network.1.*": 5.0, "*": 2.0}, point="network.1.*")
    state = initial_state(state.network, state.likelihood, prior, QUICK)
    x, y = points()
    index, seed = torch.arange(8), seed_for(QUICK.seed, WEIGHTS, 0)
    weights = dict(state.network.network.named_parameters(prefix="network"))
    log_likelihood = state.likelihood.log_prob(state.network(x[:8], index, seed=seed), y[:8])
    precisions = {name: 5.0 if name.startswith("network.1.") else 2.0 for name in weights}
    penalty = sum(precisions[name] * weight.square().sum() / 2 for name, weight in weights.items())
    expected = torch.autograd.grad(penalty / 24 - log_likelihood / 8, list(weights.values()))
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    weight_step(state, IndexedBatch(x[:8], y[:8], index), 8, 24, QUICK)
    for (name, weight), gradient in zip(weights.items(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-10, atol=1e-12, msg=name)
        assert not torch.equal(weight, before[name])


def test_hyper_steps_leave_point_weights(state):
    prior = covary.Prior(state.network, point="network.1.bias")
    state = initial_state(state.network, state.likelihood, prior, QUICK)
    assert set(state.hyperparameters()) == {"augment.raw_widths", "prior.log_precision"}
    before = {name: weight.detach().clone() for name, weight in state.model.trained_weights.items()}
    state.epoch = 2
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert all(torch.equal(before[name], weight) for name, weight in state.model.trained_weights.items())


def test_a_long_gradient_is_shortened_and_keeps_its_direction(state):
    x, y = points(8)
    batch = IndexedBatch(x, y, torch.arange(8))
    weights = list(state.prior.weights(state.network).values())
    before = [weight.detach().clone() for weight in weights]
    weight_step(state, batch, 8, 8, QUICK)
    long = torch.cat([weight.grad.flatten() for weight in weights])
    with torch.no_grad():
        for weight, value in zip(weights, before, strict=True):
            weight.copy_(value)
    state.step = 0
    weight_step(state, batch, 8, 8, QUICK.replace(weights={"max_grad_norm": float(long.norm()) / 5}))
    short = torch.cat([weight.grad.flatten() for weight in weights])
    torch.testing.assert_close(short, long / 5, rtol=1e-4, atol=0)


def test_a_weight_step_moves_weights_alone(state):
    before = {name: p.detach().clone() for name, p in state.hyperparameters().items()}
    x, y = points(8)
    weight_step(state, IndexedBatch(x, y, torch.arange(8)), 8, 8, QUICK)
    assert all(torch.equal(before[name], p) for name, p in state.hyperparameters().items())


def test_hyper_step_moves_by_the_rate_along_the_gradient_of_the_evidence(state):
    """Adam's first step is the rate times the sign of the gradient, which two_pass knows."""
    config = QUICK.replace(hyper={"num_prior_steps": 1, "num_steps": 1, "num_data": None})
    x, y = points()
    state.epoch = 2
    seed = seed_for(config.seed, HYPER, 2)
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
    config = QUICK.replace(hyper={"num_samples": 7})
    x, y = points()
    state.epoch = 2
    many = state.network.with_samples(7)
    seed = seed_for(config.seed, HYPER, 2)
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
    state.epoch = 2
    hyper_step(state, as_batches(points(), 8), QUICK)
    assert all(torch.equal(before[name], weight) for name, weight in weights.items())
    assert all(weight.grad is None for weight in weights.values())


def test_evaluation_share_their_noise(state):
    batches = as_batches(points(), 8)
    state.epoch = 1
    first = evaluate(state, batches, QUICK)
    state.epoch = 3
    assert evaluate(state, batches, QUICK) == first
    terms = covary.log_evidence(state.model, points(), seed=seed_for(QUICK.seed, EVALUATE))
    assert first.log_evidence == pytest.approx(float(terms.log_evidence), rel=1e-12)
    assert first.probes == "exact"


def test_the_bound_takes_its_copies_in_one_even_set(state, monkeypatch):
    """Two independent sets are for Kronecker factors; without them they would only add noise."""
    seen = []

    def spy(model, *arguments, **named):
        seen.append((model.network.num_samples, model.network.num_sets))
        return covary.hypergrad.stochastic(model, *arguments, **named)

    monkeypatch.setattr(steps, "stochastic", spy)
    config = QUICK.replace(hyper={"estimator": "stochastic", "num_samples": 6, "num_sets": 2, "num_steps": 1})
    hyper_step(state, as_batches(points(), 8), config)
    assert seen == [(6, 1)]


@pytest.mark.parametrize("hyper_data", [None, 10])
def test_stochastic_estimator_moves_everything(state, hyper_data):
    config = QUICK.replace(hyper={"estimator": "stochastic", "num_data": hyper_data})
    before = {name: p.detach().clone() for name, p in state.hyperparameters().items()}
    state.epoch = 2
    record = hyper_step(state, as_batches(points(), 8), config)
    assert record.curvature == "kernel"
    assert all(not torch.equal(before[name], p) for name, p in state.hyperparameters().items())


def test_the_kernel_estimator_moves_everything_and_raises_its_bound(state):
    config = QUICK.replace(hyper={"estimator": "kernel", "num_prior_steps": 10, "num_data": 5})
    batches = as_batches(points(), 8)
    before = {name: p.detach().clone() for name, p in state.hyperparameters().items()}
    bounds = [evaluate(state, batches, config)]
    for epoch in range(2, 8):
        state.epoch = epoch
        hyper_step(state, batches, config)
    bounds.append(evaluate(state, batches, config))
    assert bounds[1].log_evidence > bounds[0].log_evidence
    assert all(
        (bound.curvature, bound.probes, bound.num_data) == ("kernel", "one output, blocks of 5", 24) for bound in bounds
    )
    assert all(not torch.equal(before[name], p) for name, p in state.hyperparameters().items())


@pytest.mark.parametrize("hyper_data", [5, 24, 100, None])
def test_the_kernel_estimator_reads_every_datum_once_in_blocks(state, monkeypatch, hyper_data):
    blocks: list[list[int]] = []

    def spy(model, batches, parts, **named):
        blocks.extend(part.tolist() for part in parts)
        return partition_pass(model, batches, parts, **named)

    monkeypatch.setattr(steps, "partition_pass", spy)
    record = evaluate(
        state, as_batches(points(), 8), QUICK.replace(hyper={"estimator": "kernel", "num_data": hyper_data})
    )
    assert sorted(position for block in blocks for position in block) == list(range(24))
    assert max(map(len, blocks)) == min(hyper_data or 100, 24)
    exact = covary.log_evidence(state.model, points(), seed=seed_for(0, EVALUATE))
    assert record.log_likelihood == pytest.approx(float(exact.log_likelihood), rel=1e-12)


def test_the_kernel_estimator_takes_its_copies_in_one_even_set(state, monkeypatch):
    seen = []

    def spy(model, *arguments, **named):
        seen.append((model.network.num_samples, model.network.num_sets))
        return partition_pass(model, *arguments, **named)

    monkeypatch.setattr(steps, "partition_pass", spy)
    config = QUICK.replace(hyper={"estimator": "kernel", "num_samples": 6, "num_sets": 2})
    hyper_step(state, as_batches(points(), 8), config)
    assert seen == [(6, 1)]


def test_augerino_follows_its_objective(state):
    config = QUICK.replace(hyper={"estimator": "augerino", "augment_lr": 0.005})
    x, y = points(8)
    index, seed = torch.arange(8), seed_for(config.seed, WEIGHTS, 0)
    raw = state.network.augment.raw_widths
    log_likelihood = state.likelihood.log_prob(state.network(x, index, seed=seed), y)
    objective = log_likelihood / 8 + 0.01 * state.network.augment.widths.norm()
    (expected,) = torch.autograd.grad(objective, [raw])
    start = raw.detach().clone()
    seen = {}
    state.hyper_optimizer.register_step_pre_hook(lambda *_: seen.update(gradient=raw.grad.clone()))
    weight_step(state, IndexedBatch(x, y, index), 8, 8, config)
    torch.testing.assert_close(seen["gradient"], -expected, rtol=1e-10, atol=1e-12)
    assert not torch.equal(raw, start)


def test_augerino_needs_an_augmentation():
    network = covary.networks.mlp(2, 5, 2)
    state = initial_state(network, covary.Categorical(), covary.Prior(network), QUICK)
    x, y = points(8)
    with pytest.raises(StructureError, match="has none"):
        weight_step(state, IndexedBatch(x, y, torch.arange(8)), 8, 8, QUICK.replace(hyper={"estimator": "augerino"}))


def test_a_gradient_that_is_not_finite_is_an_error_and_moves_nothing(state):
    parameters = state.hyperparameters()
    before = parameters["augment.raw_widths"].detach().clone()
    with pytest.raises(NumericalError, match="augment.raw_widths"):
        _climb(parameters, state.hyper_optimizer, {"augment.raw_widths": torch.tensor([float("nan")])})
    assert torch.equal(parameters["augment.raw_widths"], before)


def test_evaluation_by_probes_share_them(state):
    batches, config = as_batches(points(), 8), QUICK.replace(evaluation={"probes": 2})
    first = evaluate(state, batches, config)
    assert (evaluate(state, batches, config), first.probes) == (first, "2")
    seed = seed_for(config.seed, EVALUATE)
    sketched, exact = (
        covary.log_evidence(state.model, points(), covary.Curvature(probes=probes), seed=seed)
        for probes in (2, "exact")
    )
    assert first.log_evidence == pytest.approx(float(sketched.log_evidence), rel=1e-12)
    assert first.log_evidence != pytest.approx(float(exact.log_evidence), rel=1e-6)
