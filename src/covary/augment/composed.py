"""Augmentations one after the other, and the matrices of sampled transforms."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import ShapeError, StructureError
from ..noise import fold, uniform
from .affine import Affine2d, Correlated
from .finite import FiniteGroup
from .protocol import Augmentation, WeightedAugmentation


class Composed(nn.Module):
    r"""Augmentations applied in the order given, such as flips, then affine transforms, then color.

    The noise of the parts is concatenated along the last axis. Samples of every part but the first are in a random
    order per datum: evenly spread samples of two parts, paired in their own order, would be correlated, and their joint
    mean would never converge. So sample s depends on S here. Weights of samples are multiplied, then normalized.

    Arguments:
        parts: The augmentations, each with noise of shape (N, S, K_i) and names of its own.

    Example:
        >>> from covary.augment import Affine2d, Composed, FiniteGroup
        >>> augment = Composed(FiniteGroup(("identity", "flip_x")), Affine2d(("rotation",)))
        >>> augment.names
        ('flip_x', 'rotation')
    """

    hyperparameters = ("parts",)
    parts: Sequence[Augmentation]

    def __init__(self, *parts: Augmentation) -> None:
        super().__init__()
        self.names = tuple(name for part in parts for name in part.names)
        if not parts or len(set(self.names)) < len(self.names):
            raise StructureError(
                f"Expected one or more augmentations without a common name, got {', '.join(self.names) or 'none'}. "
                "Give each name to one augmentation only."
            )
        self.units = _joined(parts, "units")
        self.signs = _joined(parts, "signs")
        probe = torch.zeros(1, dtype=torch.int64)
        shapes = [part.sample_noise(probe, 1, seed=0).shape for part in parts]
        if any(len(shape) != 3 for shape in shapes):
            raise ShapeError(
                f"Expected noise of shape (N, S, K_i), got {', '.join(str(tuple(s)) for s in shapes)}. "
                "Flatten its last axes in `sample_noise`."
            )
        self.noise_sizes = [shape[2] for shape in shapes]
        self.parts = cast(Sequence[Augmentation], nn.ModuleList(cast(Iterable[nn.Module], parts)))

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Widths of all parts, in the order of `names`."""
        return torch.cat([part.widths for part in self.parts])

    @property
    def correlation(self) -> Float[Tensor, "K K"] | None:
        """Correlation matrix of the coefficients, block-diagonal over the parts; None if no part has one."""
        found = [getattr(part, "correlation", None) for part in self.parts]
        if not any(isinstance(matrix, Tensor) for matrix in found):
            return None
        alone = [torch.eye(len(part.names), device=part.widths.device).to(part.widths) for part in self.parts]
        own = zip(found, alone, strict=True)
        return torch.block_diag(*[matrix if isinstance(matrix, Tensor) else identity for matrix, identity in own])

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S K"]:
        """Noise of all parts, each from a seed of its own."""
        noises = []
        for number, part in enumerate(self.parts):
            noise = part.sample_noise(index, num_samples, seed=fold(seed, number))
            if number > 0:
                order = uniform(fold(seed, number), index, (num_samples,), dtype=torch.float64).argsort(1)
                noise = noise.take_along_dim(order.unsqueeze(-1), dim=1)
            noises.append(noise)
        return torch.cat(noises, dim=-1)

    def sample_weights(self, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S"]:
        """Products of the parts' weights, normalized over the samples of a datum."""
        weights = noise.new_ones(noise.shape[:2])
        for part, own in zip(self.parts, noise.split(self.noise_sizes, dim=-1), strict=True):
            if isinstance(part, WeightedAugmentation):
                weights = weights * part.sample_weights(own)
        return weights / weights.sum(1, keepdim=True)

    def transform(self, x: Tensor, noise: Float[Tensor, "N S K"]) -> Float[Tensor, "N S ..."]:
        """Samples of the data x of shape (N, ...), each transformed by every part."""
        first, *others = noise.split(self.noise_sizes, dim=-1)
        samples = self.parts[0].transform(x, first)
        for part, own in zip(self.parts[1:], others, strict=True):
            single = part.transform(samples.flatten(0, 1), own.flatten(0, 1).unsqueeze(1))
            samples = single.squeeze(1).unflatten(0, noise.shape[:2])
        return samples


def affine_maps(
    augment: Augmentation, noise: Float[Tensor, "N S K"], height: int, width: int
) -> Float[Tensor, "N S 3 3"] | None:
    r"""Matrices from output to input coordinates on [−1, 1]² of sampled transforms; None where one is not affine.

    The matrix of composed augmentations is the product :math:`T_1 T_2 \cdots` in their order. Augmentations other than
    those of covary are not known to be affine. Images have that height and width.
    """
    if isinstance(augment, Affine2d | Correlated):
        return augment.matrices(augment.coefficients(noise), height, width)
    if isinstance(augment, FiniteGroup):
        return augment.matrices(noise)
    if isinstance(augment, Composed):
        own = zip(augment.parts, noise.split(augment.noise_sizes, dim=-1), strict=True)
        parts = [affine_maps(part, part_noise, height, width) for part, part_noise in own]
        known = [part for part in parts if part is not None]
        return reduce(torch.matmul, known) if len(known) == len(parts) else None
    return None


def _joined(parts: Sequence[Augmentation], attribute: str) -> tuple[str, ...]:
    """An optional attribute of the parts, one text per name; empty texts where a part has none."""
    return tuple(text for part in parts for text in getattr(part, attribute, [""] * len(part.names)))
