"""The members of an augmentation; any module that has them is one, without a base class."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ShapeError


@runtime_checkable
class Augmentation(Protocol):
    """A distribution p(x' | x, η) as noise and a map: x' = transform(x, ε), differentiable in the widths η.

    Example:
        >>> import covary, torch
        >>> class Brightness(torch.nn.Module):
        ...     names, hyperparameters = ("brightness",), ("widths",)
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.widths = torch.nn.Parameter(torch.tensor([0.1]))
        ...     def sample_noise(self, index, num_samples, *, seed):
        ...         return 2 * covary.noise.uniform(seed, index, (num_samples, 1)) - 1
        ...     def transform(self, x, noise):  # (N, C, H, W), (N, S, 1) -> (N, S, C, H, W)
        ...         return x[:, None] + (noise * self.widths)[..., None, None]
        >>> isinstance(Brightness(), covary.augment.Augmentation)
        True
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the K transforms."""
        ...

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """Extent of each transform, ≥ 0, in the order of `names`."""
        ...

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S ..."]:
        """Noise ε of S samples of each datum, a function of (seed, index) alone."""
        ...

    def transform(self, x: Float[Tensor, "N ..."], noise: Float[Tensor, "N S ..."]) -> Float[Tensor, "N S ..."]:
        """Transformed samples of each datum, in the dtype and on the device of x."""
        ...


@runtime_checkable
class WeightedAugmentation(Augmentation, Protocol):
    """An augmentation with a weight per sample; without this method each sample has the weight 1/S.

    Example:
        >>> from covary.augment import Affine2d, FiniteGroup, WeightedAugmentation
        >>> isinstance(FiniteGroup("flips"), WeightedAugmentation), isinstance(Affine2d(), WeightedAugmentation)
        (True, False)
    """

    def sample_weights(self, noise: Float[Tensor, "N S ..."]) -> Float[Tensor, "N S"]:
        """Weights ≥ 0 of the samples in the mean over them, rows summing to 1, differentiable in the parameters."""
        ...


@runtime_checkable
class OutputWeightedAugmentation(Augmentation, Protocol):
    """An augmentation with a weight per sample and output of the network, such as `PerClass`.

    Example:
        >>> from covary.augment import Affine2d, OutputWeightedAugmentation, PerClass
        >>> isinstance(PerClass(Affine2d(), ("cat", "dog")), OutputWeightedAugmentation)
        True
    """

    def output_weights(self, noise: Float[Tensor, "N S ..."]) -> Float[Tensor, "N S C"]:
        """Weights ≥ 0 of the samples in the mean of each output, summing to 1 over the samples."""
        ...


_FEW = 4  # channels of an image: gray, with or without alpha, or color


def require_images(x: Tensor) -> None:
    """Raise `ShapeError` unless x are images (N, C, H, W); images (N, H, W, C) would be transformed as H channels.

    These are recognized by a last axis of at most four entries behind two longer ones.
    """
    if x.ndim != 4:
        raise ShapeError(f"Expected images (N, C, H, W), got {tuple(x.shape)}. Reshape x to images.")
    channels, height, width = x.shape[1:]
    if width <= _FEW < min(channels, height):
        raise ShapeError(
            f"Expected images (N, C, H, W), got {tuple(x.shape)}, which has the channels last. Pass x.permute(0, 3, 1, "
            "2)."
        )
