"""Diagonal metrics by the names of weights: given as tensors, or read from the state of an optimizer."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..._types import Weights
from ...errors import NotPositiveDefiniteError, ShapeError, StructureError
from ...priors import weights_of

NamedMetric = Mapping[str, Tensor]  # name of a weight -> its entries of a diagonal metric, 0-d or in its shape


def optimizer_metric(optimizer: torch.optim.Optimizer, network: nn.Module) -> dict[str, Tensor]:
    r"""The metric :math:`M = \operatorname{diag}(\sqrt{\hat v} + \epsilon)` that an adaptive optimizer descends in.

    For Adam and AdamW, :math:`\hat v` is the second moment of the gradients divided by :math:`1 - \beta_2^t` (its
    maximum with `amsgrad`); for RMSprop it is the running mean (minus the squared mean if `centered`). M has the unit
    of the gradients of the training loss, which is usually a mean over data.

    Arguments:
        optimizer: The optimizer, after at least one step.
        network: The network whose weights it has trained, all of them.

    Example:
        >>> network = nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(network.parameters())
        >>> network(torch.tensor([[1.0, 3.0]])).sum().backward()
        >>> optimizer.step()
        >>> optimizer_metric(optimizer, network)["weight"]
        tensor([[1.0000, 3.0000]])
    """
    if not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW | torch.optim.RMSprop):
        raise StructureError(
            f"Expected Adam, AdamW or RMSprop, got {type(optimizer).__name__}, whose metric is not known. Pass the "
            "metric as tensors by name, or None for an optimizer with the Euclidean metric, such as SGD."
        )
    groups = {parameter: group for group in optimizer.param_groups for parameter in group["params"]}
    metric = {}
    for name, weight in weights_of(network).items():
        state = optimizer.state.get(weight)
        if not state:
            raise StructureError(
                f"Expected a second moment for every weight, got none for '{name}'. Take at least one step with every "
                "weight, or pass the metric of the trained ones as tensors."
            )
        metric[name] = _second_moment(groups[weight], state).sqrt() + groups[weight]["eps"]
    return metric


def flat_metric(metric: NamedMetric, weights: Weights) -> Float[Tensor, " P"]:
    """The entries of a metric in the flat order of the weights, checked: one above 0 for each.

    Arguments:
        metric: For each weight one number, or one per entry; other names are ignored.
        weights: The weights.

    Example:
        >>> flat_metric({"bias": torch.tensor(4.0)}, {"bias": torch.zeros(2)})
        tensor([4., 4.])
    """
    entries = checked_metric(metric, weights)
    return torch.cat([entries[name].detach().expand(weight.numel()) for name, weight in weights.items()])


def checked_metric(metric: NamedMetric, weights: Weights) -> dict[str, Tensor]:
    """The metric of each weight in its dtype, 0-d or (numel,); an error for the first that is no metric."""
    checked = {}
    for name, weight in weights.items():
        if name not in metric:
            raise StructureError(
                f"Expected a metric for every weight ({', '.join(weights)}), got none for '{name}'. Add it, or make "
                f"it a point weight, Prior(network, point='{name}')."
            )
        entries = metric[name].to(weight)
        if entries.ndim > 0 and entries.numel() != weight.numel():
            raise ShapeError(
                f"Expected one number or shape {tuple(weight.shape)} for the metric of '{name}', got shape "
                f"{tuple(entries.shape)}."
            )
        if not bool((entries.isfinite() & (entries > 0)).all()):
            raise NotPositiveDefiniteError(
                f"Expected a finite metric above 0 for '{name}', got an entry {entries.min().item():.1e}. Damp it, or "
                f"make it a point weight, Prior(network, point='{name}')."
            )
        checked[name] = entries.flatten() if entries.ndim > 0 else entries
    return checked


def _second_moment(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    """The second moment of the gradients as the optimizer divides by it."""
    if "square_avg" in state:  # RMSprop
        moment: Tensor = state["square_avg"]
        return (moment - state["grad_avg"].square()).clamp_min(0) if group["centered"] else moment
    moment = state["max_exp_avg_sq"] if group["amsgrad"] else state["exp_avg_sq"]
    return moment / (1 - float(group["betas"][1]) ** float(state["step"]))
