"""Estimators of scikit-learn, by its own checks, in its pipelines and searches, and saved without pickle."""

import json
import os
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import covary
from covary.errors import DataError, ShapeError, StructureError

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402
from sklearn.utils.estimator_checks import check_estimators_overwrite_params as check_parameters_unchanged  # noqa: E402

from covary.integrations.sklearn import CovaryClassifier, CovaryRegressor  # noqa: E402

# Weight steps alone: scikit-learn's checks fit a hundred times.
QUICK = {
    "hyper": {"burn_in": 1000},
    "evaluation": {"num_evaluations": 0},
    "weights": {"lr": 0.02, "batch_size": 20},
}
EXPECTED_FAILURES: dict[str, str] = {}  # name of a check -> why it fails


def blobs(num_data=60):
    noise = np.random.default_rng(0)
    y = np.arange(num_data) % 3
    return np.array([[0.0, 4.0], [4.0, 0.0], [-4.0, -4.0]])[y] + noise.normal(size=(num_data, 2)), y


@pytest.mark.parametrize("kind", [CovaryClassifier, CovaryRegressor])
def test_scikit_learns_own_checks(kind):
    estimator = kind("mlp:8", epochs=5, config=QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of networks that five epochs do not train
        found = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES, on_fail=None)
    failed = {row["check_name"]: row["exception"] for row in found if row["status"] == "failed"}
    assert failed == {}
    passed = [row["check_name"] for row in found if row["status"] == "passed"]
    assert {"check_estimators_pickle", "check_fit_idempotent", "check_methods_subset_invariance"} <= set(passed)
    assert len(passed) > 45


def test_a_regressor_takes_the_preset_of_a_regression():
    x = np.linspace(-1, 1, 30)[:, None]
    config = CovaryRegressor("mlp:4", epochs=5, random_state=0).fit(x, x[:, 0] ** 2).run_.record.config
    assert (config["weights"]["lr"], config["hyper"]["burn_in"], config["epochs"]) == (0.02, 2, 5)
    other = CovaryRegressor("mlp:4", config={"epochs": 5, "weights": {"lr": 0.01}}, random_state=0)
    config = other.fit(x, x[:, 0] ** 2).run_.record.config
    assert (config["weights"]["lr"], config["hyper"]["burn_in"], config["epochs"]) == (0.01, 2, 5)


def test_a_broken_estimator_fails_these_checks():
    class Forgetful(CovaryClassifier):
        def fit(self, X, y):
            self.epochs = 3  # a parameter that fit changes
            return super().fit(X, y)

    with pytest.raises(AssertionError, match="should not change or mutate"):
        check_parameters_unchanged("Forgetful", Forgetful("mlp:2", epochs=1, config=QUICK))


def test_pipeline_and_grid_search():
    x, y = blobs()
    names = np.array(["one", "two", "three"])[y]
    pipeline = make_pipeline(StandardScaler(), CovaryClassifier("mlp:8", epochs=15, config=QUICK, random_state=0))
    search = GridSearchCV(pipeline, {"covaryclassifier__network": ["mlp:1", "mlp:8"]}, cv=2).fit(100 * x, names)
    assert search.best_score_ > 0.9
    assert search.predict(100 * x[:3]).tolist() == names[:3].tolist()
    assert search.score(100 * x, names) > 0.9


def test_the_same_random_state_gives_the_same_fit_and_another_one_does_not():
    x, y = blobs()
    first, second, other = (
        CovaryClassifier("mlp:4", epochs=2, config=QUICK, random_state=seed).fit(x, y) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.predict_proba(x), second.predict_proba(x))
    assert not np.allclose(first.predict_proba(x), other.predict_proba(x))


def test_a_network_and_an_augmentation_are_copied_and_learned():
    noise = torch.Generator().manual_seed(0)
    x = torch.randn(40, 1, 4, 4, generator=noise)
    y = (x[:, 0, 1:3, 1:3].mean((1, 2)) > 0).long()
    inner, augment = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), covary.augment.FiniteGroup("flips", 0.1)
    before = {name: value.clone() for name, value in inner.state_dict().items()}
    settings = {"hyper": {"burn_in": 1, "num_samples": 4, "num_data": 8}, "weights": {"lr": 0.02}}
    estimator = CovaryClassifier(
        inner, augment=augment, image_shape=(1, 4, 4), num_samples=4, epochs=4, config=settings, random_state=0
    )
    copy = clone(estimator).fit(x.flatten(1).numpy(), y.numpy())
    estimator.fit(x.flatten(1).numpy(), y.numpy())
    assert all(torch.equal(value, before[name]) for name, value in inner.state_dict().items())
    assert estimator.network is inner
    assert estimator.augment is augment
    assert [symmetry.name for symmetry in estimator.run_.symmetries] == ["flip_x", "flip_y", "half_turn"]
    assert estimator.run_.evidence is not None
    assert np.array_equal(copy.predict_proba(x.flatten(1)), estimator.predict_proba(x.flatten(1)))


def test_regression_in_the_unit_of_the_targets():
    x = np.linspace(-2, 2, 60)[:, None]
    y = np.hstack([1000 + 300 * np.sin(x), 0.01 * x])
    estimator = CovaryRegressor("mlp:16", epochs=80, config=QUICK, random_state=0).fit(x, y)
    assert estimator.predict(x).shape == (60, 2)
    assert estimator.score(x, y) > 0.9
    assert CovaryRegressor("mlp:2", epochs=1, config=QUICK).fit(x, y[:, 0]).predict(x).shape == (60,)


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], [False, True]])
def test_save_and_load_without_pickle(tmp_path, labels):
    x, y = blobs()
    estimator = CovaryClassifier("mlp:4", epochs=2, config=QUICK, random_state=3).fit(x, np.array(labels)[y % 2])
    folder = estimator.save(tmp_path / "model")
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".safetensors"}
    loaded = CovaryClassifier.load(folder)
    assert np.array_equal(loaded.predict_proba(x), estimator.predict_proba(x))
    assert loaded.predict(x).dtype == estimator.predict(x).dtype
    assert loaded.get_params()["network"] == "mlp:4"
    assert loaded.get_params()["random_state"] == 3
    with pytest.raises(DataError, match="CovaryRegressor.save wrote.*holds a CovaryClassifier"):
        CovaryRegressor.load(folder)
    (folder / "estimator.json").write_text(json.dumps({"format": "covary.sklearn"}))
    with pytest.raises(DataError, match="CovaryClassifier.save wrote"):
        CovaryClassifier.load(folder)


def test_a_network_of_a_function_is_loaded_with_the_network(tmp_path):
    def small(input_shape, num_outputs):
        return nn.Linear(input_shape[0], num_outputs)

    x, _ = blobs()
    targets = x @ np.array([1.0, -2.0])
    estimator = CovaryRegressor(small, epochs=2, config=QUICK, random_state=0).fit(x, targets)
    loaded = CovaryRegressor.load(estimator.save(tmp_path), nn.Linear(2, 1).double())
    assert np.array_equal(loaded.predict(x), estimator.predict(x))


def test_what_somebody_wrote_into_a_saved_estimator_is_not_called(tmp_path, monkeypatch):
    x, y = blobs()
    folder = CovaryClassifier("mlp:4", epochs=2, config=QUICK).fit(x, y).save(tmp_path / "model")
    (tmp_path / "evil.py").write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    record = json.loads((folder / "estimator.json").read_text())
    record["given"]["network"] = "evil:network"
    (folder / "estimator.json").write_text(json.dumps(record))
    CovaryClassifier.load(folder).fit(x, y)
    assert not (tmp_path / "executed").exists()
    record["given"]["no_parameter"] = 1
    (folder / "estimator.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="its parameters are .*no_parameter"):
        CovaryClassifier.load(folder)
    (folder / "estimator.json").unlink()
    os.mkfifo(folder / "estimator.json")
    with pytest.raises(DataError, match="not a regular file"):
        CovaryClassifier.load(folder)


def test_bad_input():
    x, y = blobs()
    with pytest.raises(ShapeError, match=r"Expected 9 features, the pixels of image_shape=\(1, 3, 3\), got 2"):
        CovaryClassifier(image_shape=(1, 3, 3)).fit(x, y)
    with pytest.raises(ShapeError, match=r"Expected images .* For rows that are images, set image_shape=\(C, H, W\)"):
        CovaryClassifier(augment=covary.augment.Affine2d(), epochs=1).fit(x, y)
    with pytest.raises(StructureError, match="Expected 'epochs' to be a whole number"):
        CovaryClassifier(epochs="many").fit(x, y)
    with pytest.raises(DataError, match="got 1 class"):
        CovaryClassifier().fit(x, 0 * y)
    with pytest.raises(StructureError, match="got a int from"):
        CovaryClassifier(lambda shape, num_outputs: 3).fit(x, y)


def test_a_collapsed_network_is_a_warning_of_scikit_learn():
    x, y = blobs()
    settings = {"weights": {"lr": 0.0}, "hyper": {"burn_in": 1000}, "evaluation": {"num_evaluations": 0}}
    zero = nn.Linear(2, 3).double()
    nn.init.zeros_(zero.weight)
    nn.init.zeros_(zero.bias)
    with pytest.warns(ConvergenceWarning, match="collapsed"):
        CovaryClassifier(zero, epochs=20, config=settings, random_state=0).fit(x, y)
