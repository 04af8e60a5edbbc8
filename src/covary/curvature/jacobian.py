r"""Exact columns :math:`\hat J_n^\top v` of one weight, a few data at a time."""

from collections.abc import Iterator, Sequence

from jaxtyping import Float
from torch import Tensor

from .capture import Captured

CHUNK_ENTRIES = 2**24  # entries of the largest block of columns held at once


def weight_vjp(captured: Captured, name: str, gradients: Sequence[Tensor], rows: slice) -> Float[Tensor, "n P"]:
    r"""The columns :math:`\hat J_n^\top v` of the data in `rows` for the weight `name`: the sum over its calls.

    Arguments:
        captured: The pass.
        name: The weight's name.
        gradients: The gradients of one column at each call, as `captured.pull` gives them.
        rows: The data.
    """
    parts = [factors.vjp(gradients[call], rows) for call, factors in captured.factors[name]]
    if not parts:
        return captured.outputs.new_zeros(rows.stop - rows.start, captured.weights[name].numel())
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def row_slices(num_data: int, num_params: int) -> Iterator[slice]:
    """Consecutive slices of the data whose columns together stay small."""
    step = max(1, CHUNK_ENTRIES // max(1, num_params))
    for start in range(0, num_data, step):
        yield slice(start, min(start + step, num_data))
