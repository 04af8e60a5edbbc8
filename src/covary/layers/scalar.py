"""Scalar scale and bias, which replace normalization in Fixup networks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Scale(nn.Module):
    r"""Product :math:`x \mapsto w x` with a single learnable number :math:`w`.

    Arguments:
        initial: The initial value of :math:`w`.

    Example:
        >>> import torch
        >>> from covary.layers import Scale
        >>> Scale(2.0)(torch.ones(1, 3)).tolist()
        [[2.0, 2.0, 2.0]]
    """

    def __init__(self, initial: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), initial))

    def forward(self, input: Float[Tensor, "N *features"]) -> Float[Tensor, "N *features"]:
        """Scaled features."""
        return self.weight * input


class Bias(nn.Module):
    r"""Sum :math:`x \mapsto x + b` with a single learnable number :math:`b`.

    Arguments:
        initial: The initial value of :math:`b`.

    Example:
        >>> import torch
        >>> from covary.layers import Bias
        >>> Bias(0.5)(torch.ones(1, 3)).tolist()
        [[1.5, 1.5, 1.5]]
    """

    def __init__(self, initial: float = 0.0) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((1,), initial))

    def forward(self, input: Float[Tensor, "N *features"]) -> Float[Tensor, "N *features"]:
        """Shifted features."""
        return input + self.bias
