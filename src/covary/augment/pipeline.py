"""A learned distribution as a step of an image pipeline."""

from copy import deepcopy

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from ..errors import ShapeError
from .draw import drawn_noise
from .protocol import Augmentation


class RandomTransform(nn.Module):
    """One random transform of each image, for pipelines such as torchvision's v2 or kornia's.

    A frozen copy of the distribution is kept: nothing is learned here, no gradient flows, and training the original
    later changes nothing. Images are (C, H, W) or (N, C, H, W), on any device; bytes are read as [0, 255] / 255 and
    rounded back, floating images keep their dtype.

    Each call draws a seed, by default from torch's global generator: that is what pipelines expect, since
    `torch.manual_seed` and a data loader's workers set it. Workers that share a generator given here repeat one
    another.

    Arguments:
        augment: The distribution, on images.
        generator: Where seeds come from instead.
    """

    augment: Augmentation

    def __init__(self, augment: Augmentation, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.augment, self.generator = deepcopy(augment), generator
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, images: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Transformed images, of the shape and dtype of the given ones."""
        if images.ndim not in (3, 4):
            raise ShapeError(f"Images must be (C, H, W) or (N, C, H, W); {tuple(images.shape)} came. Reshape them.")
        batch = images if images.ndim == 4 else images.unsqueeze(0)
        noise = self._noise(len(batch), batch.device)
        if batch.dtype == torch.uint8:
            copies = self.augment.transform(batch.to(torch.get_default_dtype()) / 255, noise)
            copies = (255 * copies).round().clamp(0, 255).to(torch.uint8)
        else:
            copies = self.augment.transform(batch, noise)
        return copies[:, 0].reshape(images.shape)

    def _noise(self, num_images: int, device: torch.device) -> Tensor:
        """Noise of one sample per image, shape (N, 1, ...)."""
        source = self.generator.device if self.generator is not None else "cpu"
        seed = int(torch.randint(2**63 - 1, (), generator=self.generator, device=source))
        return drawn_noise(self.augment, torch.arange(num_images, device=device), 1, seed=seed)
