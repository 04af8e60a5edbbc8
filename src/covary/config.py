"""Settings as frozen records, checked here and nowhere else."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from ._errors import StructureError

__all__ = [
    "BASELINES",
    "IMAGES",
    "LAYERS",
    "TRAIN_AUGMENTS",
    "DiscoverConfig",
    "FitConfig",
    "check_seed",
    "layers_config",
]

OPTIMISERS = ("adam", "sgd")
ESTIMATORS = ("two_pass", "stochastic", "augerino")
CURVATURES = ("kron", "full", "diag")
PRIORS = ("scalar", "layerwise", "diagonal")
BASELINES = ("plain", "fixed", "augerino", "map", "conv")
TYPES = ("float32", "float64")
TRAIN_AUGMENTS = ("none", "flips+shifts")
RELAXED = "relaxed:"
LEAST_SIDE, MOST_SIDE = 4, 1024
MOST_ALPHA = 1000


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise StructureError(f"{name} must be one of {', '.join(choices)}; {value!r} came.")


def _at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise StructureError(f"{name} must be a whole number of at least {least}; {value!r} came.")


def _between(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise StructureError(f"{name} must be a whole number from {least} to {most:,}; {value!r} came.")


def check_seed(seed: object) -> None:
    """Nothing, or an error for a seed that is no whole number of 64 bits with a sign."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise StructureError(f"seed must be a whole number from -2^63 to 2^63 - 1; {seed!r} came. Pass for example 0.")


def _rate(name: str, value: object) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise StructureError(f"{name} must be a finite number of at least 0; {value!r} came.")


def _positive_or_none(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int | float) or not math.isfinite(value) or value <= 0):
        raise StructureError(f"{name} must be a finite number above 0, or None; {value!r} came.")


def _columns(name: str, value: object, exact_only: bool) -> None:
    if value == "exact":
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise StructureError(f"{name} must be 'exact' or a whole number of at least 1; {value!r} came.")
    if exact_only:
        raise StructureError(f"curvature 'full' takes exact columns only. Pass {name}='exact', or use 'kron'.")


@dataclass(frozen=True)
class FitConfig:
    """How a network is trained together with its hyperparameters.

    Rates fall from the first to the `final_` one along half a cosine: those of the weights over all steps, those of the
    hyperparameters over the epochs after the burn-in.

    Arguments:
        epochs: Passes over the training data.
        batch_size: Data in a weight step.
        optimiser: "adam", or "sgd" with momentum, for the weights.
        learning_rate: The weights' rate; parameters with a single entry take a tenth of it.
        relative_to: Makes each weight tensor's rate r s / `relative_to`, with r the rate and s the root mean square
            that the tensor starts with, so that free and shared weights change by the same part of themselves; None
            gives all the rate r, as tensors that start at zero always have.
        warm_up: Epochs over which the weights' rates rise from zero to their place on the cosine.
        most_slope: The Euclidean norm to which the gradient of a weight step is shortened; None never shortens it.
        momentum: The momentum of "sgd".
        burn_in: Epochs before the first hyper step.
        frequency: A hyper step follows every so many epochs.
        estimator: The gradient of the hyperparameters: "two_pass", "stochastic" (a bound from M data), or "augerino"
            (the baseline: joint descent on loss − 0.01 ‖widths‖, no evidence).
        curvature: "kron", "full" or "diag".
        columns: Sketches in the hyper-gradient, or "exact"; "full" needs "exact".
        hyper_data: M, the data that each step on the augmentation reads; all by default.
        hyper_samples: Transformed copies of each datum in hyper steps and judgements, if other than the network's own:
            the scatter of the mean over few copies biases the gradient of a width, and hardly hurts the weights.
        hyper_sets: In how many independent sets those copies are drawn, 1 or 2. With two, Kronecker factors are cross
            products of the sets' means, which the scatter does not bias.
        hyper_steps: Steps on the augmentation and likelihood for one pass over the curvature of all data.
        prior_steps: Steps on the prior for one pass over the curvature of all data.
        augment_rate: Adam's rate for the hyperparameters of the network.
        prior_rate: Adam's rate for the log-precisions.
        likelihood_rate: Adam's rate for the likelihood's parameters (noise, temperature).
        judgements: How many states after the burn-in are judged by their evidence; the best is kept.
        judge_columns: Sketches in judgements and in the read-out of layers, or "exact"; the same ones every time.
        seed: The seed of shuffles, noise and sketches, a whole number from -2^63 to 2^63 - 1.
    """

    epochs: int = 100
    batch_size: int = 250
    optimiser: str = "adam"
    learning_rate: float = 5e-3
    final_learning_rate: float = 1e-6
    relative_to: float | None = None
    warm_up: int = 0
    most_slope: float | None = None
    momentum: float = 0.9
    burn_in: int = 10
    frequency: int = 1
    estimator: str = "two_pass"
    curvature: str = "kron"
    columns: int | str = 1
    hyper_data: int | None = None
    hyper_samples: int | None = None
    hyper_sets: int = 1
    hyper_steps: int = 1
    prior_steps: int = 4
    augment_rate: float = 0.1
    final_augment_rate: float = 0.005
    prior_rate: float = 0.1
    final_prior_rate: float = 0.01
    likelihood_rate: float = 0.05
    final_likelihood_rate: float = 0.005
    judgements: int = 3
    judge_columns: int | str = "exact"
    seed: int = 0

    def __post_init__(self) -> None:
        """An error for the first setting that cannot be."""
        check_seed(self.seed)
        _one_of("optimiser", self.optimiser, OPTIMISERS)
        _one_of("estimator", self.estimator, ESTIMATORS)
        _one_of("curvature", self.curvature, CURVATURES)
        for name in ("epochs", "batch_size", "frequency", "hyper_steps", "prior_steps"):
            _at_least(name, getattr(self, name), 1)
        for name in ("burn_in", "judgements", "warm_up"):
            _at_least(name, getattr(self, name), 0)
        for name in ("hyper_data", "hyper_samples"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        if self.hyper_sets not in (1, 2) or (self.hyper_sets == 2 and (self.hyper_samples or 1) % 2):
            raise StructureError(
                f"hyper_sets must be 1, or 2 with an even number of hyper_samples; {self.hyper_sets!r} came with "
                f"{self.hyper_samples!r} samples. Pass for example hyper_samples=16, hyper_sets=2."
            )
        for name in self.as_dict():
            if name.endswith("_rate"):
                _rate(name, getattr(self, name))
        for name in ("relative_to", "most_slope"):
            _positive_or_none(name, getattr(self, name))
        if not 0 <= self.momentum < 1:
            raise StructureError(f"momentum must lie in [0, 1); {self.momentum} came.")
        for name in ("columns", "judge_columns"):
            _columns(name, getattr(self, name), self.curvature == "full" and self.estimator == "two_pass")

    def as_dict(self) -> dict[str, Any]:
        """The settings by name."""
        return dataclasses.asdict(self)


# What served images best on two cores: small batches, since weights learn by steps; a hyper step every other epoch,
# with many cheap steps of the widths for each pass over all images.
IMAGES = FitConfig(
    epochs=40,
    batch_size=50,
    learning_rate=3e-3,
    burn_in=4,
    frequency=2,
    hyper_data=250,
    hyper_samples=16,
    hyper_sets=2,
    hyper_steps=8,
    prior_steps=8,
    final_augment_rate=0.01,
    prior_rate=0.15,
    judgements=1,
)

# Relaxed layers learn by their priors alone: their steps cost next to nothing once a pass over all data has given the
# eigenvalues, so each pass serves many of them. Rates relative to the weights' sizes: with equal ones Adam turns dense
# paths, of many small weights, long before the convolutions beside them have learned anything. The burn-in is long for
# the same reason: what is still useless at the first hyper step is switched off for good. One judgement has nothing
# to tell apart, so that sketches serve it.
LAYERS = FitConfig(
    epochs=50,
    batch_size=50,
    learning_rate=5e-3,
    relative_to=0.15,
    warm_up=4,
    most_slope=0.5,
    burn_in=10,
    frequency=4,
    hyper_data=250,
    hyper_steps=4,
    prior_steps=20,
    prior_rate=0.2,
    final_prior_rate=0.02,
    judgements=1,
    judge_columns=8,
)


@dataclass(frozen=True)
class DiscoverConfig:
    """What to learn the symmetries of, and with which network.

    Arguments:
        data: A data set by name, an `.npz`, a folder of class folders, or "package.module:function".
        data_dir: Where data sets are looked for first.
        symmetrise: A known symmetry to put into the data: "rotate:DEG", "translate:PIXELS", "scale:FACTOR" or "none".
        limit: How many training images to use, drawn by the seed; all by default.
        task: "none", or each image in a quadrant of a canvas, to tell it ("digit") or it and the quadrant ("quadrant").
        size: The side that square images are resampled to, at most 1,024; None leaves images as they are, and canvases
            of a task at 32.
        standardise: Whether the network sees images with the training set's mean and deviation taken out.
        network: A network by name or "package.module:function".
        augment: The augmentation to learn, as `studies.augmentations` describes it, or "none".
        train_augment: What weight updates see besides, and the evidence does not: "none" or "flips+shifts".
        num_samples: S, the transformed copies of each image, in weight steps and in the test.
        prior: "scalar", "layerwise" or "diagonal".
        baselines: Other ways to train the same network: "plain" (no augmentation), "fixed", "augerino", "map" (no
            augmentation, precisions fixed at 1, no hyper steps) and, of a relaxed network, "conv" (convolutions alone).
        fixed_widths: The widths of the baseline "fixed", by name.
        simplify: The share below which a path of a relaxed layer is taken out afterwards; None to leave all.
        dtype: "float32" or "float64".
        fit: How it is trained.
    """

    data: str = "mnist-mini"
    data_dir: str | None = None
    symmetrise: str = "none"
    limit: int | None = None
    task: str = "none"
    size: int | None = None
    standardise: bool = False
    network: str = "mlp"
    augment: str = "affine"
    train_augment: str = "none"
    num_samples: int = 8
    prior: str = "layerwise"
    baselines: tuple[str, ...] = ()
    fixed_widths: dict[str, float] = field(default_factory=dict)
    simplify: float | None = None
    dtype: str = "float32"
    fit: FitConfig = IMAGES

    def __post_init__(self) -> None:
        """An error for the first setting that cannot be."""
        _one_of("prior", self.prior, PRIORS)
        _one_of("dtype", self.dtype, TYPES)
        _one_of("train_augment", self.train_augment, TRAIN_AUGMENTS)
        _at_least("num_samples", self.num_samples, 1)
        if self.limit is not None:
            _at_least("limit", self.limit, 1)
        if self.size is not None:
            _between("size", self.size, LEAST_SIDE, MOST_SIDE)
        if self.simplify is not None and not 0 < self.simplify < 1:
            raise StructureError(f"simplify is a share between 0 and 1, such as 0.01; {self.simplify!r} came.")
        self._check_baselines()
        if self.prior == "diagonal" and self.fit.curvature == "kron":
            raise StructureError("A diagonal prior needs curvature 'diag' or 'full'; 'kron' came. Choose one of them.")

    @property
    def is_relaxed(self) -> bool:
        """Whether the network is one of relaxed layers, by its name."""
        return self.network.startswith(RELAXED)

    def _check_baselines(self) -> None:
        for name in self.baselines:
            _one_of("baseline", name, BASELINES)
            if self.augment == "none" and name in ("plain", "fixed", "augerino"):
                raise StructureError(
                    f"The baseline '{name}' is about an augmentation, and this run learns none. Leave it out, or name "
                    "an augmentation."
                )
        if "fixed" in self.baselines and not self.fixed_widths:
            raise StructureError(
                "The baseline 'fixed' needs widths, such as rotation=1.57. Name one for each transform."
            )
        if "conv" in self.baselines and not self.is_relaxed:
            raise StructureError(
                f"The baseline 'conv' belongs to relaxed networks, such as {RELAXED}f-fc+conv:4; {self.network!r} came."
            )
        if "conv" in self.baselines and self.network.startswith(f"{RELAXED}conv:"):
            raise StructureError(
                f"The baseline 'conv' would be this network itself, {self.network!r}. Leave it out, or choose another "
                "variant."
            )

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, those of training among them."""
        plain = dataclasses.asdict(self)
        return {name: value for name, value in plain.items() if name != "fit"} | plain["fit"]


def layers_config(variant: str, alpha: int, length_scale: str = "fixed") -> DiscoverConfig:
    """The settings that layer-wise equivariance is learned with: the reference network on 32 × 32 standardised pixels.

    Arguments:
        variant: The paths of each layer, such as "f-fc+conv".
        alpha: The width of the network, from 1 to 1,000.
        length_scale: Of sparse layers: "fixed", a "weight" with a prior, or a "hyperparameter".
    """
    _between("alpha", alpha, 1, MOST_ALPHA)
    name = f"{RELAXED}{variant}:{alpha}" + ("" if length_scale == "fixed" else f":{length_scale}")
    return DiscoverConfig(network=name, augment="none", size=32, standardise=True, fit=LAYERS)
