"""Signatures that recur: batches, networks, names of parameters."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

Network = nn.Module  # x: (N, ...) -> f: (N, C)
Batch = tuple[Tensor, Tensor]  # inputs (N, ...), targets (N, ...)
Weights = Mapping[str, Tensor]  # parameter name -> parameter, in the order of `named_parameters`
Probes = Literal["exact"] | int  # every column of the root of Λ, or a number of random probes of it
Progress = Callable[[str, float], None]  # what is being done, and the share of the whole that is done
TensorMap = Callable[[Tensor], Tensor]


@runtime_checkable
class SampleAveraging(Protocol):
    """A network that averages over S transformed copies of each datum.

    Its inner modules see a batch of N·S rows, batch-major: row n·S + s is sample s of datum n. `index` is the
    identity of each datum, so that the noise is a function of (seed, index) and of nothing else.
    """

    num_samples: int

    def forward(self, x: Tensor, index: Tensor | None = None, *, seed: int = 0) -> Tensor:
        """The averaged outputs, shape (N, C)."""
        ...


@runtime_checkable
class SampleWeighting(SampleAveraging, Protocol):
    """A sample-averaging network that can tell how much each copy counts."""

    def sample_weights(self, index: Tensor, *, seed: int = 0) -> Tensor | None:
        """The weights of the copies, shape (N, S), rows summing to 1; None where each is 1/S."""
        ...


@runtime_checkable
class IndependentSets(SampleAveraging, Protocol):
    """A sample-averaging network whose copies are drawn in independent sets, one after the other along S."""

    num_sets: int


@runtime_checkable
class Resampling(Protocol):
    """A network that can average over another number of copies, sharing its parameters."""

    def with_samples(self, num_samples: int, num_sets: int = 1) -> nn.Module:
        """The network that averages over that many, drawn in that many independent sets."""
        ...
