import pytest

from covary.config import EvalConfig, FitConfig, HyperConfig, WeightConfig
from covary.errors import StructureError
from training_models import PLAIN


def test_defaults_are_valid_and_plain():
    settings = FitConfig().as_dict()
    assert settings["hyper"]["estimator"] == "running"
    assert settings == FitConfig.preset("mlp").as_dict()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"epochs": 0}, "'epochs' to be a whole number of at least 1 and at most 1,000,000, got 0"),
        ({"epochs": True}, "epochs"),
        ({"weights": {"batch_size": 0}}, "weights.batch_size"),
        ({"weights": {"optimizer": "lbfgs"}}, "weights.optimizer"),
        ({"hyper": {"estimator": "guess"}}, "hyper.estimator"),
        ({"curvature": "kernel"}, "curvature"),
        ({"hyper": {"burn_in": -1}}, "burn_in"),
        ({"weights": {"lr": float("nan")}}, "'weights.lr' to be a number from 0 to 1e6, got nan"),
        (
            {"hyper": {"augment_lr": -0.1}},
            "'hyper.augment_lr' to be a number from 0 to 1e6 or None \\(in a command none\\), got -0.1",
        ),
        ({"weights": {"momentum": 1.0}}, "momentum"),
        ({"weights": {"warmup_epochs": -1}}, "warmup_epochs"),
        ({"weights": {"relative_lr": 0.0}}, "relative_lr"),
        ({"weights": {"max_grad_norm": float("inf")}}, "max_grad_norm"),
        ({"weights": {"prior_scaled_lr": True}}, "relative_lr=0.15"),
        ({"weights": {"prior_scaled_lr": 1}}, "true or false"),
        (
            {"hyper": {"probes": 0}},
            "'hyper.probes' to be one of 'auto', 'exact' or a whole number of at least 1 and at most 1,000,000",
        ),
        ({"hyper": {"probes": "some"}}, "hyper.probes"),
        ({"evaluation": {"probes": 0}}, "evaluation.probes"),
        ({"hyper": {"num_data": 0}}, "num_data"),
        ({"hyper": {"num_sets": 3}}, "num_sets"),
        ({"hyper": {"num_samples": 7}}, "requires an even 'hyper.num_samples', got 7"),
        ({"curvature": "full", "hyper": {"probes": 1}}, "'hyper.probes' to be 'exact' with curvature 'full'"),
        ({"curvature": "full", "hyper": {"probes": "exact"}, "evaluation": {"probes": 2}}, "evaluation.probes"),
        ({"seed": 2**63}, "'seed' to be a whole number from -2"),
        ({"seed": -(2**63) - 1}, "seed"),
    ],
)
def test_an_impossible_value_is_named(settings, word):
    with pytest.raises(StructureError, match=word.replace("^", "\\^")):
        FitConfig().replace(**settings)


def test_a_group_names_its_settings_when_it_is_made():
    with pytest.raises(StructureError, match="'hyper.every'"):
        HyperConfig(every=0)
    with pytest.raises(StructureError, match="'weights' to be a WeightConfig"):
        FitConfig(weights=HyperConfig())


def test_seeds_of_64_bits_are_taken():
    assert [FitConfig(seed=seed).seed for seed in (-(2**63), 2**63 - 1)] == [-(2**63), 2**63 - 1]


def test_a_learning_rate_that_is_not_set_is_the_common_one():
    hyper = HyperConfig(lr=0.2, lr_min=0.02, prior_lr=0.01, prior_lr_min=None, likelihood_lr=None)
    assert hyper.lr_range("augment") == (0.2, 0.02)
    assert hyper.lr_range("prior") == (0.01, 0.01), "a last learning rate is at most the first"
    assert hyper.lr_range("likelihood") == (0.2, 0.005)


def test_the_part_of_a_natural_step_falls_too():
    assert HyperConfig(width_lr=1.0, width_lr_min=0.2).width_lr_range == (1.0, 0.2)
    assert HyperConfig(width_lr=0.0).width_lr_range == (0.0, 0.0), "a last part is at most the first"


def test_presets_differ_and_unknown_ones_are_named():
    names = ("mlp", "regression", "deep", "resnet", "layers", "layers-equivariant")
    presets = [FitConfig.preset(name) for name in names]
    assert len({repr(preset) for preset in presets}) == len(names)
    assert presets[-1].weights == WeightConfig(
        lr=5e-3, relative_lr=0.15, warmup_epochs=4, max_grad_norm=0.05, prior_scaled_lr=True
    )
    with pytest.raises(StructureError, match="mlp, regression, deep, resnet, layers, layers-equivariant, got 'texts'"):
        FitConfig.preset("texts")


@pytest.mark.parametrize("config", [FitConfig(), FitConfig.preset("layers-equivariant"), PLAIN])
def test_toml_gives_back_every_setting(config):
    assert FitConfig.from_toml(config.to_toml()) == config


def test_toml_takes_defaults_for_what_it_does_not_name():
    text = "epochs = 3\n[hyper]\nlr = 1\nnum_data = 'none'\n"
    found = FitConfig.from_toml(text)
    assert found == FitConfig(epochs=3, hyper=HyperConfig(lr=1.0, num_data=None))
    assert isinstance(found.hyper.lr, float)
    assert FitConfig.from_toml(text, PLAIN).evaluation == PLAIN.evaluation != EvalConfig()
    with pytest.raises(StructureError, match="not valid TOML"):
        FitConfig.from_toml("epochs = ")
    with pytest.raises(StructureError, match="Unknown setting 'hyper.rate'"):
        FitConfig.from_toml("[hyper]\nrate = 1\n")
