r"""The vectors that are pulled back: columns of a root of Λ, all of them or random sketches."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from .._types import Columns
from ..errors import StructureError
from ..likelihoods import Likelihood


def root_columns(
    likelihood: Likelihood, outputs: Float[Tensor, "N C"], signs: Float[Tensor, "K N C"] | None
) -> Iterator[Float[Tensor, "N C"]]:
    r"""Vectors :math:`v_k` with :math:`\sum_k v_k v_k^\top = \Lambda` for every datum.

    Exact columns :math:`\Lambda^{1/2} e_k` for `signs=None`; otherwise sketches
    :math:`\Lambda^{1/2}\epsilon_k/\sqrt{K}`, for which the sum holds in expectation, value and derivative. (Labels
    sampled from the model would give the value and lose the derivative.)

    Arguments:
        likelihood: The likelihood, which owns Λ.
        outputs: The network's outputs.
        signs: Rademacher variables ε.
    """
    if signs is None:
        identity = torch.eye(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        for column in identity:
            yield likelihood.root_product(outputs, column.expand_as(outputs))
    else:
        for epsilon in signs:
            yield likelihood.root_product(outputs, epsilon) / math.sqrt(len(signs))


def draw_signs(
    columns: Columns, outputs: Float[Tensor, "N C"], generator: torch.Generator | None
) -> Float[Tensor, "K N C"] | None:
    """Rademacher variables for that many sketches; None for exact columns."""
    check_columns(columns)
    if columns == "exact":
        return None
    bits = torch.randint(0, 2, (columns, *outputs.shape), generator=generator, device=outputs.device)
    return (2 * bits - 1).to(outputs.dtype)


def check_columns(columns: object) -> None:
    """Nothing, or an error for anything but "exact" and a positive number."""
    if columns == "exact" or (isinstance(columns, int) and not isinstance(columns, bool) and columns > 0):
        return
    raise StructureError(f"columns must be 'exact' or a positive number of sketches, got {columns!r}.")
