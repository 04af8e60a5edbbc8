"""The settings of a fit: the preset that suits a network, and settings that differ from it."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from ..config import FitConfig
from ..config.fit import SHALLOW, Preset
from ..errors import StructureError
from ..layer_summary import relaxed_layers
from ..likelihoods import Gaussian, HeteroscedasticGaussian
from ..models import Model
from ..networks.resnet import FixupBlock
from ..priors import weights_of


def preset_of(model: Model) -> Preset:
    """The preset for a model, by its layers: relaxed, of Fixup blocks, a few linear ones, or any others.

    A few linear layers have one for real targets and one for all others.
    """
    network = model.network
    if relaxed_layers(network):
        return "layers"
    if any(isinstance(module, FixupBlock) for module in network.modules()):
        return "resnet"
    weights = {id(weight) for weight in weights_of(network).values()}
    holders = [m for m in network.modules() if any(id(p) in weights for p in m.parameters(recurse=False))]
    few = len(holders) <= SHALLOW and all(isinstance(module, nn.Linear) for module in holders)
    if not few:
        return "deep"
    return "regression" if isinstance(model.likelihood, Gaussian | HeteroscedasticGaussian) else "mlp"


def settings_of(model: Model, config: object, settings: Mapping[str, Any]) -> FitConfig:
    """The settings of a fit, or an error that says where a setting of another name belongs."""
    base = "config"
    if config is None:
        base = f"FitConfig.preset('{preset_of(model)}')"
        config = FitConfig.preset(preset_of(model), settings.get("epochs"))
    if not isinstance(config, FitConfig):
        raise StructureError(
            f"Expected settings of type covary.FitConfig after the data, got a {type(config).__name__}. Pass data as "
            "one value, fit(network, (x, y)), and settings as FitConfig.preset('mlp').replace(weights={'lr': 0.01})."
        )
    known = config.as_dict()
    for name in settings:
        if name in ("likelihood", "prior"):
            raise StructureError(f"'{name}' is part of the model. Pass covary.Model(network, likelihood, prior).")
        groups = [group for group in known if isinstance(known[group], dict) and name in known[group]]
        if groups:
            where = " or ".join(f"'{group}.{name}'" for group in groups)
            raise StructureError(
                f"'{name}' is {where} of the settings. Pass config={base}.replace({groups[0]}={{'{name}': ...}})."
            )
    return config.replace(**settings)
