"""The Lie algebra of the affine group of the plane, and its exponential map."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import StructureError

_GENERATORS = {
    "shift_x": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "shift_y": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
    "rotation": [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale_x": [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale_y": [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
    "shear": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
}

AFFINE_NAMES = tuple(_GENERATORS)

# A / 2⁴ with ‖A‖ ≤ 8 leaves a Taylor remainder of ½¹³ / 13! ≈ 2e-14; each doubling costs half a digit of rounding.
_DOUBLINGS, _DEGREE = 4, 12


def affine_generators(
    names: Sequence[str] = AFFINE_NAMES, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "K 3 3"]:
    """Generators G_i of the affine group acting on (x, y, 1), in the order of `names`, by default `AFFINE_NAMES`."""
    for name in names:
        if name not in _GENERATORS:
            raise StructureError(
                f"'{name}' is no generator of the affine group; those are {', '.join(AFFINE_NAMES)}. Choose among them."
            )
    return torch.tensor([_GENERATORS[name] for name in names], dtype=dtype).reshape(-1, 3, 3)


def exponential(algebra: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3 3"]:
    r"""Group elements :math:`\exp(X)` of elements X = (A, t; 0, 0) of the affine algebra, smooth everywhere.

    :math:`\exp(X) = (e^A, \varphi(A)\,t; 0, 1)` with :math:`\varphi(A) = \int_0^1 e^{uA} du`. With A = m + B and
    tr B = 0 there is B² = q (Cayley and Hamilton), so that both are numbers times 1 plus numbers times B: polynomials
    in m and q, seven times faster than `matrix_exp` with its gradient, and without a case apart where eigenvalues meet.
    Exact to rounding for ‖A‖ ≤ 8, far beyond a rotation by π or a scale by e³. The last row of X is taken as 0.
    """
    linear, shift = algebra[..., :2, :2], algebra[..., :2, 2:]
    m = (linear[..., 0, 0] + linear[..., 1, 1]) / 2
    q = ((linear[..., 0, 0] - linear[..., 1, 1]) / 2).square() + linear[..., 0, 1] * linear[..., 1, 0]
    exp_one, exp_b, phi_one, phi_b = _coefficients(m, q)
    one = torch.eye(2, dtype=algebra.dtype, device=algebra.device)
    b = linear - m[..., None, None] * one
    exp = exp_one[..., None, None] * one + exp_b[..., None, None] * b
    phi = phi_one[..., None, None] * one + phi_b[..., None, None] * b
    last = algebra.new_tensor([0.0, 0.0, 1.0]).expand(*m.shape, 1, 3)
    return torch.cat([torch.cat([exp, phi @ shift], -1), last], -2)


def _coefficients(m: Float[Tensor, "*batch"], q: Float[Tensor, "*batch"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Numbers (c, s, α, β) with :math:`e^A = c + s B` and :math:`\varphi(A) = \alpha + \beta B`."""
    step = 2.0**-_DOUBLINGS
    small_m, small_q = step * m, step**2 * q
    alpha, beta = torch.full_like(m, 1 / math.factorial(_DEGREE + 1)), torch.zeros_like(m)
    for order in range(_DEGREE, 0, -1):  # Horner: φ(A) = Σ Aʲ / (j + 1)!
        alpha, beta = alpha * small_m + beta * small_q + 1 / math.factorial(order), alpha + beta * small_m
    c, s = 1 + alpha * small_m + beta * small_q, step * (alpha + beta * small_m)  # e^A = 1 + A φ(A)
    beta = step * beta
    for _ in range(_DOUBLINGS):  # φ(2A) = φ(A) (1 + e^A) / 2, with B and q those of the whole A
        alpha, beta = (alpha * (1 + c) + beta * s * q) / 2, (beta * (1 + c) + alpha * s) / 2
        c, s = c * c + s * s * q, 2 * c * s
    return c, s, alpha, beta
