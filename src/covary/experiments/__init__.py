"""What `covary discover` and `covary layers` run: data, network, baselines and the run itself.

`run.py` learns the symmetries of a data set, `build.py` makes its pieces, `resources.py` estimates memory and time. For
a saved run, which `restore.py` restores with its data, `geometry.py` measures the sharpness, `predict.py` predicts,
and `export.py` writes what was learned for other programs.
"""

from .augmentations import NAMES as AUGMENTATIONS
from .build import prepared
from .export import exported_text, run_to_export
from .geometry import saved_geometry
from .predict import predictions
from .resources import ResourceEstimate, estimate_resources
from .restore import Replacements, corrected_evidence, saved_verdict
from .run import discover

__all__ = [
    "AUGMENTATIONS",
    "Replacements",
    "ResourceEstimate",
    "corrected_evidence",
    "discover",
    "estimate_resources",
    "exported_text",
    "predictions",
    "prepared",
    "run_to_export",
    "saved_geometry",
    "saved_verdict",
]
