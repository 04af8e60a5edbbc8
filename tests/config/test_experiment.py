import pytest

from covary.config import ExperimentConfig, FitConfig, layers_config
from covary.config import experiment as discover
from covary.data import transforms
from covary.errors import StructureError


def test_the_settings_of_training_are_among_those_of_a_run():
    settings = ExperimentConfig(data="mnist", fit=FitConfig(epochs=7)).as_dict()
    assert settings["data"] == "mnist"
    assert settings["epochs"] == 7
    assert settings["hyper"]["every"] == 2
    assert "fit" not in settings


def test_settings_of_a_run_are_replaced_by_name():
    config = ExperimentConfig().replace(**{"data": "mnist", "epochs": 3, "hyper.lr": 0.5, "num_samples": 4})
    assert (config.data, config.num_samples, config.fit.epochs, config.fit.hyper.lr) == ("mnist", 4, 3, 0.5)
    assert config.fit.hyper.num_samples == 16
    for name, meant in (("hyper.lrr", "'hyper.lr'"), ("datas", "'data'"), ("fit.epochs", "'epochs'")):
        with pytest.raises(StructureError, match=f"Unknown setting '{name}'. Did you mean {meant}"):
            ExperimentConfig().replace(**{name: 1})


def test_toml_gives_back_every_setting_of_a_run():
    fixed = {"baselines": ("plain", "fixed"), "fixed_widths": {"rotation": 1.5}, "num_train": 50}
    config = ExperimentConfig(size=28, **fixed, fit=FitConfig(epochs=7))
    assert ExperimentConfig.from_toml(config.to_toml()) == config
    layers = layers_config("f-fc+conv", 4)
    assert ExperimentConfig.from_toml("epochs = 2", base=layers) == layers.replace(epochs=2)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"prior": "flat"}, "prior"),
        ({"dtype": "float16"}, "dtype"),
        ({"num_samples": 0}, "num_samples"),
        ({"num_train": 0}, "num_train"),
        ({"baselines": ("best",)}, "baseline"),
        ({"baselines": ("fixed",)}, "widths"),
        ({"fixed_widths": {"rotation": 1.5, "shear": 0.1}}, "rotation, shear belong to the baseline 'fixed'"),
        ({"fixed_widths": {"rotation": 1.5}, "baselines": ("plain", "map")}, "rotation belong to .* not train. Add"),
        ({"prior": "diagonal"}, "diag"),
        ({"train_augment": "crops"}, "train_augment"),
        ({"relaxation": 0.0}, "above 0 and at most 1"),
        ({"relaxation": 1.5}, "above 0 and at most 1"),
        ({"relaxation": float("nan")}, "above 0 and at most 1"),
        ({"relaxation": 0.3}, "requires prior='layerwise' and weights.prior_scaled_lr=true"),
        ({"relaxation": 0.3, "prior": "scalar", "fit": FitConfig.preset("layers-equivariant")}, "prior='scalar'"),
        ({"size": 3}, "'size' to be a whole number from 4 to 1,024 or None \\(in a command none\\), got 3"),
        ({"size": 100_000}, "'size' to be a whole number from 4 to 1,024"),
        ({"network": "relaxed:conv:4", "baselines": ("conv",)}, "would be this network itself"),
        ({"prune": 1.0}, "'prune' to be between 0 and 1"),
        ({"prune": 0.0}, "'prune' to be between 0 and 1"),
        ({"augment": "none", "baselines": ("augerino",)}, "'augerino' is about an augmentation"),
        ({"baselines": ("conv",)}, "relaxed networks"),
    ],
)
def test_a_setting_of_a_run_that_cannot_be_is_named(settings, word):
    with pytest.raises(StructureError, match=word):
        ExperimentConfig(**settings)


def test_the_settings_of_layers_name_the_network_and_its_training():
    settings = layers_config("f-fc+conv", 4)
    assert (settings.network, settings.augment, settings.size) == ("relaxed:f-fc+conv:4", "none", 32)
    assert settings.is_relaxed
    assert settings.fit == FitConfig.preset("layers")
    assert layers_config("s-fc", 2, "weight").network == "relaxed:s-fc:2:weight"
    for alpha in (0, -3, 100_000, 10**20):
        with pytest.raises(StructureError, match=f"'alpha' to be a whole number from 1 to 1,000, got {alpha}"):
            layers_config("s-fc", alpha)


def test_settings_and_data_agree_on_the_least_side():
    """Neither package may import the other, so each has the number."""
    assert discover.LEAST_SIDE == transforms.LEAST_SIDE


@pytest.mark.parametrize("value", ["", [], {}, 3, {"epochs": 1}])
def test_the_settings_of_training_are_named_one_by_one(value):
    with pytest.raises(StructureError, match="Expected 'fit' to be a FitConfig, got .* Name its settings"):
        ExperimentConfig().replace(fit=value)
