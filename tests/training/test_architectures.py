"""Networks that users bring go through fit, evidence, posterior and KFAC."""

import copy
import math
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import covary
from architectures import NUM_CLASSES, Lstm, StochasticDepth, UNet, VisionTransformer, cnn_1d, resnet18
from covary.curvature import coverage, kfac
from covary.networks import replace_batchnorm
from covary.report.tables import comparability

pytestmark = pytest.mark.filterwarnings("ignore:Weights without a rule are covered by autograd")
NUM_DATA = 12
CONFIG = covary.FitConfig().replace(
    epochs=2,
    weights={"batch_size": 6},
    hyper={
        **{"estimator": "two_pass", "burn_in": 1, "every": 1, "num_data": 6, "num_samples": 2},
        **{"num_moves": 1, "num_steps": 2, "num_prior_steps": 1},
    },
    evaluation={"num_error_data": 0},
)


def images() -> tuple[Tensor, Tensor]:
    return torch.randn(NUM_DATA, 1, 8, 8), torch.arange(NUM_DATA) % NUM_CLASSES


def turned(network: nn.Module) -> nn.Module:
    return covary.Averaged(network, covary.augment.Affine2d(("rotation",), initial_width=0.3), num_samples=2)


NETWORKS = {
    "vision transformer": lambda: (turned(VisionTransformer()), images()),
    "resnet-18": lambda: (replace_batchnorm(resnet18(), by="group"), images()),
    "resnet-18 with batch norm": lambda: (resnet18(2), images()),
    "cnn 1d": lambda: (cnn_1d(), (torch.randn(NUM_DATA, 2, 20), images()[1])),
    "lstm": lambda: (Lstm(), (torch.randint(0, 7, (NUM_DATA, 5)), images()[1])),
    "u-net": lambda: (covary.Model(turned(UNet()), covary.Gaussian(0.5)), (images()[0], torch.randn(NUM_DATA, 4))),
}


@dataclass(frozen=True)
class Fitted:
    run: covary.Run
    data: tuple[Tensor, Tensor]
    before: dict[str, Tensor]


@cache
def fitted(name: str) -> Fitted:
    """A network after two epochs, the second with a hyper step."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model, data = NETWORKS[name]()
    network = model.network if isinstance(model, covary.Model) else model
    before = copy.deepcopy(dict(network.named_parameters()))
    return Fitted(covary.fit(model, data, CONFIG, callbacks=()), data, before)


@pytest.mark.parametrize("name", NETWORKS)
def test_fit_changes_every_weight_and_hyperparameter(name):
    found = fitted(name)
    now = dict(found.run.model.network.named_parameters())
    still = [key for key, parameter in now.items() if torch.equal(parameter, found.before[key])]
    # in two epochs few networks beat a constant prediction, before which widths are not learned
    unlearned = any(note.startswith("No width was learned") for note in found.run.record.notes)
    assert still == (["augment.raw_widths"] if unlearned else [])
    assert math.isfinite(found.run.record.evidence.log_evidence)
    assert len(set(found.run.model.prior.precision.tolist())) > 1


@pytest.mark.parametrize("name", NETWORKS)
def test_the_evidence_is_deterministic_and_covers_every_weight(name):
    model, data = fitted(name).run.model, fitted(name).data
    terms = [covary.log_evidence(model, data) for _ in range(2)]
    assert terms[0].log_evidence == terms[1].log_evidence
    assert set(terms[0].structures) == set(dict(model.weights))
    assert torch.isfinite(terms[0].log_evidence)


@pytest.mark.parametrize("name", NETWORKS)
def test_kfac_has_a_block_for_every_weight(name):
    model, data = fitted(name).run.model, fitted(name).data
    blocks = kfac(model, data, probes=1)
    assert list(blocks.blocks) == list(model.weights)
    assert all(blocks[row.name].trace() >= 0 for row in coverage(model.network).rows)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_posterior_predicts(name):
    model, (x, y) = fitted(name).run.model, fitted(name).data
    posterior = covary.Laplace(model, (x, y))
    variance = posterior.function_variance(x[:3])
    assert variance.shape == (3, posterior.predict(x[:3])[0].shape[-1] if y.is_floating_point() else NUM_CLASSES)
    assert bool((variance > 0).all())


def test_what_the_table_of_a_vision_transformer_says():
    table = coverage(VisionTransformer())
    assert [row.name for row in table.by_autograd] == ["token", "positions"]
    assert "(2 of 20)" in table.cost
    assert "48 numbers per datum" in table.cost


def test_hyper_steps_leave_nothing_out_and_weight_steps_do():
    """Dropout and stochastic depth are those of torch in weight steps, and off in hyper steps and evaluations."""
    seen = {True: set(), False: set()}

    class Watched(StochasticDepth):
        def forward(self, x: Tensor) -> Tensor:
            seen[self.training].add(len(x))
            return super().forward(x)

    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), Watched(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), 0.5))
    network = nn.Sequential(body, nn.Linear(4, NUM_CLASSES))
    data = images()
    runs = [covary.fit(copy.deepcopy(network), data, CONFIG, callbacks=()) for _ in range(2)]
    assert seen[True] == {6}  # minibatches
    assert seen[False]
    first, second = ([epoch.evidence for epoch in run.record.history] for run in runs)
    assert first == second
    assert first[-1] is not None


def test_random_layers_are_found_where_torch_does_not_name_them():
    """The control: in training mode stochastic depth is noise, which the self-check finds."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), StochasticDepth(nn.Linear(64, 64), 0.5), nn.Linear(64, NUM_CLASSES))
    with pytest.raises(covary.errors.UnsupportedLayerError, match="draws random numbers"):
        covary.log_evidence(network.train(), images())
    covary.log_evidence(network.eval(), images())


def test_weight_norm_is_fitted_and_not_compared_with_its_plain_twin():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, NUM_CLASSES))
    normed = copy.deepcopy(plain)
    for layer in (normed[1], normed[3]):
        nn.utils.parametrizations.weight_norm(layer)
    data = images()
    runs = [covary.fit(network, data, CONFIG, callbacks=()) for network in (plain, normed)]
    assert not torch.equal(normed[1].parametrizations.weight.original0, plain[1].weight.norm(dim=1, keepdim=True))
    warnings = comparability([run.record for run in runs])
    assert len(warnings) == 1
    assert "in different parametrizations (Cartesian, WeightNorm of 1.weight, 3.weight)" in warnings[0]
    # the control: twins with the same function, plain weights those of the normed ones, have different evidences
    with torch.no_grad():
        for layer, other in ((plain[1], normed[1]), (plain[3], normed[3])):
            layer.weight.copy_(other.weight)
            layer.bias.copy_(other.bias)
    torch.testing.assert_close(plain(data[0]), normed(data[0]))
    evidences = [covary.log_evidence(network, data, "full").log_evidence for network in (plain, normed)]
    assert abs(evidences[0] - evidences[1]) > 1
