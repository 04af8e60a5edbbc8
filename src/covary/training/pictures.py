"""What an augmentation does to images, as a record of bytes."""

import base64

import torch
from torch import Tensor

from ..augment import Augmentation
from ..augment.composed import affine_maps
from ..augment.sampling import drawn_noise
from ..batches import IndexedBatch
from ..records import Pictures
from .schedule import SAMPLES, seed_for

NUM_PICTURES, NUM_VERSIONS = 6, 7


@torch.no_grad()
def pictures_of(augment: Augmentation, batch: IndexedBatch, seed: int) -> Pictures | None:
    """The first images of a batch, with versions of each; None where the data are no images.

    Versions are drawn with their probabilities, so that what is rare in the distribution is rare to see.
    """
    x = batch.x[:NUM_PICTURES]
    if x.ndim != 4 or x.shape[1] not in (1, 3) or not x.is_floating_point():
        return None
    noise = drawn_noise(augment, batch.identity[:NUM_PICTURES], NUM_VERSIONS, seed=seed_for(seed, SAMPLES))
    images = torch.cat([x[:, None], augment.transform(x, noise)], 1)
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 1.0)
    pixels = ((images - low) / (high - low)).clamp(0, 1).mul(255).round().to(torch.uint8).cpu()
    return Pictures(
        shape=list(images.shape),
        pixels=base64.b64encode(pixels.numpy().tobytes()).decode(),
        labels=[str(label) for label in batch.y[:NUM_PICTURES].tolist()],
        matrices=_matrices(augment, noise[:1], x.shape[-2], x.shape[-1]),
    )


def _matrices(augment: Augmentation, noise: Tensor, height: int, width: int) -> list[list[float]]:
    """The sampled maps of the first image, where all of them are affine."""
    maps = affine_maps(augment, noise, height, width)
    return [] if maps is None else maps[0].flatten(1).tolist()
