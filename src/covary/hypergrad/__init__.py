"""In which direction does the evidence rise?

d log Z / d η for every hyperparameter η of network, likelihood and prior, the weights held fixed: `two_pass` for
work, `stochastic` for a bound from one minibatch, `direct` as the definition. Each returns a `HyperGradient`, a dict
from names to gradients (ascent direction), with the evidence's terms beside it. Where the prior alone is stepped,
`prior_gradient` and `partition_gradient` take any number of steps for one pass over the data.
"""

from .direct import direct
from .hyperparameters import HyperGradient
from .partition import Partition, partition_gradient, partition_pass
from .stochastic import stochastic
from .two_pass import factor_cotangents, model_gradient, prior_gradient, two_pass

__all__ = [
    "HyperGradient",
    "Partition",
    "direct",
    "factor_cotangents",
    "model_gradient",
    "partition_gradient",
    "partition_pass",
    "prior_gradient",
    "stochastic",
    "two_pass",
]
