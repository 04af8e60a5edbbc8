"""The gradient of the evidence: d log Z / d η for every hyperparameter η of network, likelihood and prior.

The weights are held fixed. `two_pass` is the default of training, `stochastic` gives a bound from one minibatch,
`direct` is the definition. Each returns a `HyperGradient`, a dict from names to gradients (ascent direction), with the
evidence's terms beside it.
"""

from .direct import direct
from .hyperparameters import HyperGradient
from .running import RunningStatistics
from .stochastic import stochastic
from .two_pass import two_pass

__all__ = ["HyperGradient", "RunningStatistics", "direct", "stochastic", "two_pass"]
