"""A learned distribution as a step of an image pipeline."""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from .._fields import as_tensor, is_picture
from ..errors import ShapeError
from .protocol import Augmentation
from .sampling import drawn_noise


class RandomTransform(nn.Module):
    """One random transform of each image, for pipelines such as torchvision's v2 or kornia's.

    It has a frozen copy of the distribution, without gradients. Images are (C, H, W) or (N, C, H, W), on any device;
    bytes are divided by 255 and rounded back, floating-point images keep their dtype. A picture of Pillow, gray or
    color, gives a picture.

    Each call draws a seed, by default from torch's global generator, which `torch.manual_seed` and the workers of a
    data loader set. Workers that share a generator given here draw the same transforms.

    Arguments:
        augment: The distribution, on images.
        generator: The source of seeds instead.

    Example:
        >>> import torch
        >>> from covary.augment import Affine2d, RandomTransform
        >>> step = RandomTransform(Affine2d(initial_width=0.2))
        >>> step(torch.zeros(3, 28, 28, dtype=torch.uint8)).shape
        torch.Size([3, 28, 28])
    """

    augment: Augmentation

    def __init__(self, augment: Augmentation, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.augment, self.generator = deepcopy(augment), generator
        self.requires_grad_(False)

    def forward(self, images: Any) -> Any:
        """Transformed images, of the shape and dtype of the input; a picture of Pillow for one."""
        if not is_picture(images):
            return self._transformed(images)
        from PIL import Image  # here: `import covary` imports nothing that reads pictures

        pixels = self._transformed(as_tensor([images], "a picture"))[0].permute(1, 2, 0)
        return Image.fromarray(pixels.squeeze(-1).numpy(), images.mode)

    @torch.no_grad()
    def _transformed(self, images: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        if images.ndim not in (3, 4):
            raise ShapeError(f"Expected images (C, H, W) or (N, C, H, W), got {tuple(images.shape)}. Reshape them.")
        batch = images if images.ndim == 4 else images.unsqueeze(0)
        noise = self._noise(len(batch), batch.device)
        if batch.dtype == torch.uint8:
            samples = self.augment.transform(batch.to(torch.get_default_dtype()) / 255, noise)
            samples = (255 * samples).round().clamp(0, 255).to(torch.uint8)
        else:
            samples = self.augment.transform(batch, noise)
        return samples[:, 0].reshape(images.shape)

    def _noise(self, num_images: int, device: torch.device) -> Tensor:
        """Noise of one sample per image, shape (N, 1, ...)."""
        source = self.generator.device if self.generator is not None else "cpu"
        seed = int(torch.randint(2**63 - 1, (), generator=self.generator, device=source))
        return drawn_noise(self.augment, torch.arange(num_images, device=device), 1, seed=seed)
