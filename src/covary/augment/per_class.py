"""A distribution of transforms for each class: a 6 may turn less than a 0."""

import copy
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ShapeError, StructureError
from .protocol import Augmentation
from .uniform import UniformWidths


class PerClass(nn.Module):
    r"""An augmentation with widths of its own for each output of the network.

    The label of a new datum is unknown, so it is the outputs that are averaged in different ways: output c is the mean
    of :math:`f_c` over samples with the widths of class c,

    .. math:: \hat f_c(x) = \frac{C}{S} \sum_{s:\, c(s) = c} f_c(x'_s).

    The S samples of a datum are shared out among the C classes, with the same noise for each; `covary.Averaged` uses
    `output_weights`. A run costs C times as much as one with common widths for as many samples per class.

    Arguments:
        augment: The augmentation of every class at the start, such as `Affine2d(("rotation",))`.
        class_names: A name for each class, in the order of the outputs; the name of a width is "rotation[6]".

    Example:
        >>> from covary.augment import Affine2d, PerClass
        >>> augment = PerClass(Affine2d(("rotation",)), ("0", "6", "9"))
        >>> augment.names
        ('rotation[0]', 'rotation[6]', 'rotation[9]')
        >>> augment.sample_noise(torch.arange(2), 6, seed=0).shape
        torch.Size([2, 6, 2])
    """

    hyperparameters = ("parts",)

    def __init__(self, augment: Augmentation, class_names: Sequence[str]) -> None:
        super().__init__()
        if not isinstance(augment, UniformWidths):
            raise StructureError(
                f"Expected an augmentation with widths, such as Affine2d, got {type(augment).__name__}. Finite groups, "
                "mirrors and composed augmentations have no version per class."
            )
        if isinstance(class_names, str | int) or len(class_names) < 2 or len(set(class_names)) < len(class_names):
            raise StructureError(f"Expected two or more different names of classes, got {class_names!r}. Pass a tuple.")
        self.class_names = tuple(class_names)
        self.parts = nn.ModuleList(copy.deepcopy(augment) for _ in class_names)
        self.names = tuple(f"{name}[{of}]" for of in self.class_names for name in augment.names)
        self.units, self.signs = augment.units * len(class_names), augment.signs * len(class_names)

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Widths of all transforms of the first class, then of the second, and so on."""
        return torch.cat([part.widths for part in self._parts()])

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Noise of the samples of each class, equal for all classes, and the number of the class as a last entry."""
        num_classes = len(self.parts)
        if num_samples % num_classes:
            raise ShapeError(
                f"Expected a multiple of {num_classes} samples, as many for each class, got {num_samples}. Set "
                f"num_samples, hyper.num_samples and evaluation.num_samples to multiples of {num_classes}."
            )
        noise = self._parts()[0].sample_noise(index, num_samples // num_classes, seed=seed)
        own = [torch.cat([noise, torch.full_like(noise[..., :1], of)], -1) for of in range(num_classes)]
        return torch.cat(own, 1)

    def output_weights(self, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S C"]:
        """Weights of each sample in each output: those of a class in its own output, columns summing to 1."""
        member = noise[..., -1:] == torch.arange(len(self.parts), device=noise.device)
        return member.to(noise) / member.sum(1, keepdim=True)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S ..."]:
        """Samples of the data x of shape (N, ...), each by the widths of its class."""
        classes = noise[0, :, -1].long()  # all data have the same order
        order = classes.argsort(stable=True)
        made = [
            part.transform(x, noise[:, classes == of, :-1]) for of, part in enumerate(self._parts()) if of in classes
        ]
        return torch.cat(made, 1)[:, order.argsort()]

    def _parts(self) -> list[UniformWidths]:
        return [cast(UniformWidths, part) for part in self.parts]

    def extra_repr(self) -> str:
        """Names of the classes, for `print`."""
        return f"class_names={self.class_names}"
