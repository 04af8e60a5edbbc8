"""Settings as frozen records: checked when they are made, set by name, read from and written to TOML."""

from .experiment import BASELINES, TRAIN_AUGMENTS, ExperimentConfig, discover_config, layers_config
from .fit import EvalConfig, FitConfig, HyperConfig, WeightConfig
from .settings import check_seed, parse_setting

__all__ = [
    "BASELINES",
    "TRAIN_AUGMENTS",
    "EvalConfig",
    "ExperimentConfig",
    "FitConfig",
    "HyperConfig",
    "WeightConfig",
    "check_seed",
    "discover_config",
    "layers_config",
    "parse_setting",
]
