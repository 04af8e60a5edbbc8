"""How are weights and hyperparameters trained together?

`fit` is a loop over two steps on a `FitState`: `weight_step` climbs the log joint, `hyper_step` the evidence. It calls;
the mathematics lies in `evidence` and `hypergrad`.
"""

from ..distributed import is_first, process_group
from .callbacks import Callback
from .checkpoint import Checkpoints
from .loop import fit
from .run import Run, measure, versions

__all__ = ["Callback", "Checkpoints", "Run", "fit", "is_first", "measure", "process_group", "versions"]
