"""What `covary discover` and `covary layers` run: data, network, baselines and the run itself.

`run.py` learns the symmetries of a data set, `build.py` makes its pieces, `resources.py` estimates what it takes, and
`geometry.py` measures the sharpness of a saved run.
"""

from .augmentations import NAMES as AUGMENTATIONS
from .build import prepared
from .geometry import saved_geometry
from .resources import Plan, plan
from .run import discover

__all__ = ["AUGMENTATIONS", "Plan", "discover", "plan", "prepared", "saved_geometry"]
