"""The learner in a loop of one's own: the numbers of `fit`, the loss, what it leaves alone, its state."""

import copy
import io

import pytest
import torch
from torch.optim import SGD, Adam, AdamW

import covary
from covary.distributed import own_part
from covary.errors import DataError, StructureError
from covary.noise import Stream, permutation
from covary.training import learner as module
from covary.training.schedule import WEIGHTS, seed_for
from training_models import QUICK, RUNNING, averaged, points

CONFIG = RUNNING.replace(epochs=6, hyper={"burn_in": 2})


def fitted_by_hand(config, network, steps=None):
    """The loop of `fit` with the learner, the loss of autograd, and PyTorch's own optimizer and scheduler."""
    x, y = points()
    learner = covary.EvidenceLearner(network, (x, y), config)
    optimizer = Adam(network.parameters(), lr=config.weights.lr)
    total = config.epochs * 3
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total, config.weights.lr_min)
    for epoch in range(config.epochs):
        seed = seed_for(config.seed, WEIGHTS, epoch)
        for rows in permutation(seed, len(x), stream=Stream.SHUFFLE).split(8):
            optimizer.zero_grad()
            learner.loss(network(x[rows], rows, seed=seed), y[rows]).backward()
            optimizer.step()
            scheduler.step()
            learner.step(len(rows))
    return learner


@pytest.mark.parametrize("config", [CONFIG, QUICK.replace(epochs=5, hyper={"width_optimizer": "adam"})])
def test_a_loop_of_ones_own_learns_what_fit_learns(config):
    """The same steps on the loss as a whole, by autograd: equal up to rounding, which few steps keep small."""
    network = averaged()
    learner = fitted_by_hand(config, network)
    run = covary.fit(averaged(), points(), config.replace(evaluation={"num_evaluations": 1}), callbacks=())
    last = run.record.history[-1]
    assert learner.widths == pytest.approx(last.widths, rel=1e-6)
    assert learner.widths["rotation"] != pytest.approx(0.3, rel=1e-3), "it has been learned"
    torch.testing.assert_close(learner.model.prior.log_precision, run.prior.log_precision, rtol=1e-6, atol=1e-8)
    assert learner.evaluate().log_evidence == pytest.approx(run.evidence.log_evidence, rel=1e-6)
    assert learner.epochs == config.epochs
    expected = [epoch.evidence.log_evidence for epoch in run.record.history if epoch.evidence is not None]
    assert learner.log_evidence == pytest.approx(expected[-1], rel=1e-6)


@pytest.fixture
def learner():
    network = averaged()
    model = covary.Model(network, prior=covary.Prior(network, precision={"*.bias": 3.0, "*": 0.5}, point="*.bias"))
    return covary.EvidenceLearner(model, points(), CONFIG)


def test_the_loss_is_minus_the_log_joint_per_datum(learner):
    (x, y), model = points(), learner.model
    outputs = model.network(x[:8])
    loss = learner.loss(outputs, y[:8])
    weights = dict(model.network.network.named_parameters())
    precisions = {name: 3.0 if name.endswith("bias") else 0.5 for name in weights}
    decay = sum(precisions[name] * weight.square().sum() / 2 for name, weight in weights.items())
    expected = torch.nn.functional.cross_entropy(outputs, y[:8]) + decay / 24
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(learner.prior_penalty(), decay / 24, rtol=1e-12, atol=0)
    torch.nn.functional.cross_entropy(outputs, y[:8]).backward(retain_graph=True)
    learner.add_prior_gradient(SGD([weights["1.weight"]], lr=0.1))
    learner.add_prior_gradient(SGD([weight for name, weight in weights.items() if name != "1.weight"], lr=0.1))
    for weight, gradient in zip(weights.values(), torch.autograd.grad(expected, list(weights.values())), strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-10, atol=1e-14)
    assert model.network.augment.raw_widths.grad is None
    assert model.prior.log_precision.grad is None


def test_a_prior_gradient_is_added_to_weights_that_have_a_gradient_only(learner):
    learner.add_prior_gradient(SGD(learner.model.network.parameters(), lr=0.1))
    assert all(weight.grad is None for weight in learner.model.trained_weights.values())


def test_an_optimizer_over_all_parameters_leaves_the_hyperparameters_alone(learner):
    """With weight decay too: a parameter without a gradient is skipped."""
    x, y = points()
    network, widths = learner.model.network, learner.widths
    optimizer = AdamW(network.parameters(), lr=0.1, weight_decay=0.5)
    before = network.network[1].weight.detach().clone()
    torch.nn.functional.cross_entropy(network(x), y).backward()
    optimizer.step()
    assert learner.widths == widths
    assert not torch.equal(network.network[1].weight, before)
    learner.release()
    torch.nn.functional.cross_entropy(network(x), y).backward()
    optimizer.step()
    assert learner.widths != widths, "not held any more"


def test_hyper_steps_leave_weights_modes_and_gradients_alone(learner):
    network = learner.model.network.train()
    network.network[0].eval()
    x, y = points()
    learner.loss(network(x), y).backward()
    before = {name: (w.detach().clone(), w.grad.clone()) for name, w in learner.model.trained_weights.items()}
    assert not learner.step(24), "the burn-in"
    assert learner.step(24)
    for name, weight in learner.model.trained_weights.items():
        assert torch.equal(weight, before[name][0])
        assert torch.equal(weight.grad, before[name][1])
    assert learner.metrics == {"log_evidence": learner.log_evidence, "width/rotation": learner.widths["rotation"]}
    assert network.training
    assert not network.network[0].training
    assert not network.augment.raw_widths.requires_grad


def test_the_widths_wait_until_the_network_beats_a_constant(monkeypatch):
    """A network that predicts the wrong class has its prior learned, and its widths held."""
    x, y = points()
    learner = covary.EvidenceLearner(averaged(), (x, 1 - y), CONFIG)
    before = learner.model.prior.log_precision.detach().clone()
    learner.step(72)
    assert learner.widths == {"rotation": pytest.approx(0.3)}
    assert not torch.equal(learner.model.prior.log_precision, before)
    monkeypatch.setattr(module, "mean_log_likelihood", lambda *_: 0.0)
    learner.step(24)
    assert learner.widths != {"rotation": pytest.approx(0.3)}


def test_the_measured_log_likelihood_is_that_of_the_likelihood(learner):
    config, (x, y), state = learner.config, points(), learner._state
    network = learner.model.network.with_samples(16, 2)
    seed = seed_for(config.seed, 1, 0)
    outputs = network(x, torch.arange(24), seed=seed)
    expected = -torch.nn.functional.cross_entropy(outputs, y)
    config = config.replace(hyper={"num_samples": 16, "num_sets": 2})
    found = module.mean_log_likelihood(state, own_part(covary.as_batches((x, y), 7)), config)
    assert found == pytest.approx(float(expected.detach()), rel=1e-12)


@pytest.mark.parametrize("config", [CONFIG, CONFIG.replace(hyper={"estimator": "stochastic"})])
def test_it_works_inside_inference_mode_no_grad_and_autocast(config):
    found = []
    for context in (torch.enable_grad(), torch.inference_mode(), torch.no_grad(), torch.autocast("cpu")):
        learner = covary.EvidenceLearner(averaged(), points(), config)
        learner.step(48)
        with context:
            learner.step(24)
            found.append((learner.widths, learner.log_evidence, learner.evaluate().log_evidence))
    assert found[1:] == found[:1] * 3


def trained(learner, optimizer, first, last):
    x, y = points()
    for number in range(first, last):
        rows = torch.arange(8) + 8 * (number % 3)
        optimizer.zero_grad()
        learner.loss(learner.model.network(x[rows], rows, seed=learner.seed), y[rows]).backward()
        optimizer.step()
        learner.step(8)


@pytest.mark.parametrize("estimator", ["running", "two_pass"])
def test_a_loop_that_is_saved_and_loaded_goes_on_bit_for_bit(estimator):
    """Through a file that torch reads without pickle."""
    config = CONFIG.replace(hyper={"estimator": estimator})

    def made():
        learner = covary.EvidenceLearner(averaged(), points(), config)
        return learner, SGD(learner.model.network.parameters(), lr=0.1, momentum=0.9)

    whole, optimizer = made()
    trained(whole, optimizer, 0, 18)
    first, optimizer = made()
    trained(first, optimizer, 0, 10)
    file = io.BytesIO()
    states = {"network": first.model.network, "optimizer": optimizer, "learner": first}
    torch.save({name: part.state_dict() for name, part in states.items()}, file)
    second, optimizer = made()
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    for name, part in {"network": second.model.network, "optimizer": optimizer, "learner": second}.items():
        part.load_state_dict(loaded[name])
    trained(second, optimizer, 10, 18)
    assert second.widths == whole.widths
    assert second.log_evidence == whole.log_evidence
    assert torch.equal(second.model.prior.log_precision, whole.model.prior.log_precision)
    assert all(map(torch.equal, second.model.network.parameters(), whole.model.network.parameters()))
    forgotten = copy.deepcopy(loaded["learner"]) | {"num_seen": 0}
    third, optimizer = made()
    third.load_state_dict(forgotten)
    assert third.seed != second.seed


def test_a_state_is_a_copy(learner):
    learner.step(60)
    saved = copy.deepcopy(before := learner.state_dict())
    learner.step(24)
    assert torch.equal(
        saved["hyperparameters"]["prior.log_precision"], before["hyperparameters"]["prior.log_precision"]
    )
    assert all(torch.equal(saved["optimizer"][name], tensor) for name, tensor in before["optimizer"].items())
    assert all(torch.equal(saved["running"][name], tensor) for name, tensor in before["running"].items())


def test_the_state_of_another_model_or_of_other_data_is_refused(learner):
    state = learner.state_dict()
    other = covary.EvidenceLearner(averaged(), points(), CONFIG)
    with pytest.raises(StructureError, match="Make the learner with the same network"):
        other.load_state_dict(state)
    fewer = covary.EvidenceLearner(learner.model, points(20), CONFIG)
    fewer._held = learner._held
    with pytest.raises(StructureError, match="learner of 20 data, got that of 24"):
        fewer.load_state_dict(state)


def test_what_cannot_be_learned_is_refused():
    network = averaged()
    with pytest.raises(StructureError, match=r"Use covary\.fit"):
        covary.EvidenceLearner(network, points(), CONFIG.replace(hyper={"estimator": "augerino"}))
    with pytest.raises(DataError, match="one by one"):
        covary.EvidenceLearner(network, [points()], CONFIG)
    with pytest.raises(StructureError, match=r"'lr' is 'weights\.lr' or 'hyper\.lr'"):
        covary.EvidenceLearner(network, points(), CONFIG, lr=0.1)
    frozen = averaged().requires_grad_(False)
    frozen.network.requires_grad_(True)
    prior = covary.Prior(frozen).requires_grad_(False)
    learner = covary.EvidenceLearner(covary.Model(frozen, prior=prior), points(), CONFIG)
    assert not learner.step(100)
    with pytest.raises(StructureError, match="no hyperparameters to learn"):
        learner.hyper_step()


def test_a_network_without_augmentation_learns_its_prior():
    network = covary.networks.mlp(2, 4, 2)
    learner = covary.EvidenceLearner(network, points(), CONFIG)
    before = learner.model.prior.log_precision.detach().clone()
    assert learner.log_evidence is None
    assert learner.metrics == {}
    learner.step(72)
    assert learner.widths == {}
    assert learner.log_evidence < 0
    assert not torch.equal(learner.model.prior.log_precision, before)


def test_batches_that_are_read_as_they_are_are_counted():
    x, y = points()
    stream = [(x[:10], y[:10]), (x[10:], y[10:])]
    config = QUICK.replace(hyper={"num_data": None, "burn_in": 0})
    learner = covary.EvidenceLearner(averaged(), stream, config)
    assert not learner.step(10)
    assert learner.step(14), "a whole epoch"
    assert learner.epochs == 1


def test_a_trainer_may_count_epochs_instead_of_data(learner):
    assert not learner.step_to(1.4)
    assert learner.epochs == 34 / 24
    assert not learner.step_to(1.0), "never back"
    assert learner.epochs == 34 / 24
    assert learner.step_to(2)
    assert learner.epochs == 2
