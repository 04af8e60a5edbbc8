"""Networks: what is f(x; θ), and its average over the transforms of x?

Layout: inputs (N, ...), outputs (N, C). The inner network of an average sees N·S rows, batch-major: row n·S + s is
sample s of datum n.
"""

from ..layers.sparse import LENGTH_SCALES
from .averaged import Averaged
from .convnet import cnn, lenet
from .images import require_images
from .initial import initialize
from .mlp import mlp
from .named import NAMES, build, outline
from .relaxed import VARIANTS, RelaxedNetwork, relaxed_network
from .resnet import FixupBlock, fixup_resnet
from .standardized import Standardized

__all__ = [
    "LENGTH_SCALES",
    "NAMES",
    "VARIANTS",
    "Averaged",
    "FixupBlock",
    "RelaxedNetwork",
    "Standardized",
    "build",
    "cnn",
    "fixup_resnet",
    "initialize",
    "lenet",
    "mlp",
    "outline",
    "relaxed_network",
    "require_images",
]
