"""A network that sees its images with mean 0 and variance 1 in each channel."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import DataError


class Standardized(nn.Module):
    r"""The network :math:`x \mapsto f((x - m) / s)` with a fixed mean m and deviation s for each channel.

    Part of the network, so that an augmentation before it acts on the images as they are: black stays black, and 0
    is what comes in from outside.

    Arguments:
        network: The network f of images (N, C, H, W).
        mean: The means m, shape (C,).
        deviation: The standard deviations s above 0, shape (C,).
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, network: nn.Module, mean: Float[Tensor, "C"], deviation: Float[Tensor, "C"]) -> None:
        super().__init__()
        if not bool((deviation > 0).all()):
            raise DataError(f"Standard deviations must be above 0; {deviation.tolist()} came.")
        self.network = network
        dtype = next((parameter.dtype for parameter in network.parameters()), torch.get_default_dtype())
        self.register_buffer("mean", mean.detach().to(dtype).reshape(-1, 1, 1))
        self.register_buffer("deviation", deviation.detach().to(dtype).reshape(-1, 1, 1))

    def forward(self, x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        """Outputs of the network for standardized images."""
        return self.network((x - self.mean) / self.deviation)

    def extra_repr(self) -> str:
        """Means and deviations, for `print`."""
        return f"mean={self.mean.flatten().tolist()}, deviation={self.deviation.flatten().tolist()}"
