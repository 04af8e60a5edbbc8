"""How well a run predicts, and the noise that it predicts."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metrics:
    """How well the averaged network predicts data it did not see.

    Arguments:
        accuracy: The share of right answers, in [0, 1], over data, outputs and positions; None for a regression.
        nll: The mean negative log-likelihood.
        ece: The expected calibration error, in [0, 1]; None for a regression.
        num_data: The number of data.
        num_samples: The number of augmentation samples that each prediction averages over.
        rmse: The root mean squared error of the predictive mean, for real targets and counts; None for classes.
        rmse_by_target: That of each target, where there are several.
        num_targets: How many labels the accuracy is over, ignored ones not counted, if that is not one per datum.

    Example:
        >>> from covary.records import Metrics
        >>> Metrics(accuracy=0.9, nll=0.3, ece=0.02, num_data=100, num_samples=8).accuracy
        0.9
    """

    accuracy: float | None
    nll: float
    ece: float | None
    num_data: int
    num_samples: int
    rmse: float | None = None
    rmse_by_target: list[float] = field(default_factory=list)
    num_targets: int | None = None


@dataclass(frozen=True)
class PredictedNoise:
    """How large the noise of one target is where the network predicts it for each datum.

    Arguments:
        size: The root mean square of its standard deviations.
        low: The standard deviation that a twentieth of the data are below.
        high: The standard deviation that a twentieth of the data are above.

    Example:
        >>> from covary.records import PredictedNoise
        >>> PredictedNoise(size=0.37, low=0.05, high=0.53).high
        0.53
    """

    size: float
    low: float
    high: float
