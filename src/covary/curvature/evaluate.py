"""The public edge of the curvature functions: checked passes over one batch, and what their blocks add up to."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from .._types import Batch, Columns, SampleAveraging
from ..errors import DataError, UnsupportedLayerError
from ..likelihoods import Likelihood
from ..linalg import AbstractPSD
from .accumulate import accumulate
from .capture import Captured, capture
from .coverage import require_coverage, select_weights
from .jacobian import weight_vjp
from .probes import draw_signs, root_columns

ROWS_AT_ONCE = 2048  # rows of the inner batch in one pass without graph


def evaluate(
    network: nn.Module,
    likelihood: Likelihood,
    batch: Batch,
    weights: Iterable[str] | None,
    index: Tensor | None,
    seed: int,
) -> Iterator[Captured]:
    """Captured passes that make up a batch, after every check that a user's mistake could fail.

    Curvature is a sum over data: without a graph to keep, a large batch goes through in parts, each with a bounded
    number of rows of the inner batch, and its memory is that of one part.
    """
    x, y = batch
    if len(x) == 0:
        raise DataError("The batch is empty; curvature needs at least one datum.")
    selected = select_weights(network, weights)
    require_coverage(network, selected)
    check_jacobian_factors(network, x, selected)
    index = torch.arange(len(x), device=x.device) if index is None else index
    for rows in [slice(0, len(x))] if torch.is_grad_enabled() else chunk_slices(network, len(x)):
        captured = capture(network, x[rows], selected, index=index[rows], seed=seed)
        likelihood.check(captured.outputs, y[rows])
        yield captured


def summed_blocks(
    parts: Iterable[Captured],
    blocks_of: Callable[[Captured, Iterable[Tensor]], Mapping[str, AbstractPSD]],
    likelihood: Likelihood,
    columns: Columns,
    generator: torch.Generator | None,
) -> dict[str, AbstractPSD]:
    """The blocks of all captured passes of a batch.

    Arguments:
        parts: The passes, by `evaluate`.
        blocks_of: The structure: from a pass and the columns of a root of Λ to blocks.
        likelihood: The likelihood, whose Λ it is.
        columns: "exact", or a number of random sketches.
        generator: Where the sketches' signs come from.
    """
    blocks: dict[str, AbstractPSD] = {}
    for captured in parts:
        signs = draw_signs(columns, captured.outputs, generator)
        blocks = accumulate(blocks, blocks_of(captured, root_columns(likelihood, captured.outputs, signs)))
    return blocks


def chunk_slices(network: nn.Module, num_data: int) -> list[slice]:
    """Slices of a batch that bound the rows of the inner batch; one slice for a batch with one datum."""
    num_samples = network.num_samples if isinstance(network, SampleAveraging) else 1
    parts = min(num_data, math.ceil(num_data * num_samples / ROWS_AT_ONCE))
    step = math.ceil(num_data / parts)
    return [slice(start, start + step) for start in range(0, num_data, step)]


def check_jacobian_factors(network: nn.Module, x: Tensor, weights: Mapping[str, nn.Parameter]) -> None:
    r"""Nothing, or the weight whose captured factors do not add up to autograd's gradient.

    On the first two data, :math:`\sum_n \hat J_n^\top v` from the factors must be the gradient of
    :math:`\sum_n v^\top\hat f_n`: a weight that is also used outside its module, or a wrong rule, is found here and
    not in a wrong evidence. Passes with one and with two data also tell a layer that is called once for the whole
    batch from one that sees every datum.
    """
    for num_data in sorted({1, min(2, len(x))}):
        with torch.no_grad():
            captured = capture(network, x[:num_data], weights)
            outputs = captured.outputs
            column = torch.arange(1, outputs.numel() + 1).to(outputs).cos().view_as(outputs)
            gradients = captured.pull(column)
            found = torch.autograd.grad(outputs, list(weights.values()), column, allow_unused=True)
            expected = {
                name: torch.zeros_like(weight).flatten() if gradient is None else gradient.to_dense().flatten()
                for (name, weight), gradient in zip(weights.items(), found, strict=True)
            }
            largest = max((float(gradient.norm()) for gradient in expected.values()), default=0.0)
            for name, theirs in expected.items():
                ours = weight_vjp(captured, name, gradients, slice(0, num_data)).sum(0)
                _require_equal(name, ours, theirs, largest)


def _require_equal(name: str, ours: Tensor, theirs: Tensor, largest: float) -> None:
    # a missing use or a wrong rule is off by the gradient's own size; a gradient that vanishes by symmetry (a key bias
    # under softmax) is rounding error of the others, on both sides
    error, size = (ours - theirs).norm(), theirs.norm() + ours.norm()
    if error > 1e-2 * size and error > math.sqrt(torch.finfo(ours.dtype).eps) * largest:
        raise UnsupportedLayerError(
            f"The captured calls explain parameter '{name}' only in part: its gradient differs from autograd's by "
            f"{float(error / size):.0%}. It is used outside the module that holds it (as in F.linear(x, "
            "layer.weight)), or its rule is wrong. Use it through modules that have a rule, register a rule for the "
            "module that uses it, or leave it out of the prior."
        )
