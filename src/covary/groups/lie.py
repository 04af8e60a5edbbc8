"""The Lie algebra of the affine group of the plane, and its exponential map."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from .._errors import StructureError

__all__ = ["AFFINE_NAMES", "affine_generators", "exponential"]

_GENERATORS = {
    "shift_x": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "shift_y": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
    "rotation": [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale_x": [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "scale_y": [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]],
    "shear": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
}

AFFINE_NAMES = tuple(_GENERATORS)


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
    r"""Group elements :math:`\exp(X)` of elements X of the algebra, differentiable also at :math:`X = 0`."""
    return torch.linalg.matrix_exp(algebra)
