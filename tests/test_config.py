import pytest

from covary.config import IMAGES, LAYERS, STRICT, ExperimentConfig, FitConfig, layers_config
from covary.config import experiment as discover
from covary.data import resize
from covary.errors import StructureError


def test_defaults_are_valid_and_plain():
    assert FitConfig().as_dict()["estimator"] == "two_pass"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"optimizer": "lbfgs"}, "optimizer"),
        ({"estimator": "guess"}, "estimator"),
        ({"curvature": "kernel"}, "curvature"),
        ({"burn_in": -1}, "burn_in"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"augment_rate": -0.1}, "augment_rate"),
        ({"momentum": 1.0}, "momentum"),
        ({"warm_up": -1}, "warm_up"),
        ({"relative_to": 0.0}, "relative_to"),
        ({"most_slope": float("inf")}, "most_slope"),
        ({"follow_prior": True}, "relative_to=0.15"),
        ({"columns": 0}, "columns"),
        ({"columns": "some"}, "columns"),
        ({"judge_columns": 0}, "judge_columns"),
        ({"hyper_data": 0}, "hyper_data"),
        ({"curvature": "full", "columns": 1}, "exact"),
        ({"seed": 2**63}, "seed must be a whole number from -2"),
        ({"seed": -(2**63) - 1}, "seed"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings, word):
    with pytest.raises(StructureError, match=word):
        FitConfig(**settings)


def test_the_settings_of_a_run_are_one_flat_table():
    settings = ExperimentConfig(data="mnist", fit=FitConfig(epochs=7)).as_dict()
    assert settings["data"] == "mnist"
    assert settings["epochs"] == 7
    assert "fit" not in settings


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
        ({"relaxation": 0.3}, "needs a layerwise prior and follow_prior"),
        ({"relaxation": 0.3, "prior": "scalar", "fit": STRICT}, "prior='scalar'"),
        ({"size": 3}, "size must be a whole number from 4 to 1,024; 3 came"),
        ({"size": 100_000}, "size must be a whole number from 4 to 1,024"),
        ({"network": "relaxed:conv:4", "baselines": ("conv",)}, "would be this network itself"),
        ({"prune": 1.0}, "share between 0 and 1"),
        ({"prune": 0.0}, "share between 0 and 1"),
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
    assert settings.fit == LAYERS != IMAGES
    assert layers_config("s-fc", 2, "weight").network == "relaxed:s-fc:2:weight"
    for alpha in (0, -3, 100_000, 10**20):
        with pytest.raises(StructureError, match=f"alpha must be a whole number from 1 to 1,000; {alpha} came"):
            layers_config("s-fc", alpha)


def test_settings_and_data_agree_on_the_least_side():
    """Neither room may import the other, so each has the number."""
    assert discover.LEAST_SIDE == resize.LEAST_SIDE


def test_seeds_of_64_bits_are_taken():
    assert [FitConfig(seed=seed).seed for seed in (-(2**63), 2**63 - 1)] == [-(2**63), 2**63 - 1]
