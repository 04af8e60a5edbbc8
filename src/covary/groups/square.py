r"""The eight symmetries of the square, acting on images without interpolation.

An element is a pair (mirrored, turns): mirror left and right if `mirrored`, then turn counter-clockwise by `turns`
quarters. With f the mirror and r the quarter turn, :math:`f r = r^{-1} f`, which defines every product.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ..errors import ShapeError, StructureError

_ELEMENTS = {
    "identity": (False, 0),
    "quarter_turn": (False, 1),
    "half_turn": (False, 2),
    "three_quarter_turn": (False, 3),
    "flip_x": (True, 0),
    "flip_y": (True, 2),
    "transpose": (True, 1),
    "anti_transpose": (True, 3),
}
_NAMES = {pair: name for name, pair in _ELEMENTS.items()}

DIHEDRAL_NAMES = tuple(_ELEMENTS)
FINITE_GROUPS = {
    "flips": ("identity", "flip_x", "flip_y", "half_turn"),  # both flips together are a half turn
    "quarter_turns": ("identity", "quarter_turn", "half_turn", "three_quarter_turn"),
    "dihedral": DIHEDRAL_NAMES,
}


def product(second: str, first: str) -> str:
    """Name of the element that acts as `first`, then as `second`."""
    (mirrored_2, turns_2), (mirrored_1, turns_1) = _pair(second), _pair(first)
    turns = turns_2 + (-turns_1 if mirrored_2 else turns_1)
    return _NAMES[mirrored_1 != mirrored_2, turns % 4]


def missing_products(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the products that a set of elements lacks, in the order of `DIHEDRAL_NAMES`; none in a group."""
    products = {product(second, first) for second in names for first in names}
    return tuple(name for name in DIHEDRAL_NAMES if name in products - set(names))


def act(images: Shaped[Tensor, "... H W"], name: str) -> Shaped[Tensor, "... H W"]:
    """Images transformed by one symmetry of the square, without interpolation.

    Arguments:
        images: The images, shape (..., H, W); square ones for a quarter turn or transpose.
        name: The element: "identity", "quarter_turn", "half_turn", "three_quarter_turn", "flip_x", "flip_y",
            "transpose" or "anti_transpose".

    Example:
        >>> import torch
        >>> from covary.groups import act
        >>> act(torch.tensor([[1, 2], [3, 4]]), "quarter_turn")
        tensor([[2, 4],
                [1, 3]])
    """
    mirrored, turns = _pair(name)
    if turns % 2 and images.shape[-2] != images.shape[-1]:
        raise ShapeError(
            f"Expected square images for '{name}', got {tuple(images.shape[-2:])}. Pad them, or use 'flips'."
        )
    return torch.rot90(images.flip(-1) if mirrored else images, turns, (-2, -1))


def element_matrix(name: str, *, dtype: torch.dtype = torch.float32) -> Float[Tensor, "3 3"]:
    r"""Matrix :math:`F R^k` of one element from output to input coordinates on [−1, 1]², F the mirror, R the turn.

    Quarter turns are for square images, so that no aspect ratio is involved.
    """
    mirrored, turns = _pair(name)
    mirror = torch.tensor([-1.0 if mirrored else 1.0, 1.0, 1.0], dtype=dtype, device="cpu").diag()
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=dtype, device="cpu")
    return mirror @ torch.linalg.matrix_power(turn, turns)


def _pair(name: str) -> tuple[bool, int]:
    if name not in _ELEMENTS:
        raise StructureError(
            f"Expected a symmetry of the square, got '{name}'. Choose one of {', '.join(DIHEDRAL_NAMES)}."
        )
    return _ELEMENTS[name]
