"""Batch normalization with fixed statistics, and scalar scale and bias, which replace it in Fixup networks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


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


class FrozenBatchNorm(nn.Module):
    r"""Normalization :math:`y_c = w_c (x_c - m_c) / \sqrt{v_c + \epsilon} + b_c` with fixed statistics m and v.

    It is what `nn.BatchNorm1d`, `2d` and `3d` compute in evaluation mode, in either mode: outputs of a datum depend on
    this datum alone, and no statistics change. Scales w and shifts b are weights.

    Arguments:
        mean: The means m, shape (C,).
        variance: The variances v, shape (C,).
        eps: The number :math:`\epsilon`.
        affine: Whether there are weights w, initially 1, and b, initially 0.

    Example:
        >>> import torch
        >>> from covary.layers import FrozenBatchNorm
        >>> FrozenBatchNorm(torch.tensor([1.0]), torch.tensor([4.0]), eps=0.0)(torch.tensor([[3.0]]))
        tensor([[1.]], grad_fn=<NativeBatchNormBackward0>)
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, mean: Float[Tensor, "C"], variance: Float[Tensor, "C"], eps: float = 1e-5, affine: bool = True
    ) -> None:
        super().__init__()
        self.register_buffer("running_mean", mean.detach().clone())
        self.register_buffer("running_var", variance.detach().clone())
        self.eps = eps
        self.weight = nn.Parameter(torch.ones_like(mean)) if affine else None
        self.bias = nn.Parameter(torch.zeros_like(mean)) if affine else None

    def forward(self, input: Float[Tensor, "N C *space"]) -> Float[Tensor, "N C *space"]:
        """Normalized features."""
        statistics = self.running_mean, self.running_var
        return functional.batch_norm(input, *statistics, self.weight, self.bias, training=False, eps=self.eps)

    def extra_repr(self) -> str:
        """Number of channels, for `print`."""
        return f"{len(self.running_mean)}, eps={self.eps}, affine={self.weight is not None}"
