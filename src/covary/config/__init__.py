"""Settings as frozen records, checked here and nowhere else."""

from .checks import check_seed
from .experiment import BASELINES, TRAIN_AUGMENTS, ExperimentConfig, layers_config
from .fit import IMAGES, LAYERS, STRICT, FitConfig

__all__ = [
    "BASELINES",
    "IMAGES",
    "LAYERS",
    "STRICT",
    "TRAIN_AUGMENTS",
    "ExperimentConfig",
    "FitConfig",
    "check_seed",
    "layers_config",
]
