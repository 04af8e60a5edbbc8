"""The records of a run, as frozen dataclasses of numbers, strings, lists and mappings."""

import base64
from dataclasses import dataclass, field
from typing import Any

from .metrics import Metrics, PredictedNoise
from .symmetry import Symmetry, Verdict


@dataclass(frozen=True)
class LayerPath:
    """What one path of a relaxed layer became.

    Arguments:
        name: The path, such as "conv".
        num_params: Its number of weights P.
        precisions: The prior precision of each of its tensors (the geometric mean of a tensor that has many).
        weight_norm: The norm of all its weights.
        effective: Its effective number of parameters γ, between 0 and P.
        normalized: γ / P.
        relative: The same, divided by the sum over the layer's paths.
        inactive: Whether the normalized number of each of its tensors, biases included, is below the threshold in units
            of that sum; then its relative number is, too.

    Example:
        >>> from covary.records import LayerPath
        >>> LayerPath("conv", 20, {"weight": 11.0}, 1.2, 18.0, 0.9, 0.99, False).relative
        0.99
    """

    name: str
    num_params: int
    precisions: dict[str, float]
    weight_norm: float
    effective: float
    normalized: float
    relative: float
    inactive: bool


@dataclass(frozen=True)
class Layer:
    """What one relaxed layer became.

    Arguments:
        name: The layer, by its name in the network.
        learned: The path with the largest relative share: the type that the layer has learned to be.
        paths: Its paths.
        shift_error: The norm of the change of its outputs when its inputs are shifted instead, relative to the outputs;
            None where no shift of its inputs is one of its outputs.
        turn_error: The same of the elements of its group; None where it has none.

    Example:
        >>> from covary.records import Layer, LayerPath
        >>> path = LayerPath("conv", 20, {"weight": 11.0}, 1.2, 18.0, 0.9, 1.0, False)
        >>> Layer("blocks.0", "conv", [path], 0.0, None).learned
        'conv'
    """

    name: str
    learned: str
    paths: list[LayerPath]
    shift_error: float | None
    turn_error: float | None


@dataclass(frozen=True)
class Evidence:
    """The log evidence of the training data as the sum of its terms, in nats, summed over data.

    Arguments:
        log_likelihood: The fit.
        log_prior: The log-density of the weights under their prior.
        log_volume: The log-volume of the posterior.
        log_evidence: The sum.
        num_data: How many data it is the evidence of.
        curvature: "kron", "kron-traced", "kron-shared", "full", "diag" or "kernel".
        probes: "exact", or the number of random probes as a string; of a bound by kernels, its outputs and blocks.
        gradient_norm: The norm of the gradient of the log joint: zero at a mode. None where it was not computed.
        corrected_by: "exact" or "lanczos" where the log-volume is that of the whole Gauss–Newton matrix; else None.
        standard_error: The standard error of a corrected log-evidence, 0 where it is exact; else None.
        mode_distance: How far the outputs are from those at the mode of the weights: 0 there, 1 on average for a sample
            from the posterior. None where it was not computed.

    Example:
        >>> from covary.records import Evidence
        >>> print(Evidence(-40.0, -9.0, 4.0, -45.0, 20, "kron", "exact"))
        log evidence -45.0 nats of 20 data (log-likelihood -40.0, log-prior -9.0, log-volume 4.0), -2.2500 per datum
    """

    log_likelihood: float
    log_prior: float
    log_volume: float
    log_evidence: float
    num_data: int
    curvature: str
    probes: str
    gradient_norm: float | None = None
    corrected_by: str | None = None
    standard_error: float | None = None
    mode_distance: float | None = None

    def __str__(self) -> str:
        """The sum and its terms in nats, and the sum per datum."""
        terms = f"log-likelihood {self.log_likelihood:,.1f}, log-prior {self.log_prior:,.1f}"
        return (
            f"log evidence {self.log_evidence:,.1f} nats of {self.num_data:,} data ({terms}, "
            f"log-volume {self.log_volume:,.1f}), {self.log_evidence / max(self.num_data, 1):.4f} per datum"
        )


@dataclass(frozen=True)
class Epoch:
    """The state after one epoch.

    Arguments:
        epoch: Its number, from 1.
        log_likelihood: The mean log-likelihood per datum during the epoch's weight steps.
        widths: The widths after it, by name.
        precisions: The prior's precisions after it, by group (the geometric mean of a group that has many).
        evidence: The estimate that the hyper step moved along, or None where there was no hyper step.
        evaluated: The evidence under common noise, by which states are compared, where it was computed.
        seconds: The time since the start of the run, over all its sessions.
        best: Whether the state after it is the best evaluated so far.

    Example:
        >>> from covary.records import Epoch
        >>> Epoch(1, -2.3, {"rotation": 0.05}, {"0.weight": 1.0}, None, None, 0.5, False).widths
        {'rotation': 0.05}
    """

    epoch: int
    log_likelihood: float
    widths: dict[str, float]
    precisions: dict[str, float]
    evidence: Evidence | None
    evaluated: Evidence | None
    seconds: float
    best: bool


@dataclass(frozen=True)
class Baseline:
    """Another way to train the same network, on the same data with as many test samples.

    Arguments:
        name: "plain", "fixed", "augerino", "trivialaugment", "randaugment", "map" or "conv"; after a comma "1 sample"
            for a test on each image as it is, or "equal time" for as many seconds as the run took.
        symmetries: The widths that it used or found; empty where it has no augmentation.
        evidence: The evidence of the training data, where it has one.
        test: How it predicts the test data, where there are any.
        seconds: How long it took.
        epochs: How many epochs it was trained for, where that is known.

    Example:
        >>> from covary.records import Baseline
        >>> Baseline("plain", [], None, None, 3.0).name
        'plain'
    """

    name: str
    symmetries: list[Symmetry]
    evidence: Evidence | None
    test: Metrics | None
    seconds: float
    epochs: int | None = None


@dataclass(frozen=True)
class Pictures:
    r"""A few images with transformed versions of each: n images, each followed by s versions.

    Arguments:
        shape: (n, 1 + s, channels, height, width); channels are 1 or 3.
        pixels: Bytes in that order, base64.
        labels: The label of each of the n images, as a word.
        matrices: For each sampled transform of the first image, its 3×3 matrix from output to input coordinates on
            [−1, 1]² (x right, y down), row by row; empty where not all are known to be affine.

    Example:
        >>> from covary.records import Pictures
        >>> Pictures([1, 1, 1, 1, 2], "AP8=", ["7"], []).values()
        b'\x00\xff'
    """

    shape: list[int]
    pixels: str
    labels: list[str]
    matrices: list[list[float]]

    def values(self) -> bytes:
        """The bytes of the pixels."""
        return base64.b64decode(self.pixels)


@dataclass(frozen=True)
class Coverage:
    """How one parameter of the network enters the evidence.

    Arguments:
        name: The parameter.
        shape: Its shape.
        rule: The rule that covers it.
        structure: The structure of its block of the curvature: "kron", "dense", "diagonal", "full", "kernel".

    Example:
        >>> from covary.records import Coverage
        >>> Coverage("0.weight", [10, 784], "Linear", "kron").structure
        'kron'
    """

    name: str
    shape: list[int]
    rule: str
    structure: str


@dataclass(frozen=True)
class Pruning:
    """The result of removing the inactive paths of a network.

    Arguments:
        threshold: The share below which a tensor counts as off.
        removed: The paths that were removed, by their names in the network.
        replaced: The sparse dense paths that were replaced by the stationary map they had become.
        num_params: The number of weights that remain.
        num_params_before: The number of weights before.
        evidence: The evidence of the training data after.
        evidence_before: The evidence before, by the same curvature under the same noise.
        max_change: The largest change of an output on the training data.
        mean_change: The mean absolute change.
        test: How the simple network predicts the test data, where there are any.
        precisions: The prior precision of each tensor that remains, by name, as `Prior(precision=...)` takes it.

    Example:
        >>> from covary.records import Evidence, Pruning
        >>> evidence = Evidence(-40.0, -9.0, 4.0, -45.0, 20, "kron", "exact")
        >>> Pruning(0.01, ["blocks.0.f-fc"], [], 100, 900, evidence, evidence, 0.01, 0.0, None).num_params
        100
    """

    threshold: float
    removed: list[str]
    replaced: list[str]
    num_params: int
    num_params_before: int
    evidence: Evidence
    evidence_before: Evidence
    max_change: float
    mean_change: float
    test: Metrics | None
    precisions: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """A whole run, as `run.json` keeps it.

    Arguments:
        title: One line that says what was run.
        config: Every setting, by name.
        versions: Versions of covary, torch and Python, and the number of threads.
        symmetries: What was learned, in the order of the augmentation's names.
        evidence: The evidence of the state that was kept.
        test: Its test metrics, where there are test data.
        baselines: Other ways to train the same network, where they were run.
        layers: What each relaxed layer became, where there are any and something was learned.
        history: One entry per epoch.
        samples: A few images with their transforms, where the data are images.
        coverage: How each parameter enters the evidence.
        correlation: The correlation matrix of the transforms' coefficients, where it was learned: a row per symmetry.
        true_widths: The amounts that the data were made with, where they are known.
        seconds: How long the run took, without the baselines.
        complete: Whether the run ended as intended.
        notes: Plain sentences that a reader must know.
        problem: Why what was learned cannot be trusted, such as a collapse; None where there is no reason not to.
        class_names: The names of the classes, if they are known.
        pruned: The result of pruning, where that was asked for.
        model: How network, likelihood and prior are made, as plain data that `covary.load` reads.
        likelihood: The positive hyperparameters of the likelihood by name, such as "sigma_noise".
        target_std: The standard deviation of each real target or count over the training data.
        predicted_noise: The noise of each target over the training data, where the network predicts it.
        input_shape: The shape of a datum of the training data, without the batch axis.
        feature_names: The names of the columns of a table, if they are known.
        roles: Entries of each parameter, by role ("integrated", "point", "hyperparameter", "frozen") and name.
        files: The SHA-256 of each other file of the run, by name.
        verdicts: Whether the data have each symmetry, where that was asked for.
        timings: The seconds by what they were spent on: "weights", "hyper", "evaluation" (of the evidence, with error
            bars and layers) and "test".

    Example:
        >>> from covary.records import RunRecord
        >>> RunRecord("digits, rotated").complete
        True
    """

    title: str
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    symmetries: list[Symmetry] = field(default_factory=list)
    evidence: Evidence | None = None
    test: Metrics | None = None
    baselines: list[Baseline] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    history: list[Epoch] = field(default_factory=list)
    samples: Pictures | None = None
    coverage: list[Coverage] = field(default_factory=list)
    correlation: list[list[float]] | None = None
    true_widths: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    complete: bool = True
    notes: list[str] = field(default_factory=list)
    problem: str | None = None
    class_names: list[str] = field(default_factory=list)
    pruned: Pruning | None = None
    model: dict[str, Any] = field(default_factory=dict)
    likelihood: dict[str, float] = field(default_factory=dict)
    target_std: list[float] = field(default_factory=list)
    predicted_noise: list[PredictedNoise] = field(default_factory=list)
    input_shape: list[int] = field(default_factory=list)
    feature_names: list[str] = field(default_factory=list)
    roles: dict[str, dict[str, int]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
