import pytest

from covary._errors import StructureError
from covary.config import DiscoverConfig, FitConfig


def test_defaults_are_valid_and_plain():
    assert FitConfig().as_dict()["estimator"] == "two_pass"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"optimiser": "lbfgs"}, "optimiser"),
        ({"estimator": "guess"}, "estimator"),
        ({"curvature": "kernel"}, "curvature"),
        ({"burn_in": -1}, "burn_in"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"augment_rate": -0.1}, "augment_rate"),
        ({"momentum": 1.0}, "momentum"),
        ({"columns": 0}, "columns"),
        ({"columns": "some"}, "columns"),
        ({"hyper_data": 0}, "hyper_data"),
        ({"curvature": "full", "columns": 1}, "exact"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings, word):
    with pytest.raises(StructureError, match=word):
        FitConfig(**settings)


def test_the_settings_of_a_run_are_one_flat_table():
    settings = DiscoverConfig(data="mnist", fit=FitConfig(epochs=7)).as_dict()
    assert settings["data"] == "mnist"
    assert settings["epochs"] == 7
    assert "fit" not in settings


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"prior": "flat"}, "prior"),
        ({"dtype": "float16"}, "dtype"),
        ({"num_samples": 0}, "num_samples"),
        ({"limit": 0}, "limit"),
        ({"baselines": ("best",)}, "baseline"),
        ({"baselines": ("fixed",)}, "widths"),
        ({"prior": "diagonal"}, "diag"),
    ],
)
def test_a_setting_of_a_run_that_cannot_be_is_named(settings, word):
    with pytest.raises(StructureError, match=word):
        DiscoverConfig(**settings)
