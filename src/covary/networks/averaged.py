"""The average of a network over transformed copies of its input."""

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from ..augment import Augmentation, WeightedAugmentation
from ..errors import DataError, ShapeError
from ..noise import fold


class Averaged(nn.Module):
    r"""Averaged network :math:`\hat f(x) = \sum_s w_s f(x'_s)`, a mean of logits over copies :math:`x'_s`.

    The weights w are 1/S, or those of the augmentation's `sample_weights`. Copies may be drawn as two independent sets:
    f̂ is the same mean, a little noisier, and Kronecker factors become cross products of the two sets, free of the bias
    that the scatter of a mean over few copies has on its square.

    Arguments:
        network: The network f, (N·S, ...) -> (N·S, C), rows batch-major: row n·S + s is sample s of datum n.
        augment: The distribution :math:`p(x' | x, \eta)` of copies; its parameters are hyperparameters.
        num_samples: The number S of copies of each datum.
        num_sets: How many independent sets the copies are drawn in, 1 or 2, each of S/num_sets.
    """

    hyperparameters = ("augment",)
    augment: Augmentation

    def __init__(self, network: nn.Module, augment: Augmentation, num_samples: int, *, num_sets: int = 1) -> None:
        super().__init__()
        if num_samples < 1:
            raise DataError(f"num_samples must be 1 or more; {num_samples} came. Pass for example 16.")
        if num_sets not in (1, 2) or num_samples % num_sets:
            raise DataError(
                f"num_sets must be 1, or 2 with an even number of samples; {num_sets} came with {num_samples} samples. "
                "Pass for example num_samples=16, num_sets=2."
            )
        self.network, self.augment, self.num_samples, self.num_sets = network, augment, num_samples, num_sets

    def forward(
        self, x: Shaped[Tensor, "N ..."], index: Tensor | None = None, *, seed: int = 0
    ) -> Float[Tensor, "N C"]:
        """Averaged outputs, shape (N, C).

        Arguments:
            x: The data, shape (N, ...).
            index: The identity of each datum, shape (N,) int64; by default its position. Its noise depends on it.
            seed: The seed of the noise; evidences that are compared share it.
        """
        num_data, num_samples = len(x), self.num_samples
        index = torch.arange(num_data, device=x.device) if index is None else index
        if index.shape != (num_data,):
            raise ShapeError(
                f"index must be ({num_data},), one identity per datum; {tuple(index.shape)} came. "
                "Pass the positions of this batch in the data set."
            )
        noise = torch.cat(self._noise(index, seed), dim=1)
        copies = self.augment.transform(x, noise)
        if copies.shape[:2] != (num_data, num_samples):
            raise ShapeError(
                f"The augmentation must return copies of shape ({num_data}, {num_samples}, ...); {tuple(copies.shape)} "
                "came. Keep the leading axes (N, S) of the noise in `transform`."
            )
        outputs: Tensor = self.network(copies.flatten(0, 1))
        if outputs.ndim != 2 or len(outputs) != num_data * num_samples:
            raise ShapeError(
                f"The averaged network must return ({num_data * num_samples}, C), a row per copy; "
                f"{tuple(outputs.shape)} came. Flatten all axes but the batch, and do not mix rows."
            )
        outputs, weights = outputs.unflatten(0, (num_data, num_samples)), self.sample_weights(index, seed=seed)
        return outputs.mean(1) if weights is None else torch.einsum("ns,nsc->nc", weights.to(outputs), outputs)

    def sample_weights(self, index: Int[Tensor, "N"], *, seed: int = 0) -> Float[Tensor, "N S"] | None:
        """Weights w of the copies, rows summing to 1; None where each is 1/S."""
        augment = self.augment
        if not isinstance(augment, WeightedAugmentation):
            return None
        sets = [_checked(augment.sample_weights(noise), noise) for noise in self._noise(index, seed)]
        return torch.cat(sets, dim=1) / self.num_sets

    def with_samples(self, num_samples: int, num_sets: int = 1) -> "Averaged":
        """Averaged network with another number of samples; it shares the modules of this one."""
        other = Averaged(self.network, self.augment, num_samples, num_sets=num_sets)
        other.training = self.training  # not other.train(): that would reset modes set by hand in shared modules
        return other

    def _noise(self, index: Int[Tensor, "N"], seed: int) -> list[Tensor]:
        """Noise of each set, from a seed of its own."""
        size = self.num_samples // self.num_sets
        seeds = [seed if number == 0 else fold(seed, number) for number in range(self.num_sets)]
        return [self.augment.sample_noise(index, size, seed=own) for own in seeds]

    def extra_repr(self) -> str:
        """Number of samples, for `print`."""
        return f"num_samples={self.num_samples}" + (f", num_sets={self.num_sets}" if self.num_sets > 1 else "")


def _checked(weights: Tensor, noise: Tensor) -> Tensor:
    if weights.shape != noise.shape[:2]:
        raise ShapeError(
            f"The augmentation's sample_weights must be {tuple(noise.shape[:2])}, one per copy; "
            f"{tuple(weights.shape)} came. Keep the leading axes (N, S) of the noise."
        )
    return weights
