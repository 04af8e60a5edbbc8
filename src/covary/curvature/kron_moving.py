r"""KFAC of a network whose outputs move with its input: partial traces over all pairs of augmentation samples.

The vector–Jacobian product of a datum is :math:`\sum_s a_s \otimes g_s`. Where outputs do not move, all samples of a
datum have similar gradients, and KFAC takes :math:`\bar a \otimes \bar g` (paper 1, Eq. (19)). Where sample s has the
gradient of :math:`\rho(g_s)^{-1} f`, gradients of different samples may be orthogonal (a flip that swaps two classes):
both means cancel, the product of their squares loses half of the curvature twice, and the evidence prefers transforms
that the data do not have. So the block of a weight is the product with the same partial traces as

.. math:: H = \sum_n \sum_k \sum_{s,t} (g_{ks} \otimes a_s)(g_{kt} \otimes a_t)^\top, \quad
    A = \sum_{s,t} \Big(\sum_k g_{ks} \cdot g_{kt}\Big) a_s a_t^\top, \quad
    B = \sum_{s,t} (a_s \cdot a_t) \sum_k g_{ks} g_{kt}^\top,

:math:`H \approx A \otimes B / \mathrm{tr} A`, for every place r that shares the weight by itself (*expand*); H is the
Gauss–Newton matrix where there is one place. With two independent sets, s is of the first and t of the second.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import StructureError
from ..linalg import AbstractPSD
from ..linalg.gram import Gram
from .capture import Captured
from .exact import accumulate, exact_blocks
from .jacobian_factors import DirectVJP, JacobianFactors, LookupFactors, OuterFactors
from .kron import kron_product
from .rows import DEFAULT, Sharing, called, products, stack

# The products of the rows of two samples, for every datum, place and block.
Overlap = Float[Tensor, "N R Q _ _"]


def moving_blocks(
    captured: Captured, probes: Iterable[Float[Tensor, "N C"]], sharing: Sharing = DEFAULT
) -> dict[str, AbstractPSD]:
    """The blocks of the weights that were called, additive over batches by `accumulate`."""
    if sharing.common_gradients:
        raise StructureError(
            "Curvature 'kron-shared' is not available for a network with an output action. Use 'kron', 'full', 'diag' "
            "or 'kernel'."
        )
    names = called(captured, "kron")
    input_overlaps = {name: [_overlap(a, captured) for a in _inputs(captured, name, sharing)] for name in names}
    gradient_overlaps: dict[str, list[Tensor]] = {}
    outputs: dict[str, Gram] = {}
    exact: dict[str, AbstractPSD] = {}
    for gradients in captured.pull_all(probes):
        for name in names:
            rows = _gradients(captured, name, gradients, sharing)
            factor = _factor(captured, name, rows, input_overlaps[name])
            outputs[name] = factor if name not in outputs else outputs[name] + factor
            own = [_overlap(g, captured) for g in rows]
            before = gradient_overlaps.get(name, own)
            gradient_overlaps[name] = own if before is own else [a + b for a, b in zip(before, own, strict=True)]
        exact = accumulate(exact, exact_blocks(captured, gradients))
        del gradients  # before those of the next probe are made
    blocks = dict(exact)
    for name, gradient_factor in outputs.items():
        inputs = _factor(captured, name, _inputs(captured, name, sharing), gradient_overlaps[name])
        blocks[name] = kron_product(captured, name, inputs, gradient_factor, None)
    return {name: blocks[name] for name in captured.weights if name in blocks}


def _inputs(captured: Captured, name: str, sharing: Sharing) -> list[Float[Tensor, "N S R Q D"]]:
    """The rows a of each call; reduced, their mean over places."""
    found = [_checked(factors).sample_inputs(merge=_merges(sharing)) for _, factors in captured.factors[name]]
    return [rows.mean(2, keepdim=True) for rows in found] if sharing.rows == "reduce" else found


def _gradients(
    captured: Captured, name: str, gradients: Sequence[Tensor], sharing: Sharing
) -> list[Float[Tensor, "N S R Q G"]]:
    """The rows g of each call for one probe, each set scaled to all samples; reduced, their sum over places."""
    calls = captured.factors[name]
    found = [_checked(f).sample_gradients(gradients[call], merge=_merges(sharing)) for call, f in calls]
    found = [rows.sum(2, keepdim=True) for rows in found] if sharing.rows == "reduce" else found
    return found if captured.num_sets == 1 else [captured.num_sets * rows for rows in found]


def _merges(sharing: Sharing) -> bool:
    return sharing.elements == "reduce"


def _checked(factors: JacobianFactors) -> OuterFactors | LookupFactors:
    assert not isinstance(factors, DirectVJP), "a direct product has no factors a, g"
    return factors


def _sides(rows: Float[Tensor, "N S R Q D"], captured: Captured) -> tuple[Tensor, Tensor]:
    """The samples s and t of the sums: all, or the two independent sets."""
    size = captured.num_samples // captured.num_sets
    return rows[:, :size], rows[:, -size:]


def _overlap(rows: Float[Tensor, "N S R Q D"], captured: Captured) -> Overlap:
    return torch.einsum("nsrqi,ntrqi->nrqst", *_sides(rows, captured))


def _factor(captured: Captured, name: str, calls: list[Tensor], overlaps: list[Tensor]) -> Gram:
    """The sums over all pairs of samples of a call's rows, weighted by the other factor's overlaps, by block."""
    found: dict[int, list[Tensor]] = {}
    for (_, factors), rows, overlap in zip(captured.factors[name], calls, overlaps, strict=True):
        first, second = _sides(rows, captured)
        mixed = torch.einsum("nrqst,nsrqi->ntrqi", overlap, first)
        position = getattr(factors, "block", (0, 1))[0]
        found.setdefault(position, []).append(torch.stack([mixed, second]).flatten(2, 3))
    return stack([products(found[position]) for position in sorted(found)])
