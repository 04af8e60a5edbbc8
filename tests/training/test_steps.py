"""Steps against gradients taken of the whole objective at once, by autograd."""

import math

import pytest
import torch

import covary
from covary.batches import IndexedBatch, as_batches
from covary.errors import StructureError
from covary.hypergrad.partition import partition_pass
from covary.training import bounds
from covary.training.ascent import evidence_record
from covary.training.schedule import EVALUATE, WEIGHTS, seed_for
from covary.training.state import initial_state
from covary.training.steps import evaluate, weight_step
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


def test_weight_steps_in_bfloat16_on_tokens_have_the_gradient_in_full_precision_but_for_rounding():
    """Outputs take the type of the weights: that of the tokens, an integer, would round them to whole numbers."""
    x, y, index = torch.arange(24).reshape(8, 3) % 5, torch.arange(8) % 2, torch.arange(8)
    found = {}
    for precision in ("full", "bf16"):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2)).float()
        state = initial_state(network, covary.Categorical(), covary.Prior(network), QUICK)
        config = QUICK.replace(weights={"precision": precision})
        weight_step(state, IndexedBatch(x, y, index), 8, 8, config)
        found[precision] = torch.cat([weight.grad.flatten() for weight in network.parameters()])
    torch.testing.assert_close(found["bf16"], found["full"], rtol=0.05, atol=0.01)


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
    before = {name: p.detach().clone() for name, p in state.hyper.hyperparameters().items()}
    x, y = points(8)
    weight_step(state, IndexedBatch(x, y, torch.arange(8)), 8, 8, QUICK)
    assert all(torch.equal(before[name], p) for name, p in state.hyper.hyperparameters().items())


def test_evaluation_share_their_noise(state):
    batches = as_batches(points(), 8)
    state.epoch = 1
    first = evaluate(state.hyper, batches, QUICK)
    state.epoch = 3
    assert evaluate(state.hyper, batches, QUICK) == first
    terms = covary.log_evidence(state.model, points(), seed=seed_for(QUICK.seed, EVALUATE))
    assert first.log_evidence == pytest.approx(float(terms.log_evidence), rel=1e-12)
    assert first.probes == "exact"


@pytest.mark.parametrize("hyper_data", [5, 24, 100, None])
def test_the_kernel_estimator_reads_every_datum_once_in_blocks(state, monkeypatch, hyper_data):
    blocks: list[list[int]] = []

    def spy(model, batches, parts, **named):
        blocks.extend(part.tolist() for part in parts)
        return partition_pass(model, batches, parts, **named)

    monkeypatch.setattr(bounds, "partition_pass", spy)
    record = evaluate(
        state.hyper, as_batches(points(), 8), QUICK.replace(hyper={"estimator": "kernel", "num_data": hyper_data})
    )
    assert sorted(position for block in blocks for position in block) == list(range(24))
    assert max(map(len, blocks)) == min(hyper_data or 100, 24)
    exact = covary.log_evidence(state.model, points(), seed=seed_for(0, EVALUATE))
    assert record.log_likelihood == pytest.approx(float(exact.log_likelihood), rel=1e-12)


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
    state.hyper.optimizer.register_step_pre_hook(lambda *_: seen.update(gradient=raw.grad.clone()))
    weight_step(state, IndexedBatch(x, y, index), 8, 8, config)
    torch.testing.assert_close(seen["gradient"], -expected, rtol=1e-10, atol=1e-12)
    assert not torch.equal(raw, start)


def test_augerino_needs_an_augmentation():
    network = covary.networks.mlp(2, 5, 2)
    state = initial_state(network, covary.Categorical(), covary.Prior(network), QUICK)
    x, y = points(8)
    with pytest.raises(StructureError, match="has none"):
        weight_step(state, IndexedBatch(x, y, torch.arange(8)), 8, 8, QUICK.replace(hyper={"estimator": "augerino"}))


def test_evaluation_by_probes_share_them(state):
    batches, config = as_batches(points(), 8), QUICK.replace(evaluation={"probes": 2})
    first = evaluate(state.hyper, batches, config)
    assert (evaluate(state.hyper, batches, config), first.probes) == (first, "2")
    seed = seed_for(config.seed, EVALUATE)
    sketched, exact = (
        covary.log_evidence(state.model, points(), covary.Curvature(probes=probes), seed=seed)
        for probes in (2, "exact")
    )
    assert first.log_evidence == pytest.approx(float(sketched.log_evidence), rel=1e-12)
    assert first.log_evidence != pytest.approx(float(exact.log_evidence), rel=1e-6)


def test_a_gradient_that_overflows_is_no_part_of_the_record():
    """Noise of 1e-15 in single precision: a record that holds infinity is not written, and the run would be lost."""
    x = torch.randn(20, 3, dtype=torch.float32)
    network = covary.networks.mlp(3, 4, 1).float()
    model = covary.Model(network, covary.Gaussian(1e-15, learn_sigma_noise=False).float())
    terms = covary.log_evidence(model, (x, x[:, :1]))
    assert not terms.gradient_norm.isfinite()
    found = evidence_record(terms, "kron", "exact")
    assert (found.gradient_norm, math.isfinite(found.log_evidence)) == (None, True)
    for overflow in (math.inf, math.nan):
        spoiled = terms._replace(gradient_norm=torch.tensor(1.0), mode_distance=torch.tensor(overflow))
        assert evidence_record(spoiled, "kron", "exact").mode_distance is None
