"""Where a fit computes: the device that a name stands for, and a model moved there."""

import os
from typing import cast

import torch
from torch import nn

from ..errors import StructureError
from ..models import Model


def device_of(network: nn.Module) -> torch.device:
    """The device of a network: that of its first parameter, or buffer; the CPU if it has neither."""
    tensors = [*network.parameters(), *network.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


def resolved_device(name: str, network: nn.Module) -> torch.device:
    """The device of a name.

    "auto" is the network's own device if that is not the CPU, else "cuda" if there is one, else the CPU. Of several
    processes on one machine, each takes the GPU of its local rank.

    Arguments:
        name: "auto", "cpu", "cuda", "cuda:N" or "mps".
        network: The network.
    """
    own = device_of(network)
    if name == "auto":
        if own.type != "cpu" or not torch.cuda.is_available():
            return own
        name = "cuda"
    device = torch.device(name)
    if device.type == "mps":
        raise StructureError(
            "The evidence is computed in float64, which the device 'mps' does not have. Use device='cpu' or 'cuda'."
        )
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise StructureError(
            f"Expected a GPU for device='{name}', but this torch ({torch.__version__}) sees none. Use device='cpu', or "
            "install torch with CUDA."
        )
    index = int(os.environ.get("LOCAL_RANK", "0")) if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise StructureError(
            f"Expected one of {torch.cuda.device_count()} GPUs, got device 'cuda:{index}'. Choose another, or start "
            "fewer processes."
        )
    return torch.device("cuda", index)


def move_model(model: Model, device: torch.device) -> None:
    """Move network, likelihood and prior to a device, in place."""
    for module in (model.network, cast(nn.Module, model.likelihood), model.prior):
        module.to(device)
