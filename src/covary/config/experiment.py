"""What to learn the symmetries of, and with which network, as a frozen record."""

import re
import typing
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from .._text import clipped
from ..errors import StructureError
from .fit import SHALLOW, DataCount, FitConfig, Preset
from .settings import Settings, between, check_setting, names_of, real, unknown

BaselineName = Literal["plain", "fixed", "augerino", "trivialaugment", "randaugment", "map", "conv"]
TaskName = Literal["none", "regression", "digit", "quadrant"]
Equal = Literal["epochs", "time"]
TrainAugment = Literal["none", "flips+shifts"]
BASELINES: tuple[str, ...] = typing.get_args(BaselineName)
TRAIN_AUGMENTS: tuple[str, ...] = typing.get_args(TrainAugment)
RELAXED = "relaxed:"
LEAST_SIDE, MOST_SIDE = 4, 1024
MOST_ALPHA = 1000


@dataclass(frozen=True)
class ExperimentConfig(Settings):
    """What to learn the symmetries of, and with which network.

    Arguments:
        data: A data set by name, an `.npz`, a folder of class folders, a `.csv`, or "package.module:function".
        data_dir: Where data sets are looked for first.
        symmetrize: A known symmetry to put into the data: "rotate:DEG", "translate:PIXELS", "scale:FACTOR" or "none".
        num_train: How many training images to use, drawn by the seed; all by default.
        keys: The names of the arrays of an `.npz`: data and labels, then those of the test part, such as
            ("images", "labels"); x_train, y_train, x_test, y_test by default.
        target: The columns of a `.csv` that a regression predicts.
        test_share: The share of the data, drawn by the seed, that is kept for the test; of a source without test data.
        task: "none", for classes; "regression", for real targets; or each image in a quadrant of a canvas, labeled by
            its class ("digit") or by class and quadrant ("quadrant").
        size: The side that square images are resampled to, at most 1,024; of a folder of images of several sizes, the
            side of the square at the center of each. None leaves images as they are, and canvases of a task at 32.
        standardize: Whether the network sees data standardized by the training set's mean and deviation of each
            channel or column; None for images with several channels and for tables.
        network: A network by name or "package.module:function".
        augment: The augmentation to learn, as `experiments.augmentations` describes it, or "none".
        train_augment: What weight updates see besides, and the evidence does not: "none" or "flips+shifts".
        num_samples: S, the augmentation samples of each image, in weight steps and in the test.
        prior: "scalar", "layerwise" or "diagonal".
        point: Patterns of parameters that are trained with a weight decay and not integrated, such as `"*.bias"`.
        hyperparameters: Patterns of parameters that the evidence trains, beside those of the augmentation.
        relaxation: The size that each weight tensor of a relaxed layer's paths starts with, but for its strict one, in
            units of its usual size; below 1 the priors start as narrow, and the evidence may widen them. 1 starts all
            alike.
        baselines: Other ways to train the same network: "plain" (no augmentation), "fixed", "augerino",
            "trivialaugment" and "randaugment" (random operations that are the same for every data set), "map" (no
            augmentation, precisions fixed at 1, no hyper steps) and, of a relaxed network, "conv" (convolutions alone).
        equal: What baselines have as much of as the run itself: "epochs", or "time": then each is trained a second
            time, for as many epochs as take as many seconds.
        fixed_widths: The widths of the baseline "fixed", by name.
        prune: The share below which a path of a relaxed layer is removed afterwards; None keeps all.
        dtype: "float32" or "float64".
        fit: How it is trained.

    Example:
        >>> from covary.config import ExperimentConfig
        >>> ExperimentConfig(network="cnn").replace(**{"hyper.lr": 0.05}).fit.hyper.lr
        0.05
    """

    data: str = "mnist-mini"
    data_dir: str | None = None
    symmetrize: str = "none"
    num_train: DataCount | None = None
    keys: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    test_share: Annotated[float, real("at least 0 and below 1", lambda value: 0 <= value < 1)] = 0.0
    task: TaskName = "none"
    size: Annotated[int, between(LEAST_SIDE, MOST_SIDE)] | None = None
    standardize: bool | None = None
    network: str = "mlp"
    augment: str = "affine"
    train_augment: TrainAugment = "none"
    num_samples: DataCount = 8
    prior: Literal["scalar", "layerwise", "diagonal"] = "layerwise"
    point: tuple[str, ...] = ()
    hyperparameters: tuple[str, ...] = ()
    relaxation: Annotated[float, real("above 0 and at most 1", lambda value: 0 < value <= 1)] = 1.0
    baselines: tuple[BaselineName, ...] = ()
    equal: Equal = "epochs"
    fixed_widths: dict[str, float] = field(default_factory=dict)
    prune: Annotated[float, real("between 0 and 1, such as 0.01", lambda value: 0 < value < 1)] | None = None
    dtype: Literal["float32", "float64"] = "float32"
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        """Raise `StructureError` for the first setting, or pair of settings, that is impossible."""
        super().__post_init__()
        self._check_relaxation()
        self._check_baselines()
        curvature = self.fit.curvature
        if self.prior == "diagonal" and curvature not in ("diag", "full"):
            raise StructureError(
                f"Expected 'curvature' to be 'diag' or 'full' with a diagonal prior, got '{curvature}'. Set one of "
                "them."
            )

    @property
    def is_relaxed(self) -> bool:
        """Whether the network is one of relaxed layers, by its name."""
        return self.network.startswith(RELAXED)

    def _check_relaxation(self) -> None:
        scaled = self.fit.weights.prior_scaled_lr
        if self.relaxation < 1 and not (self.prior == "layerwise" and scaled):
            raise StructureError(
                f"'relaxation'={self.relaxation} requires prior='layerwise' and weights.prior_scaled_lr=true, got "
                f"prior='{self.prior}' and weights.prior_scaled_lr={str(scaled).lower()}. Set those, or relaxation=1."
            )

    def _check_baselines(self) -> None:
        for name in self.baselines:
            if self.augment == "none" and name in ("plain", "fixed", "augerino"):
                raise StructureError(
                    f"The baseline '{name}' is about an augmentation, and this run learns none. Leave it out, or name "
                    "an augmentation."
                )
        if self.equal == "time" and not self.baselines:
            raise StructureError("'equal'='time' is about baselines, and this run trains none. Name some, or drop it.")
        if "fixed" in self.baselines and not self.fixed_widths:
            raise StructureError(
                "The baseline 'fixed' needs widths. Add them, such as --set 'fixed_widths={rotation=1.57}'; those "
                "without a name are 0."
            )
        if self.fixed_widths and "fixed" not in self.baselines:
            raise StructureError(
                f"The widths of {', '.join(self.fixed_widths)} belong to the baseline 'fixed', which this run does "
                "not train. Add it to the baselines, or leave the widths out."
            )
        if "conv" in self.baselines and not self.is_relaxed:
            raise StructureError(
                f"The baseline 'conv' belongs to relaxed networks, such as {RELAXED}f-fc+conv:4, got {self.network!r}."
            )
        if "conv" in self.baselines and self.network.startswith(f"{RELAXED}conv:"):
            raise StructureError(
                f"The baseline 'conv' would be this network itself, {self.network!r}. Leave it out, or choose another "
                "variant."
            )

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, those of training among them; each group of these is a mapping of its own."""
        plain = super().as_dict()
        return {name: value for name, value in plain.items() if name != "fit"} | plain["fit"]

    def replace(self, **settings: Any) -> "ExperimentConfig":
        """Return these settings with some of them changed; those of training are named without "fit".

        Example:
            >>> config = ExperimentConfig().replace(**{"data": "mnist", "hyper.lr": 0.05})
            >>> config.fit.hyper.lr
            0.05
        """
        own = [part.name for part in fields(self)]
        known = [name for name in own if name != "fit"] + names_of(self.fit)
        for name in settings:
            if name not in known and name != "fit":
                raise StructureError(unknown(name, known))
        if not isinstance(settings.get("fit", self.fit), FitConfig):  # as a file might name it
            raise StructureError(
                f"Expected 'fit' to be a FitConfig, got {clipped(settings['fit'])}. Name its settings."
            )
        training = {name: value for name, value in settings.items() if name not in own}
        fit = settings.get("fit", self.fit).replace(**training)
        return super().replace(**{name: value for name, value in settings.items() if name in own} | {"fit": fit})


def discover_config(network: str = "mlp", task: TaskName = "none", epochs: int | None = None) -> ExperimentConfig:
    """The settings that an augmentation is learned with, for a network of this name.

    Arguments:
        network: A network by name or "package.module:function".
        task: "none" for classes, or "regression", where no augmentation is learned unless one is named.
        epochs: Passes over the training data; None for those of the preset, see `FitConfig.preset`.

    Example:
        >>> from covary.config import discover_config
        >>> discover_config("cnn").fit.weights.warmup_epochs
        2
    """
    fit = FitConfig.preset(_preset_of_name(network, task), epochs)
    augment = "none" if task == "regression" else "affine"
    return ExperimentConfig(network=network, task=task, augment=augment, fit=fit)


def _preset_of_name(network: str, task: str) -> Preset:
    """The preset that `fit` chooses by the layers of a network of this name; "deep" for a function of the user."""
    if network.startswith(RELAXED):
        return "layers"
    if network.startswith("resnet-"):
        return "resnet"
    hidden = re.fullmatch(r"mlp(:\d+(-\d+)*)?", network)
    if not hidden or network.count("-") + 2 > SHALLOW:
        return "deep"
    return "regression" if task == "regression" else "mlp"


def layers_config(
    variant: str, alpha: int, length_scale: str = "fixed", relaxation: float = 1.0, epochs: int | None = None
) -> ExperimentConfig:
    """The settings that layer-wise equivariance is learned with: the reference network on 32 × 32 standardized pixels.

    Arguments:
        variant: The paths of each layer, such as "f-fc+conv".
        alpha: The width of the network, from 1 to 1,000.
        length_scale: Of sparse layers: "fixed", a "weight" with a prior, or a "hyperparameter".
        relaxation: The size that the weights of all paths but the equivariant one start with; below 1 training begins
            at the equivariant network.
        epochs: As for `discover_config`.

    Example:
        >>> from covary.config import layers_config
        >>> layers_config("f-fc+conv", 4).network
        'relaxed:f-fc+conv:4'
    """
    check_setting("alpha", alpha, Annotated[int, between(1, MOST_ALPHA)])
    name = f"{RELAXED}{variant}:{alpha}" + ("" if length_scale == "fixed" else f":{length_scale}")
    fit = FitConfig.preset("layers" if relaxation == 1 else "layers-equivariant", epochs)
    return ExperimentConfig(network=name, augment="none", size=32, standardize=True, relaxation=relaxation, fit=fit)
