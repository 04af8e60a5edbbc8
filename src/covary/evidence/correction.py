r"""Corrections of the log-volume for what a structured curvature neglects, each with its standard error.

Kronecker factors treat layers as independent, and the inputs of a layer as independent of its gradients; both make
complexity look more expensive than it is. The log-determinant of the whole Gauss–Newton matrix plus prior precision is

.. math:: \log|H + \delta| = \log|\delta| + \log|I + K| = \log|P| + \operatorname{tr} \log M, \qquad
    M = P^{-1/2} (H + \delta) P^{-1/2},

with the tangent kernel K, of as many rows as data times outputs, and the structured curvature plus prior precision P.
The first form is exact and limited by memory, as is the matrix itself if the network has fewer weights. The second is
estimated from products with H by Lanczos quadrature (`geometry.estimate_log_det_preconditioned`): the eigenvalues of M
are near 1 where the structure is right, and where the prior decides.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from .._text import meant
from ..batches import Batches, IndexedBatch
from ..curvature.exact import FULL
from ..curvature.passes import captured_batch, curvature_pass
from ..curvature.registry import Curvature, joined_shifts
from ..distributed import all_sum_number
from ..errors import StructureError
from ..geometry import MatrixFree, estimate_log_det_preconditioned, gauss_newton
from ..geometry.estimators.estimate import NORMAL_95
from ..geometry.estimators.trace import MIN_STEPS
from ..linalg import Block
from ..memory import available_memory
from ..models import Model
from .kernel import kernel_terms
from .terms import EvidenceTerms, log_volume

CorrectionMethod = Literal["auto", "exact", "lanczos"]
COPIES = 4  # of the exact matrix at once: the sum, one weight's term in pieces and whole; then the Cholesky factor
MARGIN = 0.9  # of the memory that is available


@dataclass(frozen=True)
class Correction:
    """How the evidence of a structured curvature is corrected to that of the whole Gauss–Newton matrix.

    Arguments:
        method: "exact" (the dual over data or the matrix over weights, whichever is smaller), "lanczos" (an estimate
            with a standard error, from products with the matrix), or "auto": exact where memory allows it.
        num_probes: The random probes of the estimate; the standard error falls as their square root.
        num_steps: The Lanczos steps of each probe. 3 or more. An estimate takes probes · steps
            products with the matrix, of three passes over the data each.

    Example:
        >>> import torch, covary
        >>> network, data = torch.nn.Linear(4, 3), (torch.randn(8, 4), torch.arange(8) % 3)
        >>> correction = covary.evidence.Correction("lanczos", num_probes=2, num_steps=3)
        >>> covary.log_evidence(network, data, correction=correction).standard_error > 0
        tensor(True)
    """

    method: CorrectionMethod = "auto"
    num_probes: int = 16
    num_steps: int = 10

    def __post_init__(self) -> None:
        check_method(self.method)
        if self.num_probes < 1 or self.num_steps < MIN_STEPS:
            raise StructureError(
                f"Expected at least one probe and {MIN_STEPS} steps, got num_probes={self.num_probes} and "
                f"num_steps={self.num_steps}."
            )


class ExactSize(NamedTuple):
    """The size of the exact log-determinant."""

    over: Literal["data", "weights"]  # "data" for the kernel, "weights" for the matrix itself
    num_rows: int
    num_bytes: int


def as_correction(correction: object) -> Correction:
    """The correction itself, or that of a method's name."""
    if isinstance(correction, Correction):
        return correction
    check_method(correction)
    return Correction(cast(CorrectionMethod, correction))


def check_method(method: object) -> None:
    """Raise `StructureError` for a method that does not exist."""
    if method not in get_args(CorrectionMethod):
        names = ", ".join(repr(name) for name in get_args(CorrectionMethod))
        raise StructureError(
            f"The correction must be one of {names}, got {method!r}.{meant(method, get_args(CorrectionMethod))}"
        )


def check_correctable(curvature: Curvature, mode_correction: bool) -> None:
    """Raise `StructureError` if there is nothing to correct, or no way to do it."""
    if curvature.structure in ("full", "kernel"):
        raise StructureError(
            f"Curvature '{curvature.structure}' is the whole Gauss–Newton matrix already. Leave out `correction`, or "
            "choose a structure such as 'kron' that it corrects."
        )
    if mode_correction:
        raise StructureError(
            "Expected `correction` or `mode_correction`, got both: the gain of moving to the mode would still be that "
            "of the uncorrected curvature. Train to a mode, or use curvature='full' with mode_correction."
        )
    num_processes = all_sum_number(1)
    if num_processes > 1:
        raise StructureError(
            f"Expected one process, got {num_processes}: a correction reads all data in one process. Compute it after "
            "training, for example by `covary compare --correction`."
        )


def corrected(
    terms: EvidenceTerms, model: Model, batches: Batches, curvature: Block, correction: Correction, seed: int
) -> EvidenceTerms:
    """The terms with the log-volume of the whole Gauss–Newton matrix, its correction in nats and standard error."""
    exact = exact_size(model, batches, terms.num_data)
    available = int(MARGIN * available_memory())
    if correction.method == "exact" and exact.num_bytes > available:
        raise StructureError(_too_large(exact, available))
    if correction.method != "lanczos" and exact.num_bytes <= available:
        volume = _exact_volume(model, batches, exact, seed)
        error = torch.zeros_like(volume)
    else:
        ratio, error = _lanczos(model, batches, curvature, correction, seed)
        volume, error = terms.log_volume - 0.5 * ratio, 0.5 * error
    return terms._replace(log_volume=volume, correction=volume - terms.log_volume, standard_error=error)


def exact_size(model: Model, batches: Batches, num_data: int) -> ExactSize:
    """The size of the smaller of both matrices whose log-determinant is exact."""
    first = next(iter(batches))
    captured = captured_batch(model, model.weights, IndexedBatch(*(part[:1] for part in first)), seed=0)
    num_outputs = captured.outputs.shape[1]
    num_rows, num_params = num_data * num_outputs, model.prior.num_params
    # a pass over all data keeps its activations, and the gradients at the outputs of layers for every probe
    passed = num_data * (num_outputs + 2) * sum(math.prod(shape) for shape in captured.shapes)
    size = captured.outputs.element_size()
    sizes = [
        ExactSize("weights", num_params, COPIES * num_params**2 * size),
        ExactSize("data", num_rows, (COPIES * num_rows**2 + passed) * size),
    ]
    return min(sizes, key=lambda found: found.num_bytes)


def _exact_volume(model: Model, batches: Batches, exact: ExactSize, seed: int) -> Float[Tensor, ""]:
    """The log-volume of the whole Gauss–Newton matrix, by the smaller of both matrices."""
    if exact.over == "data":
        return kernel_terms(model, batches, seed, mode_correction=False).log_volume
    whole = curvature_pass(model, batches, Curvature("full"), seed=seed).curvature
    return log_volume(whole[FULL].logdet(joined_shifts(whole, model)[FULL]), whole.size)


def _lanczos(
    model: Model, batches: Batches, curvature: Block, correction: Correction, seed: int
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The estimate of tr log M, and its standard error."""
    matrix = gauss_newton(model, batches, seed=seed)
    needed = correction.num_probes * correction.num_steps * matrix.size * matrix.dtype.itemsize
    if needed > (available := int(MARGIN * available_memory())):
        raise StructureError(
            f"The estimate keeps {correction.num_probes * correction.num_steps:,} vectors of {matrix.size:,} "
            f"weights, {needed / 2**30:.1f} GiB; this machine has {available / 2**30:.1f} GiB to spare. Pass a "
            "Correction with fewer probes or steps."
        )
    shifts = {name: shift.detach() for name, shift in joined_shifts(curvature, model).items()}
    found = estimate_log_det_preconditioned(
        _preconditioned(matrix, curvature, shifts, model),
        num_probes=correction.num_probes,
        num_steps=correction.num_steps,
        seed=seed,
    )
    return found.value, found.error / NORMAL_95


def _preconditioned(matrix: MatrixFree, curvature: Block, shifts: dict[str, Tensor], model: Model) -> MatrixFree:
    """The matrix M by its products; the root of P⁻¹ that `sample` applies is symmetric where P has a closed form."""
    prior = torch.cat([shifts[name].expand(weight.numel()) for name, weight in model.weights.items()])

    def product(vectors: Tensor) -> Tensor:
        inner = curvature.sample(vectors, shifts)
        return curvature.sample(matrix.product(inner) + prior * inner, shifts)

    return replace(matrix, product=product)


def _too_large(exact: ExactSize, available: int) -> str:
    return (
        f"The exact correction needs a matrix of {exact.num_rows:,} × {exact.num_rows:,} over {exact.over}, about "
        f"{exact.num_bytes / 2**30:.1f} GiB in all; this machine has {available / 2**30:.1f} GiB to spare. Use "
        "correction='lanczos', or fewer data."
    )
