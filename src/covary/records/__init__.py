"""What does a run leave? Plain numbers and words, to and from JSON, and the only thing that a report reads.

Evidences are sums over data, higher is better; widths are in the unit that stands beside them.
"""

from .files import from_plain, read_run, write_run, write_study
from .metrics import Metrics, PredictedNoise
from .run import Baseline, Coverage, Epoch, Evidence, Layer, LayerPath, Pictures, Pruning, RunRecord
from .study import Claim, Study
from .symmetry import Symmetry, Verdict
from .verify import FileCheck, verify

__all__ = [
    "Baseline",
    "Claim",
    "Coverage",
    "Epoch",
    "Evidence",
    "FileCheck",
    "Layer",
    "LayerPath",
    "Metrics",
    "Pictures",
    "PredictedNoise",
    "Pruning",
    "RunRecord",
    "Study",
    "Symmetry",
    "Verdict",
    "from_plain",
    "read_run",
    "verify",
    "write_run",
    "write_study",
]
