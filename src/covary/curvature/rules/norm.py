"""Scales and shifts: those of normalization layers, per feature or channel, and scalar ones."""

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ...layers import Bias, FrozenBatchNorm, Scale
from ..jacobian_factors import DirectVJP, JacobianFactors
from .conv import sum_positions

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | FrozenBatchNorm


def layer_norm(module: nn.LayerNorm, inputs: Float[Tensor, "N S *features"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = w \odot \hat x + b` with one entry per normalized feature."""
    normalized = functional.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    return _per_feature(normalized, len(module.normalized_shape))


def rms_norm(module: nn.RMSNorm, inputs: Float[Tensor, "N S *features"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = w \odot \hat x` with one entry per normalized feature."""
    normalized = functional.rms_norm(inputs, module.normalized_shape, eps=module.eps)
    return _per_feature(normalized, len(module.normalized_shape))


def group_norm(module: nn.GroupNorm, inputs: Float[Tensor, "N S C *space"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = w_c \hat x + b_c` with one entry per channel."""
    normalized = functional.group_norm(inputs.flatten(0, 1), module.num_groups, eps=module.eps)
    return _per_channel(normalized.view_as(inputs))


def batch_norm(module: BatchNorm, inputs: Float[Tensor, "N S C *space"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = w_c \hat x + b_c` with the running statistics of evaluation mode."""
    flat = inputs.flatten(0, 1)
    normalized = functional.batch_norm(flat, module.running_mean, module.running_var, eps=module.eps)
    return _per_channel(normalized.view_as(inputs))


def scale(module: Scale, inputs: Float[Tensor, "N S *features"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = w x`: the sum of :math:`x \odot g` over samples and features."""
    del module
    return {"weight": DirectVJP(lambda gradient: (gradient * inputs).flatten(1).sum(1, keepdim=True))}


def bias(module: Bias, inputs: Float[Tensor, "N S *features"]) -> dict[str, JacobianFactors]:
    r"""The factors of :math:`y = x + b`: the sum of g over samples and features."""
    del module, inputs
    return {"bias": DirectVJP(lambda gradient: gradient.flatten(1).sum(1, keepdim=True))}


def _per_feature(normalized: Float[Tensor, "N S *features"], rank: int) -> dict[str, JacobianFactors]:
    return {
        "weight": DirectVJP(lambda gradient: _sum_leading(rank, gradient * normalized)),
        "bias": DirectVJP(partial(_sum_leading, rank)),
    }


def _per_channel(normalized: Float[Tensor, "N S C *space"]) -> dict[str, JacobianFactors]:
    return {
        "weight": DirectVJP(lambda g: sum_positions(g * normalized)),
        "bias": DirectVJP(sum_positions),
    }


def _sum_leading(rank: int, gradient: Float[Tensor, "N S *features"]) -> Float[Tensor, "N P"]:
    """The sum over samples and tokens, all axes but the first and the last `rank`."""
    features = gradient.shape[gradient.dim() - rank :].numel()
    return gradient.reshape(gradient.shape[0], -1, features).sum(1)
