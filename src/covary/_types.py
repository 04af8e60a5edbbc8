"""Types and protocols that several packages use: batches, weights, networks that average over samples."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from .errors import ShapeError

Network = nn.Module  # x: (N, ...) -> f: (N, C)
Batch = tuple[Tensor, Tensor]  # inputs (N, ...), targets (N, ...)
Weights = Mapping[str, Tensor]  # parameter name -> parameter, in the order of `named_parameters`
Probes = Literal["exact"] | int  # every column of the root of Λ, or a number of random probes of it
Progress = Callable[[str, float], None]  # what is being done, and the fraction that is done
TensorMap = Callable[[Tensor], Tensor]
WITHOUT_FLOAT64 = ("mps",)  # kinds of devices on which networks run, and no evidence is computed


@runtime_checkable
class SampleAveraging(Protocol):
    """A network that averages over S augmentation samples of each datum.

    Its inner modules have a batch of N·S rows, batch-major: row n·S + s is sample s of datum n. `index` is the identity
    of each datum; the noise is a function of (seed, index) alone.
    """

    num_samples: int

    def forward(self, x: Tensor, index: Tensor | None = None, *, seed: int = 0) -> Tensor:
        """The averaged outputs, shape (N, C)."""
        ...


@runtime_checkable
class SampleWeighting(SampleAveraging, Protocol):
    """A sample-averaging network with a weight per sample."""

    def sample_weights(self, index: Tensor, *, seed: int = 0) -> Tensor | None:
        """The weights of the samples, shape (N, S), rows summing to 1; None if each is 1/S."""
        ...


@runtime_checkable
class IndependentSets(SampleAveraging, Protocol):
    """A sample-averaging network whose samples are drawn in independent sets, one after the other along S."""

    num_sets: int


@runtime_checkable
class MovingOutputs(SampleAveraging, Protocol):
    """A sample-averaging network whose outputs may move with the input: the mean is over outputs moved back."""

    @property
    def moves_outputs(self) -> bool:
        """Whether outputs of different samples are moved back differently."""
        ...


@runtime_checkable
class Resampling(Protocol):
    """A network that can average over another number of samples, with the same parameters."""

    def with_samples(self, num_samples: int, num_sets: int = 1) -> nn.Module:
        """The network that averages over `num_samples` samples, drawn in `num_sets` independent sets."""
        ...


def require_tensor(outputs: object) -> Tensor:
    """The outputs of a network; raise `ShapeError` unless they are one tensor."""
    if isinstance(outputs, Tensor):
        return outputs
    raise ShapeError(
        f"Expected a network that returns one tensor of outputs, got a {type(outputs).__name__}. Wrap it in a module "
        "whose forward returns the logits or means alone, as network(x).logits or network(x)[0] does."
    )
