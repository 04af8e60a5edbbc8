"""Estimators of scikit-learn that train a network with `covary.fit`: `CovaryClassifier` and `CovaryRegressor`."""

import json
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from numbers import Integral
from pathlib import Path
from typing import Any, no_type_check

import numpy as np
import torch
from torch import Tensor, nn

from .._files import require_regular, write_text
from .._text import clipped
from ..augment import Augmentation
from ..config import FitConfig
from ..errors import DataError, MissingLibraryError, ShapeError, StructureError
from ..likelihoods import Categorical, Gaussian
from ..models import Model
from ..networks import Averaged, build
from ..networks.named import is_function
from ..training import Run, fit, load
from ..training.presets import preset_of

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn") from error

ESTIMATOR = "estimator.json"
FORMAT, VERSION = "covary.sklearn", 1
PLAIN = (str, int, float, type(None))
Array = np.ndarray[Any, np.dtype[Any]]
Network = str | nn.Module | Callable[[tuple[int, ...], int], nn.Module]


class _Estimator(BaseEstimator):
    """What both estimators have in common: parameters, training, saving and loading."""

    network: Network
    augment: Augmentation | None
    image_shape: tuple[int, int, int] | None
    num_samples: int
    epochs: int | None
    config: FitConfig | Mapping[str, Any] | None
    random_state: Any
    run_: Run
    n_features_in_: int

    @no_type_check  # scikit-learn checks parameters in `fit`, and tests that nothing else does
    def __init__(
        self,
        network: Network = "mlp:50",
        *,
        augment: Augmentation | None = None,
        image_shape: tuple[int, int, int] | None = None,
        num_samples: int = 8,
        epochs: int | None = None,
        config: FitConfig | Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.augment = augment
        self.image_shape = image_shape
        self.num_samples = num_samples
        self.epochs = epochs
        self.config = config
        self.random_state = random_state

    def save(self, folder: str | Path) -> Path:
        """Return the folder with the fitted estimator in it, without pickle: a saved run and `estimator.json`.

        Arguments:
            folder: The folder, which is made if it does not exist.
        """
        check_is_fitted(self)
        folder = self.run_.save(folder)
        config = None if self.config is None else _settings(self.config, self.run_.model, self.epochs)
        parameters = self.get_params(deep=False).items()
        given: dict[str, Any] = {name: value if isinstance(value, PLAIN) else None for name, value in parameters}
        given |= {"image_shape": self.image_shape, "config": None if config is None else config.to_toml()}
        fitted = {"n_features_in_": self.n_features_in_, **self._fitted_state()}
        record = {"format": FORMAT, "version": VERSION, "kind": type(self).__name__, "given": given, "fitted": fitted}
        write_text(folder / ESTIMATOR, json.dumps(record, indent=2) + "\n")
        return folder

    @classmethod
    def load(cls, folder: str | Path, network: nn.Module | None = None) -> Any:
        """Return the estimator that `save` wrote, with the same predictions bit for bit.

        Arguments:
            folder: The folder.
            network: A network of your own, whose weights are replaced; not needed for a network by name.
        """
        try:
            require_regular(Path(folder) / ESTIMATOR)  # a pipe would block
            record = json.loads((Path(folder) / ESTIMATOR).read_text(encoding="utf-8"))
            if (record["format"], record["version"], record["kind"]) != (FORMAT, VERSION, cls.__name__):
                raise ValueError(f"it holds a {record['kind']} of {record['format']} {record['version']}")
            given, fitted = record["given"], record["fitted"]
            given["config"] = None if given["config"] is None else FitConfig.from_toml(given["config"])
            given["image_shape"] = None if given["image_shape"] is None else tuple(given["image_shape"])
            num_features = int(fitted["n_features_in_"])
            name = given["network"]
            if name is not None and is_function(name):  # a record has no say in what a later fit calls
                given["network"] = None
            if given.keys() != set(cls._get_param_names()):
                raise ValueError(f"its parameters are {', '.join(given):.200}")
        except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise DataError(f"Expected a folder that {cls.__name__}.save wrote, got '{folder}' ({error}).") from error
        run = load(folder, network)
        given |= {"network": given["network"] or network or run.network, "augment": run.augment}
        estimator = cls(**given)
        estimator.run_, estimator.n_features_in_ = run, num_features
        estimator._restore_state(fitted)
        return estimator

    def _train(self, inputs: Array, targets: Tensor, num_outputs: int, likelihood: Categorical | Gaussian) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        x = self._as_inputs(inputs)
        network = self._network(tuple(x.shape[1:]), num_outputs, seed).to(x.dtype)
        if self.augment is not None:
            network = Averaged(network, deepcopy(self.augment), self.num_samples).to(x.dtype)
        model = Model(network, likelihood.to(x.dtype))
        config = _settings(self.config, model, self.epochs)
        try:
            self.run_ = fit(model, (x, targets), config, callbacks=(), seed=seed)
        except ShapeError as error:
            if self.augment is None or self.image_shape is not None:
                raise
            raise ShapeError(f"{error} For rows that are images, set image_shape=(C, H, W).") from error
        if self.run_.record.problem is not None:
            warnings.warn(self.run_.record.problem, ConvergenceWarning, stacklevel=3)

    def _network(self, input_shape: tuple[int, ...], num_outputs: int, seed: int) -> nn.Module:
        if isinstance(self.network, nn.Module):
            return deepcopy(self.network)
        if isinstance(self.network, str):
            image_shape = (1, 1, *input_shape) if len(input_shape) == 1 else input_shape
            return build(self.network, image_shape, num_outputs, seed)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            made = self.network(input_shape, num_outputs)
        if not isinstance(made, nn.Module):
            raise StructureError(
                f"Expected `network` to be a name, a torch.nn.Module, or a function of (input_shape, num_outputs) that "
                f"makes one, got a {type(made).__name__} from {self.network!r}."
            )
        return made

    def _as_inputs(self, inputs: Array) -> Tensor:
        """Inputs as a tensor (N, D), or (N, C, H, W) of images."""
        x = torch.from_numpy(np.ascontiguousarray(inputs))
        if self.image_shape is None:
            return x
        if x.shape[1] != np.prod(self.image_shape):
            raise ShapeError(
                f"Expected {np.prod(self.image_shape)} features, the pixels of image_shape={self.image_shape}, got "
                f"{x.shape[1]}. Pass images as rows: images.reshape(len(images), -1)."
            )
        return x.unflatten(1, self.image_shape)

    def _probabilities(self, inputs: Any) -> Array:
        """Means of the likelihood, (N, C)."""
        check_is_fitted(self)
        x = validate_data(self, inputs, reset=False, dtype=[np.float64, np.float32])
        return self.run_.predict_proba(self._as_inputs(x)).double().numpy()

    def _fitted_state(self) -> dict[str, Any]:
        """What `save` writes beside the run; classifier and regressor have their own."""
        raise NotImplementedError

    def _restore_state(self, state: Mapping[str, Any]) -> None:
        """Set what `_fitted_state` has returned; classifier and regressor have their own."""
        raise NotImplementedError


class CovaryClassifier(ClassifierMixin, _Estimator):
    """A network for classes, trained with its prior and the widths of its augmentation, as a scikit-learn estimator.

    Inputs are not standardized: put a `StandardScaler` before it in a `Pipeline`. The network has the dtype of the
    inputs. With an augmentation, predictions depend on the position of a row in X, by the noise of its samples.

    Arguments:
        network: A name of `covary.networks.build` ("mlp:50", "lenet", …), a function of (input_shape, num_outputs) that
            makes a network, or a network, which is copied.
        augment: The augmentation to learn, such as `covary.augment.Affine2d()`, which is copied; None for none.
        image_shape: The shape (C, H, W) of the image that each row of X is; None for plain features.
        num_samples: Augmentation samples per datum.
        epochs: Passes over the data; None for those of `config`.
        config: A `FitConfig`, or settings that differ from the preset; the seed is that of `random_state`.
        random_state: The seed of initial weights, shuffles and noise; None draws one.

    Attributes:
        run_: The fitted `covary.Run`, with evidence, symmetries and posterior.
        classes_: The classes, sorted.

    Example:
        >>> import numpy as np
        >>> from covary.integrations.sklearn import CovaryClassifier
        >>> x = np.random.default_rng(0).normal(size=(40, 2))
        >>> model = CovaryClassifier("mlp:4", epochs=8, random_state=0).fit(x, np.where(x[:, 0] > 0, "right", "left"))
        >>> model.classes_, model.predict_proba(x).shape
        (array(['left', 'right'], dtype='<U5'), (40, 2))
    """

    classes_: Array

    def fit(self, X: Any, y: Any) -> "CovaryClassifier":
        """Train on rows X (N, D) and classes y (N,), of any type, and return the estimator itself."""
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"Expected two classes or more in y, got 1 class ({self.classes_[0]!r}).")
        self._train(x, torch.from_numpy(numbers), len(self.classes_), Categorical())
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, shape (N, C), in the order of `classes_`."""
        return self._probabilities(X)

    def predict(self, X: Any) -> Array:
        """Most probable class of each row, shape (N,)."""
        most = self._probabilities(X).argmax(1)
        return self.classes_[most]

    def _fitted_state(self) -> dict[str, Any]:
        return {"classes_": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _restore_state(self, state: Mapping[str, Any]) -> None:
        self.classes_ = np.array(state["classes_"], dtype=state["dtype"])


class CovaryRegressor(RegressorMixin, _Estimator):
    """A network for real numbers, trained with its noise, prior and augmentation, as a scikit-learn estimator.

    Targets are standardized for training, and predictions have their unit. Inputs are not: put a `StandardScaler`
    before it in a `Pipeline`. The network has the dtype of the inputs.

    Arguments:
        network: As for `CovaryClassifier`.
        augment: As for `CovaryClassifier`.
        image_shape: As for `CovaryClassifier`.
        num_samples: Augmentation samples per datum.
        epochs: Passes over the data; None for those of `config`.
        config: A `FitConfig`, or settings that differ from the preset; the seed is that of `random_state`.
        random_state: The seed of initial weights, shuffles and noise; None draws one.

    Attributes:
        run_: The fitted `covary.Run`, of the standardized targets.

    Example:
        >>> import numpy as np
        >>> from covary.integrations.sklearn import CovaryRegressor
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> CovaryRegressor("mlp:4", epochs=8, random_state=0).fit(x, x[:, 0] ** 2).predict(x).shape
        (40,)
    """

    y_mean_: Array
    y_scale_: Array

    def fit(self, X: Any, y: Any) -> "CovaryRegressor":
        """Train on rows X (N, D) and numbers y (N,) or (N, K), and return the estimator itself."""
        kinds = [np.float64, np.float32]
        x, y = validate_data(self, X, y, dtype=kinds, multi_output=True, y_numeric=True, ensure_min_samples=2)
        y = y.astype(np.float64)
        self.y_mean_, scale = y.mean(0), y.std(0)
        self.y_scale_ = np.where(scale > 0, scale, 1.0)
        targets = torch.from_numpy((y - self.y_mean_) / self.y_scale_).to(torch.from_numpy(x[:0]).dtype)
        targets = targets.unsqueeze(1) if targets.ndim == 1 else targets
        self._train(x, targets, targets.shape[1], Gaussian(1.0))
        return self

    def predict(self, X: Any) -> Array:
        """Predictive mean of each row, shape (N,) or (N, K) as the targets were."""
        means = self._probabilities(X)
        return (means if self.y_mean_.ndim else means[:, 0]) * self.y_scale_ + self.y_mean_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _fitted_state(self) -> dict[str, Any]:
        return {"y_mean_": self.y_mean_.tolist(), "y_scale_": self.y_scale_.tolist()}

    def _restore_state(self, state: Mapping[str, Any]) -> None:
        self.y_mean_, self.y_scale_ = np.asarray(state["y_mean_"]), np.asarray(state["y_scale_"])


def _settings(given: FitConfig | Mapping[str, Any] | None, model: Model, epochs: Any) -> FitConfig:
    """Settings of a fit; those of a mapping differ from the preset of the model."""
    if not isinstance(epochs, Integral | None):
        raise StructureError(f"Expected 'epochs' to be a whole number, got {clipped(epochs)}.")
    named = {} if epochs is None else {"epochs": int(epochs)}
    if isinstance(given, FitConfig):
        return given.replace(**named)
    named = dict(given or {}) | named
    return FitConfig.preset(preset_of(model), named.get("epochs")).replace(**named)
