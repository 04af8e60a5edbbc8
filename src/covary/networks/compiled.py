"""A network that runs through `torch.compile`, for weight steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn

from ..errors import StructureError
from .averaged import Averaged


def compiled(network: nn.Module) -> nn.Module:
    """The network compiled at its first call; it shares the parameters of the one that is passed.

    Of an averaged network the inner one is compiled: its samples depend on a seed that changes with every epoch, and
    would be compiled anew.
    """
    if isinstance(network, Averaged):
        return network.with_network(compiled(network.network))
    return cast(nn.Module, torch.compile(network))


@contextmanager
def compile_errors() -> Iterator[None]:
    """`StructureError` where torch cannot compile a network, or finds no compiler."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__
        raise StructureError(
            f"Expected a network that torch.compile accepts, and a compiler, got: {reason} Set weights.compile=false."
        ) from error
