"""Runs that are worthless are said to be: weights that diverge, gradients that are zero, terms that are not finite."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import covary
from covary.errors import DataError, NumericalError
from covary.records import read_run
from covary.records.summary import summary
from covary.training.constant import has_diverged
from covary.training.learner import EvidenceLearner
from training_models import PLAIN, QUICK, RUNNING, averaged, kill, points, relu_network

SHORT = QUICK.replace(epochs=2, hyper={"burn_in": 0})


def test_worse_than_untrained_and_than_a_constant_is_a_divergence():
    assert has_diverged(-1e18, -2.3, -2.5)
    assert has_diverged(-3.6, -2.3, -2.5)
    assert not has_diverged(-3.4, -2.3, -2.5), "less than a nat"
    assert not has_diverged(-50.0, -2.3, -100.0), "better than it was"
    assert not has_diverged(-50.0, -100.0, -2.3), "better than a constant"
    assert has_diverged(math.nan, -2.3, -2.5)


@pytest.mark.parametrize("config", [RUNNING, QUICK])
@pytest.mark.parametrize("epochs", [1, 4])
def test_a_learning_rate_that_diverges_is_a_problem_of_the_run(config, epochs, tmp_path, recwarn):
    config = config.replace(epochs=epochs, weights={"optimizer": "sgd", "lr": 1e5, "lr_min": 1e5}, hyper={"burn_in": 0})
    run = covary.fit(averaged(), points(), config, callbacks=())
    assert run.record.problem.startswith(("Training has diverged: the log", "The network has collapsed: its log"))
    assert epochs > 1 or "diverged" in run.record.problem, "a collapse is told by two epochs"
    assert "log-likelihood per datum, -" in run.record.problem
    assert "weights.lr" in run.record.problem
    assert str(run).startswith(run.record.problem)
    assert summary(run.record).startswith(run.record.problem)
    run.save(tmp_path)
    assert read_run(tmp_path).problem == run.record.problem


def test_data_of_one_class_are_refused_before_the_first_step():
    """Earlier the network had collapsed after some epochs."""
    x, y = points()
    with pytest.raises(DataError, match=r"The targets are of one class alone \(1\): expected two or more"):
        covary.fit(averaged(), (x, torch.ones_like(y)), QUICK, callbacks=())


def test_a_network_that_learns_has_no_problem(recwarn):
    assert covary.fit(averaged(), points(), SHORT, callbacks=()).record.problem is None


def test_a_good_state_before_a_divergence_is_kept_without_a_problem():
    """The best evaluated state is what the run returns: what came after it does not make that worthless."""
    network = relu_network()

    def explode(epoch):
        if epoch.epoch == 3:
            with torch.no_grad():
                network.network[3].weight.mul_(-1e9)

    config = QUICK.replace(weights={"lr": 1e-6}, evaluation={"num_evaluations": 2})
    run = covary.fit(network, points(), config, callbacks=[explode])
    assert run.record.history[-1].log_likelihood < -1e6
    assert run.record.problem is None
    assert run.evidence.log_likelihood / 24 > -0.7


def test_gradients_that_are_all_zero_are_a_problem(recwarn):
    dead = relu_network()
    kill(dead)
    with torch.no_grad():
        dead.network[3].weight.zero_()
    for parameter in dead.network[3].parameters():
        parameter.requires_grad_(False)
    run = covary.fit(dead, points(), SHORT.replace(epochs=1), callbacks=())
    assert run.record.problem.startswith("The gradient of the log-likelihood is zero in every weight")


def test_a_width_without_any_effect_is_said_not_to_move():
    """All data are at the origin of the plane that is rotated; a third entry has the class."""

    class TurnedPart(covary.augment.Rotation2d):
        def transform(self, x, noise):
            turned = super().transform(x[:, :2], noise)
            return torch.cat([turned, x[:, None, 2:].expand(-1, noise.shape[1], -1)], -1)

    y = torch.arange(40) % 2
    x = torch.cat([torch.zeros(40, 2), (2.0 * y - 1)[:, None]], 1)
    inner = covary.networks.mlp(3, 5, 2, generator=torch.Generator().manual_seed(0))
    config = PLAIN.replace(epochs=25, weights={"lr": 0.05, "batch_size": 20}, evaluation={"num_evaluations": 1})
    with pytest.warns(UserWarning, match=r"No width moved in \d+ hyper steps"):
        run = covary.fit(covary.Averaged(inner, TurnedPart(0.3), 4), (x, y), config, callbacks=())
    assert run.record.notes[0].startswith("No width moved")
    assert run.symmetries[0].state == "fixed"


@pytest.mark.parametrize("term", ["log_likelihood", "log_prior", "log_volume"])
def test_a_term_that_is_not_finite_ends_the_run_with_a_problem(term, monkeypatch, tmp_path, recwarn):
    evaluate = EvidenceLearner.evaluate
    broken = {term: -math.inf}
    monkeypatch.setattr(EvidenceLearner, "evaluate", lambda learner: replace(evaluate(learner), **broken))
    run = covary.fit(averaged(), points(), SHORT.replace(epochs=6), callbacks=())
    assert run.record.problem.startswith(f"The term '{term}' of the evidence in epoch 3 is -inf.")
    assert len(run.record.history) == 3, "it stops there"
    assert run.evidence is None
    run.save(tmp_path)
    assert read_run(tmp_path).problem == run.record.problem


class Overflowing(nn.Module):
    """Outputs that are finite, and whose squares are not, from some call on; gradients are finite too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1)
        self.offset = 0.0

    def forward(self, x):
        return self.linear(x) + self.offset


def overflowing_fit(epoch_of_overflow: int):
    network, (x, y) = Overflowing(), points()

    def overflow(epoch):
        if epoch.epoch == epoch_of_overflow:
            network.offset = 1e200

    model = covary.Model(network, covary.Gaussian(1.0))
    config = SHORT.replace(epochs=4, hyper={"every": 10}, evaluation={"num_evaluations": 0})
    network.offset = 1e200 if epoch_of_overflow == 0 else 0.0
    return covary.fit(model, (x, y[:, None].double()), config, callbacks=[overflow])


def test_a_log_likelihood_that_is_not_finite_ends_the_run_with_its_best_state(recwarn):
    run = overflowing_fit(2)
    assert run.record.problem.startswith("The log-likelihood of epoch 3 is -inf. Training stopped.")
    assert [epoch.epoch for epoch in run.record.history] == [1, 2]


def test_without_a_state_to_keep_it_is_an_error():
    with pytest.raises(NumericalError, match=r"The log-likelihood of epoch 1 is -inf"):
        overflowing_fit(0)
