"""Widths are learned by a network that knows something; one that knows nothing, or dies, is said to."""

import math

import pytest
import torch
from torch import nn

import covary
from covary.config import FitConfig, WeightConfig
from covary.records import read_run
from covary.records.summary import summary
from training_models import QUICK, RUNNING, kill, points, relu_network

SHORT = FitConfig(epochs=30, weights=WeightConfig(lr=0.03, batch_size=20)).replace(
    hyper={"num_samples": 8, "num_moves": 2}, evaluation={"num_error_data": 0}
)


def sectors(num_data: int, num_classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a circle with the sector that they are in: every rotation changes labels, more of them in thin ones."""
    turn = torch.rand(num_data, generator=torch.Generator().manual_seed(0))
    angle = 2 * math.pi * turn
    return torch.stack([angle.cos(), angle.sin()], 1), (num_classes * turn).long()


def network(num_outputs: int, num_hidden: int, width: float) -> covary.Averaged:
    inner = covary.networks.mlp(2, num_hidden, num_outputs, generator=torch.Generator().manual_seed(1))
    return covary.Averaged(inner, covary.augment.Rotation2d(width), 4)


@pytest.mark.parametrize("config", [RUNNING, QUICK])
def test_a_network_that_is_dead_from_the_start_stops_in_its_second_epoch(config, tmp_path, recwarn):
    dead = relu_network()
    kill(dead)
    run = covary.fit(dead, points(), config.replace(epochs=30), callbacks=())
    assert run.record.notes == [], "more epochs, which a note would advise, are no help"
    assert not any("No width was learned" in str(warning.message) for warning in recwarn)
    assert len(run.record.history) == 2
    assert run.record.problem.startswith("The network has collapsed")
    assert "epoch 2" in run.record.problem
    assert "weights.lr" in run.record.problem
    assert run.symmetries[0].width == pytest.approx(0.3)
    assert run.symmetries[0].state == "not learned yet"
    assert summary(run.record).startswith("The network has collapsed")
    assert "No width was learned" in summary(run.record)
    assert read_run(run.save(tmp_path / "run")).problem == run.record.problem


@pytest.mark.parametrize("config", [RUNNING, QUICK])
def test_a_network_that_dies_keeps_its_best_state(config, tmp_path):
    living, states = relu_network(), []

    def die_in_the_fourth(epoch):
        states.append({name: tensor.clone() for name, tensor in living.state_dict().items()})
        if epoch.epoch == 4:
            kill(living)

    config = config.replace(epochs=30, evaluation={"num_evaluations": 1})
    checkpoints = covary.Checkpoints(tmp_path, every=1)
    run = covary.fit(living, points(), config, test=points(), checkpoints=checkpoints, callbacks=[die_in_the_fourth])
    history = run.record.history
    assert len(history) in (5, 6), "it stops as soon as its outputs are constant"
    assert run.record.problem.startswith("The network has collapsed")
    best = max(history, key=lambda epoch: epoch.log_likelihood)
    assert best.epoch <= 4
    assert all(torch.equal(tensor, states[best.epoch - 1][name]) for name, tensor in living.state_dict().items())
    assert run.record.test.accuracy > 0.8
    resumed = covary.fit(
        relu_network(), points(), config, checkpoints=covary.Checkpoints(tmp_path, every=1, resume=True), callbacks=()
    )
    assert resumed.record.problem == run.record.problem, "what has collapsed is not taken up again"
    assert len(resumed.record.history) == len(history)


def test_weights_that_explode_are_said(recwarn):
    """A learning rate of 1,000 on a network that knew its labels."""
    config = QUICK.replace(epochs=80, weights={"optimizer": "sgd", "lr": 1e3, "lr_min": 1e3}, hyper={"every": 40})
    run = covary.fit(relu_network(), points(), config, callbacks=())
    assert run.record.problem is not None
    assert len(run.record.history) < 80


def test_noise_labels_teach_no_width():
    noise = torch.Generator().manual_seed(0)
    data = torch.randn(200, 2, generator=noise), torch.randint(2, (200,), generator=noise)
    with pytest.warns(UserWarning, match="No width was learned"):
        run = covary.fit(network(2, 3, 0.05), data, SHORT.replace(epochs=12), callbacks=())
    assert run.symmetries[0].width == pytest.approx(0.05)
    assert run.symmetries[0].state == "not learned yet"
    assert summary(run.record).startswith("No width was learned")
    assert "constant prediction, -0.69" in run.record.notes[0]
    assert run.prior.precision.detach().std() > 0, "the prior is learned all the same"


def test_a_rotation_that_changes_labels_is_not_learned():
    run = covary.fit(network(8, 20, 0.3), sectors(300, 8), SHORT.replace(epochs=14), callbacks=())
    assert run.record.history[-1].log_likelihood > -0.3, "the network knows its labels"
    assert run.symmetries[0].width < 0.04
    assert run.record.problem is None
    assert run.record.notes == []
    assert "The labels ignore rotation" not in summary(run.record)


def test_widths_wait_for_the_network_whatever_the_burn_in_says():
    """The network learns its labels in some epochs; widths move after the first one that beats a constant."""
    config = SHORT.replace(epochs=8, hyper={"burn_in": 0, "num_moves": 1})
    run = covary.fit(network(4, 20, 0.3), sectors(120, 4), config, callbacks=())
    history, constant = run.record.history, -math.log(4)
    first = next(epoch.epoch for epoch in history if epoch.log_likelihood > constant + 0.1)
    assert 1 < first + 1 < 8
    assert history[0].evidence is not None, "the prior is learned from the first epoch on"
    assert all(epoch.widths["rotation"] == pytest.approx(0.3) for epoch in history[:first])
    assert history[-1].widths["rotation"] != pytest.approx(0.3, abs=1e-6)


def test_a_frozen_augmentation_is_no_width_that_was_not_learned(recwarn):
    frozen = network(2, 3, 0.05)
    frozen.augment.requires_grad_(False)
    noise = torch.Generator().manual_seed(0)
    data = torch.randn(60, 2, generator=noise), torch.randint(2, (60,), generator=noise)
    run = covary.fit(frozen, data, SHORT.replace(epochs=3), callbacks=())
    assert run.record.notes == []
    assert run.symmetries[0].state == "fixed"


def test_augerino_goes_on_whatever_happens(recwarn):
    dead = relu_network()
    kill(dead)
    config = QUICK.replace(epochs=6, hyper={"estimator": "augerino"}, evaluation={"num_evaluations": 0})
    run = covary.fit(dead, points(), config, callbacks=())
    assert len(run.record.history) == 6
    assert run.record.problem is None


def small_regression(scale: float) -> tuple[covary.Averaged, tuple[torch.Tensor, torch.Tensor]]:
    x, _ = points(100)
    noise = torch.Generator().manual_seed(0)
    inner = covary.networks.mlp(2, 5, 1, generator=noise)
    return covary.Averaged(inner, covary.augment.Rotation2d(0.3), 3), (x, scale * torch.randn(100, 1, generator=noise))


def test_noise_that_is_learned_is_no_gain_over_a_constant():
    """Targets that are noise of size 10, and a likelihood that learns this from 3: the constant learns it too."""
    network, data = small_regression(10.0)
    config = RUNNING.replace(epochs=6, weights={"batch_size": 25}, hyper={"burn_in": 0, "num_data": 16})
    model = covary.Model(network, covary.Gaussian(3.0))
    with pytest.warns(UserWarning, match="No width was learned"):
        run = covary.fit(model, data, config, callbacks=())
    history = run.record.history
    assert history[-1].log_likelihood > history[0].log_likelihood + 0.5, "the noise has been learned"
    assert run.symmetries[0].state == "not learned yet"
    assert run.record.problem is None


def test_a_fit_to_small_targets_has_not_collapsed():
    """A hundredth in size, with noise of 1 until hyper steps learn it: any fit is within 1e-4 nats of a constant."""
    network, (x, _) = small_regression(1.0)
    config = RUNNING.replace(epochs=6, weights={"batch_size": 2}, hyper={"burn_in": 6})
    run = covary.fit(covary.Model(network, covary.Gaussian(1.0)), (x, 0.01 * x[:, :1]), config, callbacks=())
    assert len(run.record.history) == 6
    assert run.record.problem is None


def test_constant_outputs_are_a_collapse_with_learned_noise_too(recwarn):
    network, data = small_regression(1.0)
    with torch.no_grad():
        for weight in network.network.parameters():
            weight.zero_()
    network.network[2] = nn.ReLU()
    kill(network)
    run = covary.fit(covary.Model(network, covary.Gaussian(1.0)), data, RUNNING.replace(epochs=20), callbacks=())
    assert run.record.problem.startswith("The network has collapsed")
    assert len(run.record.history) < 20
