"""What an augmentation does to images, as a record of bytes."""

import base64

import torch
from torch import Tensor

from ..augment import Augmentation, PerClass
from ..augment.composed import affine_maps
from ..augment.sampling import drawn_noise
from ..batches import IndexedBatch
from ..records import Pictures
from .schedule import SAMPLES, seed_for

NUM_PICTURES, NUM_VERSIONS = 6, 7


@torch.no_grad()
def pictures_of(augment: Augmentation, batch: IndexedBatch, seed: int) -> Pictures | None:
    """The first images of a batch, with versions of each; None where the data are no images.

    With widths of each class, versions are by those of the label. They are drawn with their probabilities, so that what
    is rare in the distribution is rare to see.
    """
    x = batch.x[:NUM_PICTURES]
    if x.ndim != 4 or x.shape[1] not in (1, 3) or not x.is_floating_point():
        return None
    index, seed = batch.identity[:NUM_PICTURES], seed_for(seed, SAMPLES)
    if isinstance(augment, PerClass):
        noise = _of_own_class(augment, index, batch.y[:NUM_PICTURES], seed)
        rows = range(len(x))  # the order of classes is another one for each
        made = torch.cat([augment.transform(x[k : k + 1], noise[k : k + 1]) for k in rows])
    else:
        noise = drawn_noise(augment, index, NUM_VERSIONS, seed=seed)
        made = augment.transform(x, noise)
    images = torch.cat([x[:, None], made], 1)
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 1.0)
    pixels = ((images - low) / (high - low)).clamp(0, 1).mul(255).round().to(torch.uint8).cpu()
    return Pictures(
        shape=list(images.shape),
        pixels=base64.b64encode(pixels.numpy().tobytes()).decode(),
        labels=[str(label) for label in batch.y[:NUM_PICTURES].tolist()],
        matrices=_matrices(augment, noise[:1], x.shape[-2], x.shape[-1]),
    )


def _of_own_class(augment: PerClass, index: Tensor, labels: Tensor, seed: int) -> Tensor:
    """Noise of versions of each datum by the widths of its class, (N, S, K); of the first where it has none."""
    num_classes = len(augment.class_names)
    noise = augment.sample_noise(index, NUM_VERSIONS * num_classes, seed=seed).unflatten(1, (num_classes, NUM_VERSIONS))
    own = labels.long() % num_classes if labels.ndim == 1 else torch.zeros_like(index)
    return noise[torch.arange(len(index), device=noise.device), own.to(noise.device)]


def _matrices(augment: Augmentation, noise: Tensor, height: int, width: int) -> list[list[float]]:
    """The sampled maps of the first image, where all of them are affine."""
    maps = affine_maps(augment, noise, height, width)
    return [] if maps is None else maps[0].flatten(1).tolist()
