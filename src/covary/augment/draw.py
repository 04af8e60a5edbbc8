"""Noise of copies that all count the same, as one who looks at them expects."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..noise import uniform
from .protocol import Augmentation, WeightedAugmentation

_CANDIDATES = 64  # of which one is drawn where samples are weighted; a multiple of the size of every group here


def drawn_noise(
    augment: Augmentation, index: Int[Tensor, "N"], num_samples: int, *, seed: int
) -> Float[Tensor, "N S ..."]:
    """Noise of S copies of each datum, a function of (seed, index), distributed as the augmentation's samples.

    Where samples are weighted, each copy is one of many candidates of its own, drawn with the probabilities that are
    their weights.
    """
    if not isinstance(augment, WeightedAugmentation):
        return augment.sample_noise(index, num_samples, seed=seed)
    noise = augment.sample_noise(index, num_samples * _CANDIDATES, seed=seed)
    candidates = noise.unflatten(1, (num_samples, _CANDIDATES)).flatten(0, 1)
    # the inverse of the weights' distribution function: candidate c with probability w_c
    steps = augment.sample_weights(candidates).cumsum(1).contiguous()
    levels = uniform(seed, index, (num_samples,)).to(steps).reshape(-1, 1)
    chosen = torch.searchsorted(steps, levels).squeeze(1).clamp(max=_CANDIDATES - 1)
    rows = torch.arange(len(candidates), device=index.device)
    return candidates[rows, chosen].unflatten(0, (len(index), num_samples))
