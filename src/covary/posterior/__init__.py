r"""The Laplace posterior, its predictions, and their calibration.

Data, curvature and prior give the Gaussian posterior :math:`N(\theta, (H + \delta)^{-1})` of the weights (`Laplace`),
from it the Gaussian of the outputs :math:`N(f, J (H + \delta)^{-1} J^\top)` (`function_space.py`), and through a link
the probabilities (`predictive.py`). `calibration.py` measures how good probabilities are: means over data, for reports.

Layout: outputs (N, C), their variances (N, C), their covariances (N, C, C). An array (N, C, P) is never formed.
"""

from .calibration import auroc, auroc_of_confidence, brier, ece, nll
from .laplace import Laplace
from .predictive import GaussianPrediction, OutputDistribution

__all__ = [
    "GaussianPrediction",
    "Laplace",
    "OutputDistribution",
    "auroc",
    "auroc_of_confidence",
    "brier",
    "ece",
    "nll",
]
