"""Replacements of batch normalization, whose statistics make the output of a datum depend on the others."""

from collections.abc import Callable
from copy import deepcopy
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import StructureError, UnsupportedLayerError
from ..layers import Bias, FrozenBatchNorm, Scale

BatchNormReplacement = Literal["group", "frozen", "fixup-scale"]
MAX_GROUPS, MIN_CHANNELS = 32, 4  # of a GroupNorm: the number of groups, and channels in each


def replace_batchnorm(network: nn.Module, by: BatchNormReplacement = "group") -> nn.Module:
    r"""A deep copy of the network in which every `BatchNorm1d`, `2d`, `3d` and `SyncBatchNorm` is replaced.

    - "group": `nn.GroupNorm` with up to 32 groups of at least 4 channels, statistics of each datum by itself, and the
      scales and shifts of the `BatchNorm`. For a network that is yet to be trained.
    - "frozen": `covary.layers.FrozenBatchNorm`, the `BatchNorm` of evaluation mode: the outputs of `network.eval()`
      stay as they are. For a trained network.
    - "fixup-scale": one number w and one number b, :math:`x \mapsto w x + b`, as in Fixup networks, without
      normalization: w is the root mean square over channels of :math:`\gamma / \sqrt{v + \epsilon}`, b the mean of
      :math:`\beta - m \gamma / \sqrt{v + \epsilon}`. Residual branches should start at zero: those whose last
      `BatchNorm` has scales :math:`\gamma = 0` (torchvision's `zero_init_residual=True`) do.

    Arguments:
        network: The network; it is not changed.
        by: The replacement.

    Example:
        >>> from torch import Tensor, nn
        >>> from covary.networks import replace_batchnorm
        >>> norm = replace_batchnorm(nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)), by="group")[1]
        >>> type(norm).__name__, norm.num_groups
        ('GroupNorm', 2)
    """
    check_replacement(by)
    found = {name: module for name, module in network.named_modules() if isinstance(module, _BatchNorm)}
    if not found:
        raise StructureError("Expected a network with BatchNorm layers, got one without. Use it as it is.")
    for name, module in found.items():
        _check(name, module, by)
    network = deepcopy(network)
    if isinstance(network, _BatchNorm):
        return _replacement(network, by)
    replacements = {m: _replacement(m, by) for m in network.modules() if isinstance(m, _BatchNorm)}
    for parent in network.modules():
        for name, child in parent._modules.items():
            if child in replacements:
                parent._modules[name] = replacements[child]
    return network


def check_replacement(by: object) -> None:
    """Raise `StructureError` for anything but the name of a replacement."""
    if by not in get_args(BatchNormReplacement):
        names = ", ".join(map(repr, get_args(BatchNormReplacement)))
        raise StructureError(f"Expected a replacement of BatchNorm out of {names}, got {by!r}. Choose one of these.")


def _check(name: str, module: _BatchNorm, by: BatchNormReplacement) -> None:
    """Raise `UnsupportedLayerError` for a layer without the parameters or statistics that are needed."""
    if isinstance(module.weight, nn.UninitializedParameter):
        raise UnsupportedLayerError(
            f"Expected initialized layers, got the lazy BatchNorm '{name}'. Pass a batch through the network first."
        )
    if by == "frozen" and module.running_mean is None:
        raise UnsupportedLayerError(
            f"Expected running statistics in '{name}' ({type(module).__name__}), got none (track_running_stats=False). "
            "Use by='group'."
        )


def _replacement(module: _BatchNorm, by: BatchNormReplacement) -> nn.Module:
    """The layer in place of one BatchNorm, with its mode, dtype and device."""
    makers: dict[str, Callable[[_BatchNorm], nn.Module]] = {
        "group": _group,
        "frozen": _frozen,
        "fixup-scale": _fixup_scale,
    }
    return makers[by](module).to(_like(module)).train(module.training)


def _like(module: _BatchNorm) -> Tensor:
    """A tensor with the dtype and device of a layer; one of the default if it has no tensors."""
    return next((tensor for tensor in (module.weight, module.running_mean) if tensor is not None), torch.empty(1))


def _group(module: _BatchNorm) -> nn.Module:
    channels = module.num_features
    fitting = [n for n in range(1, MAX_GROUPS + 1) if channels % n == 0 and channels // n >= MIN_CHANNELS]
    return _with_weights(nn.GroupNorm(max(fitting, default=1), channels, module.eps, module.affine), module)


def _frozen(module: _BatchNorm) -> nn.Module:
    assert module.running_mean is not None, "checked before"
    assert module.running_var is not None, "a layer with means has variances"
    return _with_weights(
        FrozenBatchNorm(module.running_mean, module.running_var, module.eps, affine=module.affine), module
    )


@torch.no_grad()
def _fixup_scale(module: _BatchNorm) -> nn.Module:
    one = torch.ones_like(_like(module)).expand(module.num_features)
    zero = torch.zeros_like(one)
    mean = zero if module.running_mean is None else module.running_mean
    variance = one if module.running_var is None else module.running_var
    weight = one if module.weight is None else module.weight
    bias = zero if module.bias is None else module.bias
    scales = weight / (variance + module.eps).sqrt()
    shifts = bias - mean * scales
    return nn.Sequential(Scale(float(scales.square().mean().sqrt())), Bias(float(shifts.mean())))


def _with_weights(replacement: nn.Module, module: _BatchNorm) -> nn.Module:
    """The layer with the parameters of the BatchNorm themselves."""
    if module.affine:
        replacement.weight, replacement.bias = module.weight, module.bias
    return replacement
