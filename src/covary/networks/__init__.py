"""Networks: what is f(x; θ), and its average over the transforms of x?

Layout: inputs (N, ...), outputs (N, C). The inner network of an average sees N·S rows, batch-major: row n·S + s is
sample s of datum n.
"""

from .averaged import Averaged
from .convnet import cnn, lenet
from .initial import initialise
from .mlp import mlp

__all__ = ["Averaged", "cnn", "initialise", "lenet", "mlp"]
