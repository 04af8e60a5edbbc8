r"""Vector–Jacobian products :math:`\hat J_n^\top v` of one weight, for chunks of the data."""

from collections.abc import Iterator, Sequence

from jaxtyping import Float
from torch import Tensor

from .capture import Captured

CHUNK_ENTRIES = 2**24  # entries of the largest block of products in memory


def weight_vjp(captured: Captured, name: str, gradients: Sequence[Tensor], rows: slice) -> Float[Tensor, "n P"]:
    r"""The products :math:`\hat J_n^\top v` of the data in `rows` for the weight `name`, summed over its calls.

    Arguments:
        captured: The pass.
        name: The weight's name.
        gradients: The gradients of one probe at each call, as returned by `captured.pull`.
        rows: The data.
    """
    products = [factors.vjp(gradients[call], rows) for call, factors in captured.factors[name]]
    if not products:
        return captured.outputs.new_zeros(rows.stop - rows.start, captured.weights[name].numel())
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total


def row_slices(num_data: int, num_params: int) -> Iterator[slice]:
    """Consecutive slices of the data whose products have a bounded number of entries."""
    step = max(1, CHUNK_ENTRIES // max(1, num_params))
    for start in range(0, num_data, step):
        yield slice(start, min(start + step, num_data))
