"""In which direction does the evidence rise?

d log Z / d η for every hyperparameter η of network, likelihood and prior, the weights held fixed: `two_pass` for
work, `stochastic` for a bound from one minibatch, `direct` as the definition. Each returns a `HyperGradient`, a dict
from names to gradients (ascent direction), with the evidence's terms beside it.
"""

from .bound import stochastic
from .hyperparameters import HyperGradient
from .preconditioned import factor_cotangents, model_gradient, prior_gradient, two_pass
from .reference import direct

__all__ = ["HyperGradient", "direct", "factor_cotangents", "model_gradient", "prior_gradient", "stochastic", "two_pass"]
