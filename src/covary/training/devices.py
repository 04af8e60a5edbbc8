"""Where a fit computes: the devices that a name stands for, and a model moved there."""

import os
from typing import NamedTuple, cast

import torch
from torch import nn

from .._types import WITHOUT_FLOAT64
from ..config import FitConfig
from ..errors import StructureError
from ..models import Model
from ..networks.offloaded import offloaded


class Devices(NamedTuple):
    """Where a fit computes."""

    model: torch.device  # the device of network, likelihood and prior, where hyper steps and evaluations run
    # the device of the passes of weight steps through the network; another one if that has no float64
    weight_steps: torch.device


def device_of(network: nn.Module) -> torch.device:
    """The device of a network: that of its first parameter, or buffer; the CPU if it has neither."""
    tensors = [*network.parameters(), *network.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


def resolved_devices(name: str, network: nn.Module) -> Devices:
    """The devices of a name.

    "auto" is the network's own device if that is not the CPU, else "cuda" if there is one, else the CPU. Of several
    processes on one machine, each takes the GPU of its local rank. "mps" is for weight steps alone: curvature and
    evidence need float64.

    Arguments:
        name: "auto", "cpu", "cuda", "cuda:N" or "mps".
        network: The network.
    """
    device = _device(name, network)
    if device.type not in WITHOUT_FLOAT64:
        return Devices(device, device)
    for parameter, tensor in network.named_parameters():
        if tensor.dtype == torch.float64:
            raise StructureError(
                f"Expected float32 parameters for the device '{device.type}', which has no float64, got float64 in "
                f"'{parameter}'. Call network.float(), or use device='cpu'."
            )
    return Devices(torch.device("cpu"), device)


def _device(name: str, network: nn.Module) -> torch.device:
    own = device_of(network)
    if name == "auto":
        if own.type != "cpu" or not torch.cuda.is_available():
            return own
        name = "cuda"
    device = torch.device(name)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise StructureError(
            f"Expected a GPU of Apple for device='mps', but this torch ({torch.__version__}) sees none. Use "
            "device='cpu'."
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


def stepped_on(network: nn.Module, device: torch.device, config: FitConfig) -> nn.Module:
    """The network as weight steps run it on another device than its own."""
    if config.weights.compile or config.weights.precision != "full":
        raise StructureError(
            f"Expected weights.compile=false and weights.precision='full' with the device '{device.type}', got "
            f"{str(config.weights.compile).lower()} and '{config.weights.precision}'. Set these, or use another device."
        )
    return offloaded(network, device)


def move_model(model: Model, device: torch.device) -> None:
    """Move network, likelihood and prior to a device, in place."""
    for module in (model.network, cast(nn.Module, model.likelihood), model.prior):
        module.to(device)
