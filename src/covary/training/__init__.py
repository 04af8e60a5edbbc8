"""How are weights and hyperparameters trained together?

`fit` is a loop over two steps on a `FitState`: `weight_step` climbs the log joint, `hyper_step` the evidence. The
mathematics is in `evidence` and `hypergrad`.
"""

from ..distributed import is_first, process_group
from .callbacks import Callback
from .checkpoint import Checkpoints
from .record import measure, versions
from .run import Run, fit, load

__all__ = ["Callback", "Checkpoints", "Run", "fit", "is_first", "load", "measure", "process_group", "versions"]
