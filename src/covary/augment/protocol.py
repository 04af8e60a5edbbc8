"""What an augmentation must offer; any module that does is one, without a base class."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class Augmentation(Protocol):
    """A distribution p(x' | x, η) as noise and a map: x' = transform(x, ε), differentiable in the widths η."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the K transforms."""
        ...

    @property
    def widths(self) -> Float[Tensor, "K"]:
        """How far each transform reaches, ≥ 0, in the order of `names`."""
        ...

    def sample_noise(self, index: Int[Tensor, "N"], num_samples: int, *, seed: int) -> Float[Tensor, "N S ..."]:
        """Noise ε of S samples of each datum, a function of (seed, index) alone."""
        ...

    def transform(self, x: Float[Tensor, "N ..."], noise: Float[Tensor, "N S ..."]) -> Float[Tensor, "N S ..."]:
        """Transformed copies of each datum, in the dtype and on the device of x."""
        ...


@runtime_checkable
class WeightedAugmentation(Augmentation, Protocol):
    """An augmentation whose samples do not count the same; one without this method gives each 1/S."""

    def sample_weights(self, noise: Float[Tensor, "N S ..."]) -> Float[Tensor, "N S"]:
        """Weights ≥ 0 of the samples in the mean over them, rows summing to 1, differentiable in the parameters."""
        ...
