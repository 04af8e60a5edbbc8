"""A trained network for use outside of covary: fixed augmentation samples, one input, one output."""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from ..errors import StructureError
from .averaged import Averaged


class Deployed(nn.Module):
    r"""The network :math:`x \mapsto \hat f(x)` with the same evenly spread augmentation samples for every datum.

    `Averaged` draws other samples for each datum; here the noise is a constant, that of a datum of index 0, so that an
    output depends on its input only, and no random numbers are needed. It is a frozen copy in evaluation mode. Outputs
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
    averaged.num_samples, averaged.num_sets = num_samples, 1
    first = torch.zeros(1, dtype=torch.int64, device=augment.widths.device)
    augment.register_buffer("fixed_noise", augment.sample_noise(first, num_samples, seed=seed).detach())

    def sample_noise(index: Tensor, num_samples: int, *, seed: int) -> Tensor:
        del num_samples, seed  # a constant
        noise: Tensor = augment.fixed_noise
        return noise.expand(index.shape[0], *noise.shape[1:])

    augment.sample_noise = sample_noise
