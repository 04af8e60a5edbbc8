import pytest

from covary._errors import StructureError
from covary.config import FitConfig


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
