"""One number for a whole feature map: the scale and bias that stand in for normalization in Fixup networks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Scale(nn.Module):
    r"""The product :math:`x \mapsto w x` with a single learnable number :math:`w`.

    Arguments:
        initial: The value of :math:`w` to start from.
    """

    def __init__(self, initial: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), initial))

    def forward(self, input: Float[Tensor, "N *features"]) -> Float[Tensor, "N *features"]:
        """The scaled features."""
        return self.weight * input


class Bias(nn.Module):
    r"""The sum :math:`x \mapsto x + b` with a single learnable number :math:`b`.

    Arguments:
        initial: The value of :math:`b` to start from.
    """

    def __init__(self, initial: float = 0.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((1,), initial))

    def forward(self, input: Float[Tensor, "N *features"]) -> Float[Tensor, "N *features"]:
        """The shifted features."""
        return input + self.bias
