"""How are weights and hyperparameters trained together?

`fit` is a loop over weight steps, which climb the log joint, and hyper steps, which climb the evidence. The latter are
those of an `EvidenceLearner`, which any other loop can use too. The mathematics is in `evidence` and `hypergrad`.
"""

from .callbacks import Callback
from .checkpoint import Checkpoints
from .deploy import export_program
from .held_out import measure
from .learner import EvidenceLearner
from .record import versions
from .run import Run, fit, load
from .verdicts import verdict

__all__ = [
    "Callback",
    "Checkpoints",
    "EvidenceLearner",
    "Run",
    "export_program",
    "fit",
    "load",
    "measure",
    "verdict",
    "versions",
]
