"""How a network is trained together with its hyperparameters: settings in groups, and presets of them."""

import typing
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from .._text import require_choice
from ..errors import StructureError
from .settings import DEVICE, POSITIVE, SEED, Settings, at_least, between, real

CurvatureStructure = Literal["kron", "kron-traced", "kron-shared", "full", "diag"]
Estimator = Literal["running", "two_pass", "kernel", "stochastic", "augerino"]
WeightPrecision = Literal["full", "bf16"]
Preset = Literal["mlp", "regression", "deep", "resnet", "layers", "layers-equivariant"]
SHALLOW = 4  # linear layers of a network that trains without a warm-up, at most
# Limits far above any use, below which no loop or list over them is endless.
Count = Annotated[int, at_least(1, 1_000_000)]
CountOrZero = Annotated[int, at_least(0, 1_000_000)]
DataCount = Annotated[int, at_least(1, 1_000_000_000)]
StepCount = Annotated[int, at_least(1, 10_000)]
Probes = Literal["auto", "exact"] | Count
LearningRate = Annotated[float, real("a number from 0 to 1e6", lambda value: 0 <= value <= 1e6)]


@dataclass(frozen=True)
class WeightConfig(Settings):
    """Settings of the weight steps.

    Arguments:
        optimizer: "adam", or "sgd" with momentum.
        lr: The learning rate at the start; parameters with a single entry use a tenth of it.
        lr_min: The learning rate at the end, reached along half a cosine over all steps.
        batch_size: Data in a weight step.
        momentum: The momentum of "sgd".
        warmup_epochs: Epochs over which the learning rate rises linearly from zero.
        max_grad_norm: The norm to which the gradient is clipped, Euclidean or, with `prior_scaled_lr`, in units of the
            weights' sizes; None does not clip.
        relative_lr: Makes the learning rate of each weight tensor lr · s / `relative_lr`, with s the root mean square
            of its initial values, so that free and shared weights change by the same fraction of themselves; None
            gives all tensors the same, as do tensors that start at zero.
        prior_scaled_lr: Whether the prior bounds that size: weights start within the standard deviation δ^-½ of their
            prior, scaled down if they are outside it, and learning rates and gradient norms are in units of
            min(s, δ^-½), which follows δ as it is learned. Requires `relative_lr`.
        precision: "full" computes weight steps in the type of the weights; "bf16" their matrix products in bfloat16
            (`torch.autocast`), with weights, log-likelihood, hyper steps and evaluations as before.
        compile: Whether weight steps run the network through `torch.compile`, which needs a C++ compiler, or Triton on
            a GPU. It takes a minute or more at the start; on a CPU it made a CNN slower.

    Example:
        >>> WeightConfig(lr=0.01, batch_size=100).optimizer
        'adam'
    """

    prefix: ClassVar[str] = "weights."
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: LearningRate = 3e-3
    lr_min: LearningRate = 1e-6
    batch_size: DataCount = 50
    momentum: Annotated[float, real("at least 0 and below 1", lambda value: 0 <= value < 1)] = 0.9
    warmup_epochs: CountOrZero = 0
    max_grad_norm: Annotated[float, POSITIVE] | None = None
    relative_lr: Annotated[float, POSITIVE] | None = None
    prior_scaled_lr: bool = False
    precision: WeightPrecision = "full"
    compile: bool = False

    def __post_init__(self) -> None:
        """Raise `StructureError` for an impossible value, or a prior-scaled learning rate that is not relative."""
        super().__post_init__()
        if self.prior_scaled_lr and self.relative_lr is None:
            raise StructureError(
                "'weights.prior_scaled_lr' requires 'weights.relative_lr', got None. Set for example relative_lr=0.15."
            )


@dataclass(frozen=True)
class HyperConfig(Settings):
    """Settings of the hyper steps, which train augmentation, prior and likelihood on the evidence.

    Learning rates fall along half a cosine over the epochs after the burn-in. The augmentation is learned from when the
    network predicts better than a constant until its widths have settled.

    Arguments:
        estimator: The gradient: "running" (hyper steps between weight steps, with statistics of the curvature that are
            updated from few data each time); "two_pass" (after an epoch, with a pass over all data: the reference);
            "kernel" (a bound from the kernels of all data in blocks, without independence between layers; `probes` is
            then not used); "stochastic" (a bound from one block of data); or "augerino" (the baseline: joint descent
            on loss − 0.01 ‖widths‖, no evidence).
        burn_in: Epochs before the first hyper step; None for 400 weight steps, at most a sixth of all epochs.
        fraction: With "running": the data that hyper steps read, as a fraction of those that weight steps read, but
            one step in each epoch; None for a tenth, or for 80 steps in a run if these are fewer.
        decay: With "running": the factor by which statistics of earlier hyper steps count less at each one.
        every: With other estimators: epochs from one hyper step to the next.
        probes: Random probes of the curvature in the gradient, or "exact"; "auto" is one with at least 400 data, and
            "exact" below, where one would bias the gradient.
        num_data: The data M of a minibatch of the augmentation; None for 32 with "running", for all, a part in each
            minibatch, with "two_pass", for 100 with "kernel" and "stochastic", where they are a block. With "running"
            and "two_pass" minibatches are disjoint, so M is at most N over their number.
        num_samples: Augmentation samples per datum in hyper steps; None for the network's own number.
            The mean over few samples biases the gradient of a width, and matters little to the weights.
        num_sets: The number of independent sets that these samples are drawn in, 1 or 2. With two, Kronecker factors
            are cross products of the sets' means, which removes that bias.
        num_moves: Natural-gradient steps of the augmentation per hyper step, with "running" and "two_pass".
        num_steps: Minibatches of each of these, whose variance scales it, at least 2; each is a step on the
            likelihood. With "kernel" and "stochastic", steps on augmentation and likelihood per hyper step.
        num_prior_steps: Steps on the prior per hyper step.
        max_width_change: The largest change of a width in one hyper step, in its own unit: 1 is a radian, half of the
            image's side, or a factor of e in scale. It is halved when a hyper step lowers the evidence, which is then
            undone, and grows back.
        width_optimizer: Of the augmentation, with "running" and "two_pass": "natural" for natural-gradient steps that
            are undone where the evidence falls, or "adam", as in paper 1, for a step per minibatch at `augment_lr`.
        width_lr: The part of a natural-gradient step that the augmentation takes.
        width_lr_min: That part at the end.
        lr: Adam's learning rate of all other hyperparameters.
        lr_min: The learning rate at the end.
        augment_lr: That of the augmentation, and of the network's other hyperparameters; None for `lr`.
        augment_lr_min: Its value at the end; None for `lr_min`.
        prior_lr: That of the log-precisions; None for `lr`.
        prior_lr_min: Its value at the end; None for `lr_min`.
        likelihood_lr: That of the likelihood's parameters (noise, temperature); None for `lr`.
        likelihood_lr_min: Its value at the end; None for `lr_min`.

    Example:
        >>> HyperConfig(lr=0.05).lr_range("augment")
        (0.05, 0.01)
    """

    prefix: ClassVar[str] = "hyper."
    estimator: Estimator = "running"
    burn_in: CountOrZero | None = None
    fraction: Annotated[float, real("above 0 and at most 1", lambda value: 0 < value <= 1)] | None = None
    decay: Annotated[float, real("from 0 to 1", lambda value: 0 <= value <= 1)] = 0.75
    every: Count = 2
    probes: Probes = "auto"
    num_data: DataCount | None = None
    num_samples: DataCount | None = 16
    num_sets: Annotated[int, between(1, 2)] = 2
    num_moves: StepCount = 3
    num_steps: StepCount = 4
    num_prior_steps: StepCount = 10
    max_width_change: Annotated[float, POSITIVE] = 0.3
    width_optimizer: Literal["natural", "adam"] = "natural"
    width_lr: LearningRate = 1.0
    width_lr_min: LearningRate = 0.1
    lr: LearningRate = 0.1
    lr_min: LearningRate = 0.01
    augment_lr: LearningRate | None = None
    augment_lr_min: LearningRate | None = None
    prior_lr: LearningRate | None = 0.15
    prior_lr_min: LearningRate | None = None
    likelihood_lr: LearningRate | None = 0.05
    likelihood_lr_min: LearningRate | None = 0.005

    def __post_init__(self) -> None:
        """Raise `StructureError` for an impossible value, or two sets with an odd number of samples."""
        super().__post_init__()
        if self.num_sets == 2 and (self.num_samples or 1) % 2:
            raise StructureError(
                f"'hyper.num_sets'=2 requires an even 'hyper.num_samples', got {self.num_samples}. Set for example "
                "num_samples=16, or num_sets=1."
            )

    @property
    def width_lr_range(self) -> tuple[float, float]:
        """The first and the last part of a natural-gradient step; the last is at most the first."""
        return self.width_lr, min(self.width_lr, self.width_lr_min)

    def lr_range(self, kind: Literal["augment", "prior", "likelihood"]) -> tuple[float, float]:
        """The first and the last learning rate of one kind of hyperparameters; the last is at most the first."""
        first, last = getattr(self, f"{kind}_lr"), getattr(self, f"{kind}_lr_min")
        first, last = self.lr if first is None else first, self.lr_min if last is None else last
        return first, min(first, last)


@dataclass(frozen=True)
class EvalConfig(Settings):
    """Settings of the evaluations of the evidence, by which states are compared and the best is kept.

    Arguments:
        num_evaluations: States after the burn-in to evaluate; the last one is always among them. 0 keeps the last
            state without evaluating it.
        probes: Random probes in evaluations, in the layer summary and in `prune`, the same every time; or "exact", or
            "auto" as in hyper steps.
        num_samples: Augmentation samples per datum in evaluations; None for the network's own number.
        num_error_data: The most data that the error bars of widths are computed from; 0 computes none, as does
            `num_evaluations` of 0.

    Example:
        >>> EvalConfig(num_evaluations=3).probes
        'auto'
    """

    prefix: ClassVar[str] = "evaluation."
    num_evaluations: CountOrZero = 1
    probes: Probes = "auto"
    num_samples: DataCount | None = None
    num_error_data: CountOrZero = 100


@dataclass(frozen=True)
class FitConfig(Settings):
    """How a network is trained together with its hyperparameters.

    Arguments:
        epochs: Passes over the training data.
        seed: The seed of shuffles, noise and probes, a whole number from -2^63 to 2^63 - 1.
        device: Where to compute: "auto" (the network's own device if that is not the CPU, else a GPU if there is one),
            "cpu", "cuda", "cuda:N" or "mps". Network, likelihood, prior and batches are moved there; with "mps", which
            has no float64, weight steps run the network there and everything else is on the CPU.
        curvature: "kron", "kron-traced" (KFAC with partial traces), "kron-shared" (one gradient factor for all
            blocks of a weight, as in paper 2), "full" or "diag"; "full" needs exact probes.
            With the estimator "kernel" it is used for layer summaries only.
        max_factor_size: The largest side of a Kronecker factor; weights with more rows or columns get the diagonal of
            their block. None for no limit.
        weights: The weight steps.
        hyper: The hyper steps.
        evaluation: The evaluations of the evidence.

    Example:
        >>> config = FitConfig(epochs=30, hyper=HyperConfig(lr=0.05))
        >>> config.replace(seed=1, weights={"lr": 0.01}).weights.lr
        0.01
        >>> FitConfig.from_toml(config.to_toml()) == config
        True
    """

    epochs: Count = 40
    seed: Annotated[int, SEED] = 0
    device: Annotated[str, DEVICE] = "auto"
    curvature: CurvatureStructure = "kron"
    max_factor_size: Count | None = None
    weights: WeightConfig = field(default_factory=WeightConfig)
    hyper: HyperConfig = field(default_factory=HyperConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)

    def __post_init__(self) -> None:
        """Raise `StructureError` for an impossible value, or random probes of the full curvature."""
        super().__post_init__()
        if self.curvature != "full":
            return
        for name, probes in (("hyper.probes", self.hyper.probes), ("evaluation.probes", self.evaluation.probes)):
            if probes not in ("auto", "exact") and (
                name == "evaluation.probes" or self.hyper.estimator in ("running", "two_pass")
            ):
                raise StructureError(
                    f"Expected '{name}' to be 'exact' with curvature 'full', got {probes}. Set it, or use 'kron'."
                )

    @classmethod
    def preset(cls, name: Preset | str, epochs: int | None = None) -> "FitConfig":
        """Return the settings that work well for a kind of network.

        Arguments:
            name: "mlp" (the defaults: fully connected networks, plain or `Averaged`), "regression" (the same for real
                targets with learned noise), "deep" (networks with convolutions, attention or many layers), "resnet"
                (residual networks without normalization), "layers" (relaxed layers), or "layers-equivariant" (relaxed
                layers that start as their equivariant path).
            epochs: Passes over the training data; None for those of the preset. A burn-in that the preset names is at
                most two fifths of them.

        Example:
            >>> FitConfig.preset("layers").hyper.num_prior_steps
            20
            >>> FitConfig.preset("regression", epochs=25).hyper.burn_in
            10
        """
        require_choice("a preset", name, typing.get_args(Preset))
        config = cls().replace(**_PRESETS[name])
        if epochs is None:
            return config
        burn_in = config.hyper.burn_in
        config = config.replace(epochs=epochs)  # refuses a number that is none
        return config if burn_in is None else config.replace(hyper={"burn_in": min(burn_in, 2 * epochs // 5)})


# The defaults were chosen on fully connected networks: small batches, since weights learn by steps.
#
# A table has few rows, and an epoch few steps: with the defaults the weights of 200 rows take 24 steps before the prior
# is learned, which then has nothing but noise to explain and shrinks them. Larger steps, and more before the first
# hyper step, let them fit first.
_REGRESSION: dict[str, object] = {"epochs": 100, "weights": {"lr": 0.02}, "hyper": {"burn_in": 40}}
# Averaged over augmentation samples, deep networks may die within an epoch at that learning rate: their first gradients
# are small and alike for all data, and Adam makes full steps of them. A warm-up and clipping prevent it. Their hyper
# steps cost as much as their samples do, and half of them suffice (measured).
_DEEP: dict[str, object] = {"weights": {"warmup_epochs": 2, "max_grad_norm": 1.0}, "hyper": {"num_samples": 8}}
# Fixup networks learn faster by SGD with momentum, as their authors train them.
_RESNET: dict[str, object] = {
    "weights": {"optimizer": "sgd", "lr": 0.1, "warmup_epochs": 2, "max_grad_norm": 1.0},
    "hyper": {"num_samples": 8},
}
#
# Relaxed layers learn by their priors alone: their steps cost little once a pass over all data has given the
# eigenvalues, and several follow each pass. Learning rates are relative to the weights' sizes: with equal ones Adam
# changes dense paths, of many small weights, long before the convolutions beside them have learned anything. The
# burn-in is long for the same reason: a path that is still useless at the first hyper step becomes inactive for good.
# Evaluations use random probes: with many classes exact ones would take longer than training.
_LAYERS: dict[str, object] = {
    "epochs": 50,
    "weights": {"lr": 5e-3, "relative_lr": 0.15, "warmup_epochs": 4, "max_grad_norm": 0.5},
    "hyper": {
        "estimator": "two_pass",
        "burn_in": 10,
        "every": 4,
        "num_samples": None,
        "num_sets": 1,
        "num_steps": 4,
        "num_prior_steps": 20,
        "augment_lr_min": 0.005,
        "prior_lr": 0.2,
        "prior_lr_min": 0.02,
    },
    "evaluation": {"probes": 8},
}
# From the equivariant end, paths start small and their priors narrow: learning rates grow as the priors widen.
# Gradients are clipped in these units, a tenth of plain ones for weights of the usual sizes.
_EQUIVARIANT = {"weights.prior_scaled_lr": True, "weights.max_grad_norm": 0.05}
_PRESETS: dict[str, dict[str, object]] = {
    "mlp": {},
    "regression": _REGRESSION,
    "deep": _DEEP,
    "resnet": _RESNET,
    "layers": _LAYERS,
    "layers-equivariant": _LAYERS | _EQUIVARIANT,
}
