"""Checks of outputs and targets that likelihoods share."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import DataError, ShapeError


def log_parameter(name: str, value: float | Sequence[float], learned: bool) -> nn.Parameter:
    """Logarithms of positive numbers, as a parameter in float64 that is cast to the outputs' dtype on use."""
    values = torch.tensor(value, dtype=torch.float64)
    if values.ndim > 1 or not values.numel() or not bool((values.isfinite() & (values > 0)).all()):
        raise DataError(f"{name} must be finite and above 0, got {value}. Pass a positive number.")
    return nn.Parameter(values.log(), requires_grad=learned)


def as_outputs(targets: Tensor, outputs: Tensor) -> Tensor:
    """Targets in the shape and dtype of the outputs, (N,) becoming (N, 1)."""
    return targets.reshape(outputs.shape).to(outputs)


def check_outputs(outputs: Tensor) -> None:
    """Raise an error unless outputs are (N, C) or (N, C, ...), floating and finite."""
    if outputs.ndim < 2:
        raise ShapeError(
            f"The network must return outputs of shape (N, C), got {tuple(outputs.shape)}. "
            "Keep an axis of outputs, of size 1 if there is one."
        )
    if not outputs.is_floating_point():
        raise DataError(f"Outputs must be floating, got {outputs.dtype}. Return logits or means, not classes.")
    if not outputs.isfinite().all():
        raise DataError(
            f"Outputs must be finite, got {int((~outputs.isfinite()).sum())} of {outputs.numel()} NaN or infinite. "
            "Check the inputs for NaN, or lower the learning rate."
        )


def check_real_targets(name: str, outputs: Tensor, targets: Tensor, *, integers: bool = False) -> None:
    """Raise an error unless targets are finite, of the shape of the outputs, and in their dtype or integers."""
    shape = tuple(outputs.shape)
    shapes = [shape, *([(shape[0], *shape[2:])] if shape[1] == 1 else [])]
    flattened = outputs.ndim == 2 < targets.ndim and targets.numel() == outputs.numel() and len(targets) == shape[0]
    if not flattened:
        check_target_shape(name, targets, shapes)
    if integers and not targets.is_floating_point():
        return
    if targets.dtype != outputs.dtype:
        raise DataError(
            f"Expected targets in the dtype of the outputs for {name}, {outputs.dtype}, got {targets.dtype}. "
            f"Pass targets.to({outputs.dtype})."
        )
    if not targets.isfinite().all():
        raise DataError(
            f"Targets must be finite, got {int((~targets.isfinite()).sum())} of {targets.numel()} NaN or infinite. "
            "Remove those data or fill them in."
        )


def check_target_shape(name: str, targets: Tensor, shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise `ShapeError` unless targets have one of these shapes."""
    if tuple(targets.shape) not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise ShapeError(
            f"Expected targets of shape {expected} for {name}, got {tuple(targets.shape)}. "
            "Pass one target per datum, and a network with one output per target entry or class."
        )


def check_exponent(name: str, what: str, exponents: Tensor) -> None:
    """Raise `DataError` if the exponential of an output is infinite in its dtype."""
    if not exponents.exp().isfinite().all():
        raise DataError(
            f"Expected {what} that are finite numbers for {name}, got e^{float(exponents.max()):.4g}. Lower the "
            "learning rate, or standardize inputs and targets."
        )
