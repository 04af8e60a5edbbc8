"""Training data that weight steps see transformed and the evidence sees as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Augmented:
    """Training data with a random transform that is not learned: `fit` applies it in weight steps only.

    The evidence is that of the data as they are: transformed copies would count the same datum more than once.

    Arguments:
        data: A pair of tensors, a `Dataset`, or an iterable of batches.
        transform: A map (x, index, seed) -> x of a batch; its noise is a function of `index` and `seed`, which is
            another one each epoch. `covary.data.flips_and_shifts` is one.

    Example:
        >>> import torch, covary
        >>> digits = torch.rand(8, 1, 28, 28), torch.arange(8) % 2
        >>> train = covary.data.Augmented(digits, covary.data.flips_and_shifts)
        >>> train.transform(digits[0], torch.arange(8), 0).shape
        torch.Size([8, 1, 28, 28])
    """

    data: Any
    transform: Callable[[Tensor, Tensor, int], Tensor]
