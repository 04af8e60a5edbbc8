"""Batch normalization with fixed statistics, in training mode too."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


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
