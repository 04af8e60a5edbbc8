"""Networks f(x; θ), and their average over augmentation samples of x.

Layout: inputs (N, ...), outputs (N, C). The inner network of an average has N·S rows, batch-major: row n·S + s is
sample s of datum n.
"""

from .averaged import Averaged
from .batchnorm import replace_batchnorm
from .deployed import Deployed
from .feedforward import cnn, lenet, mlp
from .images import Rescaled, Standardized
from .named import build
from .relaxed import RelaxedNetwork, relaxed_network
from .resnet import fixup_resnet

__all__ = [
    "Averaged",
    "Deployed",
    "RelaxedNetwork",
    "Rescaled",
    "Standardized",
    "build",
    "cnn",
    "fixup_resnet",
    "lenet",
    "mlp",
    "relaxed_network",
    "replace_batchnorm",
]
