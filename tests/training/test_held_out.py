"""Test data that cannot be evaluated are refused before the first step; those that fail later cost no training."""

import pytest
import torch

import covary
from covary.errors import DataError, ShapeError
from covary.records import read_run
from training_models import QUICK, averaged, points

SHORT = QUICK.replace(epochs=2, evaluation={"num_evaluations": 1})


def refused(test, error, words):
    network = averaged()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    steps = []
    with pytest.raises(error, match=f"The test data cannot be used. .*{words}"):
        covary.fit(network, points(), SHORT, test=test, callbacks=[steps.append])
    assert steps == []
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def with_nan(x):
    return x.index_put((torch.tensor(9), torch.tensor(1)), torch.tensor(float("nan")))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda x, y: (torch.ones(10, 3), y), ShapeError, r"Expected points \(N, 2\), got \(1, 3\)"),
        (lambda x, y: (with_nan(x), y), DataError, "datum 9 are not finite"),
        (lambda x, y: (x, y + 1), DataError, "Class 2 is out of range"),
        (lambda x, y: (x, y.double()), DataError, "torch.int64"),
        (lambda x, y: (x, y[:, None]), ShapeError, r"\(10,\)"),
        (lambda x, y: (x, y[:9]), DataError, "equally many"),
        (lambda x, y: (x[:0], y[:0]), DataError, "empty"),
        (lambda x, y: [(x, y), (x, y + 1)], DataError, "Class 2 is out of range"),
        (lambda x, y: x, DataError, "got Tensor"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_the_first_step(change, error, words):
    refused(change(*points(10, 3)), error, words)


def test_inputs_that_a_plain_network_cannot_process_are_refused_with_their_shape():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with pytest.raises(ShapeError, match=r"test data cannot be used. .* inputs of shape \(N, 3\)"):
        covary.fit(network, points(), SHORT, test=(torch.ones(10, 3), points(10, 3)[1]), callbacks=())


def test_single_precision_and_short_integers_are_evaluated_as_the_network_needs_them():
    x, y = points(10, 3)
    run = covary.fit(averaged(), points(), SHORT, test=(x.float(), y.int()), callbacks=())
    assert run.record.test == run.evaluate((x.float().double(), y))


def test_targets_of_a_regression_are_checked_too():
    x, _ = points()
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model = covary.Model(network, covary.Gaussian(0.5))
    config = SHORT.replace(hyper={"num_data": None})
    with pytest.raises(DataError, match="test data cannot be used. Targets must be finite"):
        covary.fit(model, (x, x), config, test=(x, x / 0), callbacks=())


class FailsLater(torch.utils.data.Dataset):
    """Test data that can be read once."""

    def __init__(self):
        self.x, self.y = points(10, 3)
        self.reads = 0

    def __len__(self):
        return 10

    def __getitem__(self, number):
        self.reads += 1
        if self.reads > 10:
            raise OSError("the \x1b[31mdisk\n is gone")
        return self.x[number], self.y[number]


def test_a_test_set_that_fails_after_training_loses_nothing(tmp_path):
    with pytest.warns(UserWarning, match="could not be evaluated"):
        run = covary.fit(averaged(), points(), SHORT, test=FailsLater(), callbacks=())
    assert run.record.test is None
    assert any("(OSError: the [31mdisk is gone)" in note for note in run.record.notes)
    plain = covary.fit(averaged(), points(), SHORT, callbacks=())
    x, _ = points()
    assert torch.equal(run.predict_proba(x), plain.predict_proba(x))
    assert read_run(run.save(tmp_path)).notes == run.record.notes


class Unsure(covary.Categorical):
    """A likelihood whose test loss is infinite."""

    def log_prob(self, outputs, targets):
        found = super().log_prob(outputs, targets)
        return found - torch.inf if len(targets) == 10 else found


def test_a_loss_that_is_not_finite_is_a_note_and_the_run_can_be_saved(tmp_path):
    with pytest.warns(UserWarning, match="negative log-likelihood is inf"):
        run = covary.fit(covary.Model(averaged(), Unsure()), points(), SHORT, test=points(10, 3), callbacks=())
    assert run.record.test is None
    assert read_run(run.save(tmp_path)).test is None
