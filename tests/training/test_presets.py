"""Settings by name, from the config, or of the kind of network."""

import pytest
import torch

import covary
from covary.config import FitConfig, discover_config
from covary.errors import StructureError
from covary.training import presets
from training_models import QUICK, averaged, points


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "lr",
            "'lr' is 'weights.lr' or 'hyper.lr' of the settings. Pass config=FitConfig.preset('mlp').replace(weights",
        ),
        ("epoch", "Unknown setting 'epoch'. Did you mean 'epochs'?"),
        ("prior", "Pass covary.Model(network, likelihood, prior)"),
    ],
)
def test_a_setting_of_another_name_says_where_it_belongs(name, message):
    with pytest.raises(StructureError) as caught:
        covary.fit(averaged(), points(), **{name: 1})
    assert message in str(caught.value)


def test_settings_are_those_of_the_config_or_of_the_kind_of_network():
    model = covary.Model(averaged())
    assert presets.settings_of(model, None, {"epochs": 3}) == FitConfig(epochs=3)
    assert presets.settings_of(model, QUICK, {"seed": 3}) == QUICK.replace(seed=3)
    relaxed = covary.Model(covary.networks.build("relaxed:f-fc+conv:1", (1, 8, 8), 2, 0))
    assert presets.settings_of(relaxed, None, {}) == FitConfig.preset("layers")
    assert presets.settings_of(relaxed, None, {"epochs": 20}).hyper.burn_in == 8, "two fifths of a short run"


class Attending(torch.nn.Module):
    """One block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
        self.attention, self.norm = torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.nn.LayerNorm(8)

    def forward(self, x):
        tokens = self.embed(x)
        return self.head(self.norm(tokens + self.attention(tokens, tokens, tokens)[0]).mean(1))


@pytest.mark.parametrize(
    ("network", "preset"),
    [
        (covary.networks.mlp(16, 5, 3), "mlp"),
        (covary.networks.mlp(16, [], 3), "mlp"),
        (averaged(), "mlp"),
        (torch.nn.Sequential(*covary.networks.mlp(4, [5] * 3, 4), torch.nn.Dropout(0.5)), "mlp"),
        (covary.networks.mlp(4, [5] * 4, 4), "deep"),  # five linear layers
        (torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(8, 2)), "deep"),
        (Attending(), "deep"),
        (covary.networks.build("resnet-8-8", (1, 8, 8), 2, 0), "resnet"),
        (covary.networks.build("relaxed:f-fc+conv:1", (1, 8, 8), 2, 0), "layers"),
    ],
)
def test_the_preset_is_that_of_the_kind_of_network(network, preset):
    assert presets.preset_of(covary.Model(network)) == preset
    frozen = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3).requires_grad_(False), torch.nn.Flatten(), network)
    assert presets.preset_of(covary.Model(frozen)) == preset, "of what is trained"


@pytest.mark.parametrize(
    "name", ["mlp", "mlp:30", "mlp:5-5-5", "mlp:5-5-5-5", "cnn", "lenet", "resnet-8-8", "relaxed:conv:1"]
)
def test_a_network_by_name_has_the_preset_of_its_layers(name):
    network = covary.networks.build(name, (1, 28, 28), 10, 0)
    for task, likelihood in (("none", covary.Categorical()), ("regression", covary.Gaussian(1.0))):
        model = covary.Model(network, likelihood)
        for settings in ({}, {"epochs": 25}):
            assert presets.settings_of(model, None, settings) == discover_config(name, task, **settings).fit


@pytest.mark.parametrize("likelihood", [covary.Gaussian(1.0), covary.HeteroscedasticGaussian()])
def test_a_regression_takes_more_steps_before_the_prior_is_learned(likelihood):
    network = covary.networks.mlp(3, 5, 2)
    assert presets.preset_of(covary.Model(network, likelihood)) == "regression"
    assert presets.preset_of(covary.Model(network, covary.Poisson())) == "mlp"
    assert discover_config("cnn", "regression").fit == FitConfig.preset("deep")
    short = discover_config("mlp", "regression", epochs=25).fit
    assert (short.epochs, short.hyper.burn_in) == (25, 10)
    assert discover_config("mlp", "none", epochs=25).fit.hyper.burn_in is None


def test_a_fit_and_a_learner_take_the_preset_of_a_regression():
    x = torch.linspace(-1, 1, 20)[:, None]
    model = covary.Model(covary.networks.mlp(1, 4, 1), covary.Gaussian(1.0))
    run = covary.fit(model, (x, x.square()), epochs=5, callbacks=())
    config = run.record.config
    assert (config["weights"]["lr"], config["hyper"]["burn_in"]) == (0.02, 2)
    learner = covary.EvidenceLearner(model, (x, x.square()))
    assert learner.config.replace(hyper={"probes": "auto"}, evaluation={"probes": "auto"}) == FitConfig.preset(
        "regression"
    )


@pytest.mark.parametrize("config", [{"epochs": 2}, torch.zeros(3)])
def test_what_is_no_config_is_refused(config):
    """A dictionary, and targets that are passed apart from the inputs."""
    with pytest.raises(StructureError, match=r"covary.FitConfig after the data, got a .*fit\(network, \(x, y\)\)"):
        presets.settings_of(covary.Model(averaged()), config, {})
