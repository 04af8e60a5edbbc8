"""How a network is trained, as a frozen record, and what served best."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..errors import StructureError
from .checks import check_choice, check_columns, check_least, check_positive, check_rate, check_seed

OPTIMIZERS = ("adam", "sgd")
ESTIMATORS = ("two_pass", "kernel", "stochastic", "augerino")
CURVATURES = ("kron", "kron-traced", "full", "diag")


@dataclass(frozen=True)
class FitConfig:
    """How a network is trained together with its hyperparameters.

    Rates fall from the first to the `final_` one along half a cosine: those of the weights over all steps, those of the
    hyperparameters over the epochs after the burn-in.

    Arguments:
        epochs: Passes over the training data.
        batch_size: Data in a weight step.
        optimizer: "adam", or "sgd" with momentum, for the weights.
        learning_rate: The weights' rate; parameters with a single entry take a tenth of it.
        relative_to: Makes each weight tensor's rate r s / `relative_to`, with r the rate and s the root mean square
            that the tensor starts with, so that free and shared weights change by the same part of themselves; None
            gives all the rate r, as tensors that start at zero always have.
        follow_prior: Whether the prior bounds that size: weights start within the deviation δ^-½ of their prior, scaled
            down where they lie beyond it, and their rates and the length of their gradient are in units of
            min(s, δ^-½) from then on, as δ is learned. A path that the prior holds near zero then moves by small
            steps. Needs `relative_to`.
        warm_up: Epochs over which the weights' rates rise from zero to their place on the cosine.
        most_slope: The norm to which the gradient of a weight step is shortened, Euclidean or, with `follow_prior`, in
            those units; None never shortens it.
        momentum: The momentum of "sgd".
        burn_in: Epochs before the first hyper step.
        frequency: A hyper step follows every so many epochs.
        estimator: The gradient of the hyperparameters: "two_pass"; "kernel" (a bound from the kernels of all data in
            blocks of M, which take no layer to be independent of another; `curvature` and `judge_columns` then serve
            layer summaries alone, `columns` nothing); "stochastic" (a bound from M data); or "augerino" (the baseline:
            joint descent on loss − 0.01 ‖widths‖, no evidence).
        curvature: "kron", "kron-traced" (KFAC with partial traces), "full" or "diag".
        columns: Sketches in the hyper-gradient, or "exact"; "full" needs "exact".
        hyper_data: M, the data that each step on the augmentation reads, all by default; with "kernel" and
            "stochastic" the data of a block, 100 by default.
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
        judge_columns: Sketches in judgements, the layer summary of layers and `prune`, or "exact"; the same ones every
            time. "full" needs "exact".
        seed: The seed of shuffles, noise and sketches, a whole number from -2^63 to 2^63 - 1.
    """

    epochs: int = 100
    batch_size: int = 250
    optimizer: str = "adam"
    learning_rate: float = 5e-3
    final_learning_rate: float = 1e-6
    relative_to: float | None = None
    follow_prior: bool = False
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
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("estimator", self.estimator, ESTIMATORS)
        check_choice("curvature", self.curvature, CURVATURES)
        for name in ("epochs", "batch_size", "frequency", "hyper_steps", "prior_steps"):
            check_least(name, getattr(self, name), 1)
        for name in ("burn_in", "judgements", "warm_up"):
            check_least(name, getattr(self, name), 0)
        for name in ("hyper_data", "hyper_samples"):
            if getattr(self, name) is not None:
                check_least(name, getattr(self, name), 1)
        if self.hyper_sets not in (1, 2) or (self.hyper_sets == 2 and (self.hyper_samples or 1) % 2):
            raise StructureError(
                f"hyper_sets must be 1, or 2 with an even number of hyper_samples; {self.hyper_sets!r} came with "
                f"{self.hyper_samples!r} samples. Pass for example hyper_samples=16, hyper_sets=2."
            )
        for name in self.as_dict():
            if name.endswith("_rate"):
                check_rate(name, getattr(self, name))
        for name in ("relative_to", "most_slope"):
            check_positive(name, getattr(self, name))
        if self.follow_prior and self.relative_to is None:
            raise StructureError(
                "follow_prior bounds the sizes that rates are relative to, and there are none without relative_to. "
                "Pass for example relative_to=0.15."
            )
        if not 0 <= self.momentum < 1:
            raise StructureError(f"momentum must lie in [0, 1); {self.momentum} came.")
        full = self.curvature == "full"
        check_columns("columns", self.columns, full and self.estimator == "two_pass")
        check_columns("judge_columns", self.judge_columns, full)

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
# the same reason: what is still useless at the first hyper step is switched off for good. Sketches judge: with many
# classes exact columns would take longer than training.
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

# From the strict end, paths start small and their priors narrow: rates follow the priors as those widen. Gradients are
# shortened in these units, a tenth of plain ones for weights of the usual sizes.
STRICT = dataclasses.replace(LAYERS, follow_prior=True, most_slope=0.05)
