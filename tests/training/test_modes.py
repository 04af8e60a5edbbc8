"""Modules in evaluation mode stay there during a fit; a fit with a frozen body changes none of its tensors."""

import warnings

import pytest
import torch
from torch import nn

import covary
from covary.errors import DataError, StructureError
from covary.training.modes import evaluation, evaluation_modules, set_training
from training_models import QUICK, points


def fine_tuned() -> tuple[nn.Module, covary.Averaged]:
    """A body with BatchNorm and dropout, frozen as a user freezes it, under a new head."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5))
    body(torch.randn(64, 2))  # running statistics of some data
    body.requires_grad_(False).eval()
    network = nn.Sequential(body, nn.Linear(6, 2))
    return body, covary.Averaged(network, covary.augment.Rotation2d(0.3), 3)


def tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def changed(module: nn.Module, before: dict[str, torch.Tensor]) -> list[str]:
    return [name for name, tensor in module.state_dict().items() if not torch.equal(tensor, before[name])]


def test_every_frozen_tensor_and_buffer_is_the_same_bit_for_bit():
    body, network = fine_tuned()
    before, head = tensors(body), tensors(network.network[1])
    run = covary.fit(network, points(), QUICK, callbacks=())
    assert changed(body, before) == []
    assert changed(network.network[1], head) == ["weight", "bias"]
    run.fit_more(points(), 2, callbacks=())
    assert changed(body, before) == []


def test_statistics_in_training_mode_do_change():
    """The control: without eval() they move."""
    body, network = fine_tuned()
    body.train()
    before = tensors(body)
    with pytest.warns(UserWarning, match=r"'network.0.1' \(BatchNorm1d\) are frozen, but it is in training mode"):
        covary.fit(network, points(), QUICK, callbacks=())
    assert changed(body, before) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]


def test_what_was_trained_in_evaluation_mode_is_said_if_it_matters():
    _, network = fine_tuned()
    network.eval()
    with pytest.warns(UserWarning, match=r"in evaluation mode, and 'network.0.1' \(BatchNorm1d\) stays in it"):
        covary.fit(network, points(), QUICK, callbacks=())


def test_a_last_batch_of_one_datum_is_refused_before_the_first_step_where_it_cannot_be_normalized():
    def normalized() -> nn.Sequential:
        return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 2))

    x, y = points(21)
    config = QUICK.replace(epochs=1, weights={"batch_size": 10})
    network = normalized()
    before = tensors(network)
    with pytest.raises(StructureError, match=r"last batch of 21 data with weights\.batch_size=10.*more than 1 value"):
        covary.fit(network, (x, y), config, callbacks=())
    assert changed(network, before) == []
    covary.fit(normalized(), (x[:20], y[:20]), config, callbacks=())  # the control: batches of ten
    kept = normalized()
    kept[1].eval()
    covary.fit(kept, (x, y), config, callbacks=())


def test_more_epochs_train_what_the_first_trained():
    """Dropout is on again in `fit_more`, though the network of a run is in evaluation mode."""
    network = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    run = covary.fit(network, points(), QUICK, callbacks=())
    seen = []
    network[2].register_forward_hook(lambda module, *_: seen.append(module.training))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        more = run.fit_more(points(), 2, callbacks=())
    assert True in seen
    assert not more.network.training


def test_a_refused_fit_leaves_modes_as_they_were():
    body, network = fine_tuned()
    x, y = points()
    with pytest.raises(DataError):
        covary.fit(network, (x, y + 5), QUICK, callbacks=())
    assert network.training
    assert network.network[1].training
    assert not body.training


class Counted(nn.Sequential):
    """A module with a `train` of its own, as adapters have one that merges weights."""

    calls = 0

    def train(self, mode: bool = True) -> "Counted":
        self.calls += 1
        return super().train(mode)


def test_modes_are_set_one_by_one_and_by_calls_of_train():
    inner = Counted(nn.Dropout(), nn.Dropout())
    network = nn.Sequential(inner, nn.Sequential(nn.Dropout(), nn.Dropout()))
    network[1][0].eval()
    network.training = False
    names = evaluation_modules(network)
    assert names == ("", "1.0")
    inner.calls = 0
    with evaluation(network):
        assert len(evaluation_modules(network)) == 7
    assert evaluation_modules(network) == names
    assert inner.calls == 2, "once into evaluation, once back"
    set_training(network, ())
    assert evaluation_modules(network) == ()
