"""A finished fit: made by `fit`, saved to a folder, loaded with `load`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._text import clipped
from .._types import Resampling
from ..augment import Augmentation
from ..augment import save as save_augmentation
from ..batches import Data, as_batches, outputs_of
from ..config import FitConfig
from ..curvature.registry import Curvature, CurvatureName
from ..data.dataset import Augmented, Dataset
from ..distributed import sole_writer
from ..errors import DataError, StructureError
from ..layer_summary.prune import PRUNED, load_pruned
from ..likelihoods import Bernoulli, Categorical
from ..models import Model, ModelParts, as_model
from ..posterior import Laplace
from ..priors import Prior, matching_patterns
from ..records import Epoch, Evidence, Layer, Metrics, RunRecord, Symmetry, read_run, write_run
from ..records.checksums import checksums
from ..records.tables import run_text
from .callbacks import Callback
from .checkpoint import Checkpoints
from .held_out import TEST_BATCH, held_out_batches, measure
from .inputs import Array, explained, is_exact, made_for, require_inputs, trained_shape
from .loop import train as train_model
from .modes import set_training
from .presets import settings_of
from .schedule import TEST, seed_for
from .storage import MODEL, load_model, save_model
from .widths import augmentation_of


@dataclass(frozen=True)
class Run(ModelParts):
    """A finished fit.

    Arguments:
        model: Network, likelihood and prior in their best state, also `run.network`, `run.likelihood` and `run.prior`;
            the network is in evaluation mode.
        record: Everything that a report says, as plain data.

    Example:
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=6, callbacks=())
        >>> run.predict(x).shape, run.predict_proba(x).shape
        (torch.Size([20]), torch.Size([20, 2]))
    """

    model: Model
    record: RunRecord

    @property
    def augment(self) -> Augmentation | None:
        """The augmentation that the network averages over; None where it has none."""
        return augmentation_of(self.network)

    @property
    def class_names(self) -> list[str]:
        """The name of each class that `predict` returns the number of; empty where the data had none."""
        return self.record.class_names

    @property
    def symmetries(self) -> list[Symmetry]:
        """What was learned: name, width, unit, and what it means."""
        return self.record.symmetries

    @property
    def evidence(self) -> Evidence | None:
        """The evidence of the training data in its terms."""
        return self.record.evidence

    @property
    def layers(self) -> list[Layer]:
        """What each relaxed layer became; empty for a network without such layers, or where nothing was learned."""
        return self.record.layers

    def predict(self, x: Array, num_samples: int | None = None) -> Tensor:
        """The most probable class of each datum or position, binary answers, or the mean of counts and real numbers.

        Arguments:
            x: The data, a tensor or an array (N, ...) with any N; bytes are divided by 255, as in training.
            num_samples: Augmentation samples per datum; None for as many as in training.
        """
        means = self.predict_proba(x, num_samples)
        if isinstance(self.likelihood, Categorical):
            return means.argmax(1)
        return (means > 0.5).long() if isinstance(self.likelihood, Bernoulli) else means

    @torch.no_grad()
    def predict_proba(self, x: Array, num_samples: int | None = None) -> Tensor:
        """The probability of each class, shape (N, C, ...), or the mean of counts and real numbers, in batches.

        Inputs may be on any device, and the result is on theirs.

        Arguments:
            x: The data, a tensor or an array (N, ...) with any N; bytes are divided by 255, as in training.
            num_samples: Augmentation samples per datum; None for as many as in training.
        """
        self._check_inputs(x)
        network, seed = self._sampled(num_samples), seed_for(self._seed, TEST)
        batches = as_batches((x, torch.arange(len(x), device="cpu")), TEST_BATCH).matching(network)
        with explained(x, trained_shape(self.record)):
            found = torch.cat([self.likelihood.mean(outputs_of(network, batch, seed)) for batch in batches])
            return found.to(x.device) if isinstance(x, Tensor) else found.cpu()

    def evaluate(self, data: Data, num_samples: int | None = None) -> Metrics:
        """Accuracy, negative log-likelihood and calibration error on data.

        Arguments:
            data: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`.
            num_samples: Augmentation samples per datum; None for as many as in training.
        """
        network = self._sampled(num_samples)
        first = next(iter(held_out_batches(network, data))).x
        self._check_inputs(first)
        if tuple(first.shape[1:]) == trained_shape(self.record):
            return measure(network, self.likelihood, data, self._seed)
        with explained(first, trained_shape(self.record)):
            return measure(network, self.likelihood, data, self._seed)

    def posterior(self, data: Data, curvature: Curvature | CurvatureName = "kron") -> Laplace:
        """The Laplace posterior of the weights.

        Arguments:
            data: The training data.
            curvature: The curvature, or its structure.
        """
        self._check_data(data)
        return Laplace(self.model, data, curvature)

    def fit_more(
        self,
        train: Data | Augmented,
        epochs: int,
        *,
        test: Data | None = None,
        checkpoints: Checkpoints | None = None,
        callbacks: Sequence[Callback | Callable[[Epoch], None]] | None = None,
    ) -> "Run":
        """Continue training from this state, and return the new run; the model is changed in place.

        The settings are those of this run, without burn-in and warm-up; modules that were in evaluation mode in this
        run stay in it. Optimizers and learning-rate schedules start from the beginning. To continue an interrupted fit
        bit for bit, resume from its checkpoints instead.

        Arguments:
            train: The training data.
            epochs: Further epochs.
            test: As for `fit`.
            checkpoints: As for `fit`.
            callbacks: As for `fit`.
        """
        self._check_data(train.data if isinstance(train, Augmented) else train)
        names = FitConfig().as_dict()
        config = FitConfig().replace(**{name: self.record.config[name] for name in names})
        start = config.replace(weights={"warmup_epochs": 0}, hyper={"burn_in": 0})
        set_training(self.network, self.record.model.get("evaluation_modules", ()))
        return fit(self.model, train, start, test=test, checkpoints=checkpoints, callbacks=callbacks, epochs=epochs)

    def save(self, folder: str | Path) -> Path:
        """Return the folder, with `run.json`, `model.safetensors` and, with an augmentation, `augment.json` in it.

        An earlier run there is replaced without a question. Its files that this one does not have are removed: an
        augmentation, a pruned network, a report, a geometry, a corrected evidence.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise DataError(f"Expected a folder to save the run to, got '{folder}', which is a file. Name a folder.")
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self.model, folder)
        if self.augment is not None:
            save_augmentation(self.augment, folder / "augment.json")
        else:
            (folder / "augment.json").unlink(missing_ok=True)
        if self.record.pruned is None:
            (folder / PRUNED).unlink(missing_ok=True)
        for drawn in ("report.html", "geometry.json", "geometry.svg", "evidence.json"):
            (folder / drawn).unlink(missing_ok=True)
        files = checksums(folder, (MODEL, "augment.json", PRUNED))
        write_run(replace(self.record, files=files), folder / "run.json")
        return folder

    @property
    def _seed(self) -> int:
        return int(self.record.config["seed"])

    def _check_inputs(self, x: Array) -> None:
        """Raise an error if the record shows that the network was trained on data of another shape."""
        shape, exact = trained_shape(self.record), is_exact(self.record, self.network)
        require_inputs(x, shape, self.record.feature_names, exact)

    def _check_data(self, data: Data) -> None:
        """Raise an error if the first batch of data has another shape than the training data."""
        self._check_inputs(next(iter(as_batches(data))).x)

    def _sampled(self, num_samples: int | None) -> nn.Module:
        if num_samples is None or not isinstance(self.network, Resampling):
            return self.network
        return self.network.with_samples(num_samples)

    def __str__(self) -> str:
        """The table of symmetries, and that of relaxed layers where there are any."""
        return run_text(self.record)


def fit(
    model: nn.Module | Model,
    train: Data | Augmented,
    config: FitConfig | None = None,
    *,
    test: Data | None = None,
    checkpoints: Checkpoints | None = None,
    callbacks: Sequence[Callback | Callable[[Epoch], None]] | None = None,
    **settings: Any,
) -> Run:
    r"""Train a network together with its hyperparameters: weights on the log joint, the rest on the evidence.

    Each epoch is one pass of weight steps over the data; after the burn-in, hyper steps are taken between them. The
    state with the highest evidence, evaluated with the same noise, is kept. Everything random is a function of (seed,
    epoch, index), so a run that is killed and resumed ends bit for bit as without the interruption. With an initialized
    `torch.distributed` process group, all processes pass the same data, and each reads its shard.

    Arguments:
        model: A network, `Averaged` or plain, or a `Model` with a likelihood and prior of your choice. It is trained in
            place and is in evaluation mode afterwards. Modules that were in evaluation mode before stay in it.
        train: Arrays or tensors (x, y), a data set, or an iterable of batches, as for `as_batches`; in
            `covary.data.Augmented` for a transform that only weight steps see.
        config: The settings; by default the preset that suits network and likelihood, see `FitConfig.preset`.
        test: Data to evaluate the trained network on; they are not used to learn or select anything.
        checkpoints: Where and how often to write checkpoints, and whether to resume from them; also written on SIGTERM
            and Ctrl-C. None writes none.
        callbacks: `Callback` objects, or functions of the record of each epoch. None prints progress to standard error;
            () is silent.
        settings: Top-level settings that differ from `config`: `epochs`, `seed`, `curvature`, `device`.

    Example:
        >>> x = torch.randn(20, 2)
        >>> network = covary.Averaged(covary.networks.mlp(2, 4, 2), covary.augment.Rotation2d(), num_samples=2)
        >>> run = covary.fit(network, (x, (x.norm(dim=1) > 1).long()), epochs=6, callbacks=())
        >>> [symmetry.name for symmetry in run.symmetries]
        ['rotation']
    """
    model = as_model(model)
    config = settings_of(model, config, settings)
    if checkpoints is not None and not isinstance(checkpoints, Checkpoints):
        raise StructureError(
            f"Expected checkpoints of type covary.Checkpoints, got {clipped(checkpoints)}. Pass "
            "covary.Checkpoints(folder)."
        )
    with sole_writer(None if checkpoints is None else checkpoints.path):
        record = train_model(model, train, config, test=test, checkpoints=checkpoints, callbacks=callbacks)
    if isinstance(train, Dataset):
        record = replace(record, class_names=list(train.class_names), feature_names=list(train.feature_names))
    return Run(model, record)


def load(folder: str | Path, network: nn.Module | Model | Callable[..., nn.Module] | None = None) -> Run:
    """Return the run that `run.save` or a command wrote, bit for bit; a damaged file is refused.

    Networks of `covary.networks` are rebuilt from the record, also inside `Averaged` or `Standardized`. A network of
    your own must be passed. Nothing that a record names is imported or executed.

    Arguments:
        folder: The folder of the run, or its `run.json`; or its file `pruned.safetensors`, for the pruned network.
        network: The network that was fitted, with or without the wrappers around it, or a function that makes it, for a
            network of your own; a `Model` for a likelihood of your own. A function without arguments, or of
            (image_shape, num_outputs), which are those of the run. Names and shapes have to be those of the run; the
            numbers are replaced, in place.

    Example:
        >>> import tempfile
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=6, callbacks=())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     loaded = covary.load(run.save(folder))
        >>> torch.equal(loaded.predict_proba(x), run.predict_proba(x))
        True
    """
    path = Path(folder)
    place = path.parent if path.name in (PRUNED, "run.json") and path.is_file() else path
    if not place.is_dir():
        found = "is a file" if place.exists() else "does not exist"
        raise DataError(f"Expected the folder of a run, got '{path}', which {found}. Name the folder of a saved run.")
    record = read_run(place)
    if not record.model:
        raise StructureError(f"The record in '{place}' is without a model: it was not saved by a run. Save it again.")
    if network is not None and not callable(network) and not isinstance(network, Model):
        raise StructureError(
            f"Expected a network, or a function that makes it, got {clipped(network)}. Networks of covary.networks are "
            "rebuilt without it."
        )
    given = made_for(network, record) if callable(network) and not isinstance(network, nn.Module) else network
    model = load_model(record, place, given)
    if path.name == PRUNED:
        simple = load_pruned(model.network, place)
        precisions = {} if record.pruned is None else record.pruned.precisions
        point, hyperparameters = matching_patterns(model.prior, simple).values()
        precisions = precisions | {"*": 1.0}
        prior = Prior(simple, precision=precisions, point=point, hyperparameters=hyperparameters)
        model = Model(simple, model.likelihood, prior)
    return Run(model, replace(record, files={}))  # those are of the folder, not of the run
