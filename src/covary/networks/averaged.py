"""The average of a network over augmentation samples of its input."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from .._text import clipped
from .._types import require_tensor
from ..augment import Augmentation, OutputAction, OutputWeightedAugmentation, WeightedAugmentation
from ..errors import DataError, ShapeError, StructureError
from ..noise import fold


class Averaged(nn.Module):
    r"""Averaged network :math:`\hat f(x) = \sum_s w_s f(x'_s)`, a mean of logits over augmentation samples.

    The weights w are 1/S, or the augmentation's `sample_weights`, or one per output (`PerClass`).

    With two independent sets of samples, f̂ is the same mean with slightly more variance. Kronecker factors are then
    cross products of the two sets, without the bias that the variance of a mean over few samples adds to its square.

    An output action ρ is for outputs that move with the input: classes that a flip exchanges, keypoints, boxes, masks.
    Each output is moved back before the mean, :math:`\hat f(x) = \sum_s w_s \rho(g_s)^{-1} f(g_s x)`.

    Arguments:
        network: The network f, (N·S, ...) -> (N·S, C), rows batch-major: row n·S + s is sample s of datum n.
        augment: The distribution :math:`p(x' | x, \eta)` of samples; its parameters are hyperparameters.
        num_samples: The number S of augmentation samples of each datum.
        num_sets: The number of independent sets, 1 or 2, each of S/num_sets samples.
        output_action: How outputs move with the input, such as `covary.augment.PermutedOutputs`, or several actions,
            applied in this order; None if they do not move.

    Example:
        >>> import covary, torch
        >>> augment = covary.augment.Affine2d(("rotation",), initial_width=0.3)
        >>> network = covary.Averaged(covary.networks.mlp(784, 100, 10), augment, num_samples=8)
        >>> network(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    hyperparameters = ("augment",)
    augment: Augmentation

    def __init__(
        self,
        network: nn.Module,
        augment: Augmentation,
        num_samples: int,
        *,
        num_sets: int = 1,
        output_action: OutputAction | Sequence[OutputAction] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(num_samples, int) or num_samples < 1:
            raise DataError(
                f"Expected num_samples to be a whole number of 1 or more, got {num_samples}. Pass for example 16."
            )
        if num_sets not in (1, 2) or num_samples % num_sets:
            raise DataError(
                f"Expected num_sets of 1, or of 2 with an even number of samples, got {num_sets} with {num_samples} "
                "samples. Pass for example num_samples=16, num_sets=2."
            )
        self.network, self.augment, self.num_samples, self.num_sets = network, _module(augment), num_samples, num_sets
        self.output_actions = _actions(output_action)

    def forward(
        self, x: Shaped[Tensor, "N ..."], index: Tensor | None = None, *, seed: int = 0
    ) -> Float[Tensor, "N C ..."]:
        """Averaged outputs, shape (N, C), or (N, C, ...) of a network with outputs at positions.

        Arguments:
            x: The data, shape (N, ...).
            index: The identity of each datum, shape (N,) int64, which determines its noise; by default its position.
            seed: The seed of the noise; use one seed for evidences that are compared.
        """
        num_data, num_samples = x.shape[0], self.num_samples  # not len(x): that is no symbol in torch.export
        index = torch.arange(num_data, device=x.device) if index is None else index
        if index.shape != (num_data,):
            raise ShapeError(
                f"Expected an index of shape ({num_data},), one identity per datum, got {tuple(index.shape)}. "
                "Pass the positions of this batch in the data set."
            )
        noise = torch.cat(self._noise(index, seed), dim=1)
        samples = self.augment.transform(x, noise)
        if samples.shape[:2] != (num_data, num_samples):
            raise ShapeError(
                f"Expected samples of shape ({num_data}, {num_samples}, ...) from the augmentation, got "
                f"{tuple(samples.shape)}. Keep the leading axes (N, S) of the noise in `transform`."
            )
        outputs = require_tensor(self.network(samples.flatten(0, 1)))
        if outputs.ndim < 2 or outputs.shape[0] != num_data * num_samples:
            raise ShapeError(
                f"Expected outputs of shape ({num_data * num_samples}, C), a row per sample, got "
                f"{tuple(outputs.shape)}. Keep the batch as the first axis, and do not mix rows."
            )
        outputs = outputs.unflatten(0, (num_data, num_samples))
        for action in self.output_actions:
            outputs = _moved_back(action, outputs, self.augment, noise, tuple(x.shape[1:]))
        if isinstance(self.augment, OutputWeightedAugmentation):
            return self._by_output(outputs, noise)
        weights = self.sample_weights(index, seed=seed)
        return outputs.mean(1) if weights is None else torch.einsum("ns,ns...->n...", weights.to(outputs), outputs)

    @property
    def moves_outputs(self) -> bool:
        """Whether outputs move with the input."""
        return bool(self.output_actions)

    def sample_weights(self, index: Int[Tensor, "N"], *, seed: int = 0) -> Float[Tensor, "N S"] | None:
        """Weights w of the samples, rows summing to 1; None if each is 1/S."""
        augment = self.augment
        if not isinstance(augment, WeightedAugmentation):
            return None
        sets = [_checked(augment.sample_weights(noise), noise) for noise in self._noise(index, seed)]
        return torch.cat(sets, dim=1) / self.num_sets

    def _by_output(self, outputs: Float[Tensor, "N S C ..."], noise: Tensor) -> Float[Tensor, "N C ..."]:
        """Means over the samples, with weights of their own for each output."""
        weights = cast(OutputWeightedAugmentation, self.augment).output_weights(noise)
        if weights.shape != outputs.shape[:3]:
            raise ShapeError(
                f"Expected output_weights of shape {tuple(outputs.shape[:3])}, one per sample and output, got "
                f"{tuple(weights.shape)}. Name as many classes as the network has outputs."
            )
        return torch.einsum("nsc,nsc...->nc...", weights.to(outputs), outputs)

    def with_samples(self, num_samples: int, num_sets: int = 1) -> "Averaged":
        """Averaged network with another number of samples; it shares the modules of this one."""
        return self._other(self.network, num_samples, num_sets)

    def with_network(self, network: nn.Module) -> "Averaged":
        """Averaged network of another inner one; it shares the augmentation of this one."""
        return self._other(network, self.num_samples, self.num_sets)

    def _other(self, network: nn.Module, num_samples: int, num_sets: int) -> "Averaged":
        other = Averaged(network, self.augment, num_samples, num_sets=num_sets, output_action=self.output_actions)
        other.training = self.training  # not other.train(): that would reset modes set by hand in shared modules
        return other

    def _noise(self, index: Int[Tensor, "N"], seed: int) -> list[Tensor]:
        """Noise of each set, from a seed of its own."""
        size = self.num_samples // self.num_sets
        seeds = [seed if number == 0 else fold(seed, number) for number in range(self.num_sets)]
        return [self.augment.sample_noise(index, size, seed=own) for own in seeds]

    def extra_repr(self) -> str:
        """Number of samples and output actions, for `print`."""
        sets = f", num_sets={self.num_sets}" if self.num_sets > 1 else ""
        return f"num_samples={self.num_samples}{sets}" + "".join(f", {action}" for action in self.output_actions)


def _module(augment: object) -> Augmentation:
    if isinstance(augment, Augmentation) and isinstance(augment, nn.Module):
        return augment
    raise StructureError(
        f"Expected an augmentation, such as covary.augment.Affine2d(), got {clipped(augment)}. Pass an instance of a "
        "module with names, widths, sample_noise and transform."
    )


def _actions(given: object) -> tuple[OutputAction, ...]:
    actions: tuple[object, ...] = () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)
    for action in actions:
        if not isinstance(action, OutputAction):
            raise StructureError(
                f"Expected an output action with a method `inverse`, got {action!r}. Pass for example "
                "covary.augment.PermutedOutputs({'flip_x': (1, 0)})."
            )
    return cast(tuple[OutputAction, ...], actions)


def _moved_back(
    action: OutputAction, outputs: Tensor, augment: Augmentation, noise: Tensor, shape: tuple[int, ...]
) -> Tensor:
    moved = action.inverse(outputs, augment, noise, shape)
    if moved.shape != outputs.shape:
        raise ShapeError(
            f"Expected outputs of shape {tuple(outputs.shape)} from the output action {action!r}, got "
            f"{tuple(moved.shape)}. Keep the shape in `inverse`."
        )
    return moved


def _checked(weights: Tensor, noise: Tensor) -> Tensor:
    if weights.shape != noise.shape[:2]:
        raise ShapeError(
            f"Expected sample_weights of shape {tuple(noise.shape[:2])}, one per sample, got {tuple(weights.shape)}. "
            "Keep the leading axes (N, S) of the noise."
        )
    return weights
