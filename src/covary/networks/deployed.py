"""A trained network for use outside of covary: fixed augmentation samples, one input, one output."""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from ..augment import Augmentation, WeightedAugmentation
from ..errors import StructureError
from .averaged import Averaged

# of S / (1 / sum of squares), from which more samples are drawn, up to this many times S; and the weight of those that
# are left out
LEAST_PART, MOST_TIMES, LEFT_OUT = 1.25, 64, 0.01


class Deployed(nn.Module):
    r"""The network :math:`x \mapsto \hat f(x)` with the same evenly spread augmentation samples for every datum.

    `Averaged` draws other samples for each datum; here the noise is a constant, that of a datum of index 0, so that an
    output depends on its input only, and no random numbers are needed. Where samples have weights, as with a finite
    group, more are drawn until they count as much as this number of equal ones, and those that hardly count are left
    out. It is a frozen copy in evaluation mode. Outputs
    are those of the network, such as logits.

    Arguments:
        network: The network, averaged or not.
        num_samples: The number of augmentation samples; None for as many as the network has.
        seed: The seed of the noise.

    Example:
        >>> import covary, torch
        >>> augment = covary.augment.Affine2d(("rotation",), initial_width=0.3)
        >>> network = covary.Averaged(covary.networks.mlp(784, 100, 10), augment, num_samples=8)
        >>> deployed = covary.networks.Deployed(network)
        >>> x = torch.rand(1, 1, 28, 28)
        >>> bool(torch.isclose(deployed(x.repeat(2, 1, 1, 1))[1], deployed(x)[0]).all())
        True
    """

    def __init__(self, network: nn.Module, num_samples: int | None = None, *, seed: int = 0) -> None:
        super().__init__()
        self.network = deepcopy(network).eval().requires_grad_(False)
        for module in self.network.modules():
            if isinstance(module, Averaged):
                _fix_noise(module, num_samples or module.num_samples, seed)

    def forward(self, x: Shaped[Tensor, "N ..."]) -> Float[Tensor, "N C ..."]:
        """Outputs of the network, shape (N, C) or (N, C, ...)."""
        return self.network(x)

    def program(self, example: Shaped[Tensor, "N ..."]) -> torch.export.ExportedProgram:
        """The network as one program of `torch.export`, for any number of data of the shape of an example.

        Arguments:
            example: One datum or more, shape (N, ...); only shape and dtype are used.
        """
        two = torch.zeros(2, *example.shape[1:], dtype=example.dtype, device=example.device)  # one is no symbol
        try:
            return torch.export.export(self, (two,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
        except Exception as error:  # of the network, or of torch, of any kind
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise StructureError(
                f"The network cannot be exported by torch.export ({reason:.300}). Write x.shape[0] for the number of "
                "data, and no branches that depend on values."
            ) from error


def _fix_noise(averaged: Averaged, num_samples: int, seed: int) -> None:
    """Let a network draw constant noise, in one set."""
    augment: Any = averaged.augment
    augment.register_buffer("fixed_noise", _constant_noise(averaged.augment, num_samples, seed))
    averaged.num_samples, averaged.num_sets = augment.fixed_noise.shape[1], 1

    def sample_noise(index: Tensor, num_samples: int, *, seed: int) -> Tensor:
        del num_samples, seed  # a constant
        noise: Tensor = augment.fixed_noise
        return noise.expand(index.shape[0], *noise.shape[1:])

    augment.sample_noise = sample_noise


@torch.no_grad()
def _constant_noise(augment: Augmentation, num_samples: int, seed: int) -> Float[Tensor, "1 S ..."]:
    r"""Noise that counts as much as that of S equal samples, by :math:`1 / \sum_s w_s^2`.

    Of a group that is nearly the identity alone, S samples would hold one or two that count, and one fixed transform
    would be the same for all data.
    """
    first = torch.zeros(1, dtype=torch.int64, device=augment.widths.device)
    noise = augment.sample_noise(first, num_samples, seed=seed)
    if not isinstance(augment, WeightedAugmentation):
        return noise
    weights, number = augment.sample_weights(noise)[0], num_samples
    while weights.square().sum() * num_samples > LEAST_PART and number < MOST_TIMES * num_samples:
        number *= 2
        noise = augment.sample_noise(first, number, seed=seed)
        weights = augment.sample_weights(noise)[0]
    order = weights.argsort(descending=True)
    held = weights[order].cumsum(0) - weights[order]  # by those that count more
    return noise[:, order[held < 1 - LEFT_OUT].sort().values]
