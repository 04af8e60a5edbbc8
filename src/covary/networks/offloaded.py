"""A network whose passes run on another device than its parameters are on, for weight steps."""

from itertools import chain

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .averaged import Averaged


class Offloaded(nn.Module):
    """The network with its passes on a device; outputs and gradients are where inputs and parameters are.

    Parameters and buffers are copied to the device at each call, and buffers that the call changes are copied back.
    """

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.network, self.device = network, device

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the network, on the device of the inputs."""
        buffers = dict(self.network.named_buffers())
        named = chain(self.network.named_parameters(), buffers.items())
        moved = {name: tensor.to(self.device) for name, tensor in named}
        outputs: Tensor = functional_call(self.network, moved, (x.to(self.device),))
        with torch.no_grad():
            for name, buffer in buffers.items():
                buffer.copy_(moved[name])
        return outputs.to(x.device)


def offloaded(network: nn.Module, device: torch.device) -> nn.Module:
    """The network with its passes on a device; it shares the parameters of the one that is passed.

    Of an averaged network the inner one is moved: augmentation samples are drawn in double precision, which the device
    may not have.
    """
    if isinstance(network, Averaged):
        return network.with_network(offloaded(network.network, device))
    return Offloaded(network, device)
