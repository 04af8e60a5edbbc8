"""The outputs of a network for a batch, averaged over its samples where it averages."""

from torch import Tensor, nn

from .._types import SampleAveraging
from ..batches import IndexedBatch

__all__ = ["outputs_of"]


def outputs_of(network: nn.Module, batch: IndexedBatch, seed: int) -> Tensor:
    """Outputs (N, C); the noise of an averaged network is a function of (seed, identity)."""
    if isinstance(network, SampleAveraging):
        return network(batch.x, batch.identity, seed=seed)
    return network(batch.x)
