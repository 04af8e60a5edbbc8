"""What is checked before a trainer of another library begins."""

import warnings

import pytest
import torch

import covary
from covary.errors import StructureError
from covary.integrations._trainers import check_trainer
from training_models import RUNNING, averaged, points


@pytest.fixture
def learner():
    return covary.EvidenceLearner(averaged(), points(), RUNNING.replace(epochs=5))


def test_nothing_is_said_where_all_agree(learner):
    network, other = learner.model.network, torch.nn.Linear(2, 2)
    weights = torch.optim.AdamW(network.parameters(), weight_decay=0.0)
    decayed = torch.optim.AdamW(other.parameters())  # of weights that are not the learner's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_trainer(learner, torch.nn.ModuleList([network, other]), [weights, decayed], ("epochs", 5))
        check_trainer(learner, network, [torch.optim.LBFGS(network.parameters())], ("epochs", 5))


@pytest.mark.parametrize(
    ("epochs", "words"), [(7, "has epochs=7"), (None, "is without epochs"), (-1, "is without epochs")]
)
def test_another_number_of_epochs_is_a_warning(learner, epochs, words):
    with pytest.warns(UserWarning, match=f"{words}, the learner epochs=5"):
        check_trainer(learner, learner.model.network, [], ("epochs", epochs))


def test_weight_decay_is_a_warning(learner):
    with pytest.warns(UserWarning, match="weight_decay=0.01 for weights whose decay is learned"):
        check_trainer(learner, learner.model.network, [torch.optim.AdamW(learner.model.network.parameters())], ("e", 5))


def test_another_network_is_refused(learner):
    with pytest.raises(StructureError, match="Expected the learner's network to be part of Linear"):
        check_trainer(learner, torch.nn.Linear(2, 2), [], ("epochs", 5))
