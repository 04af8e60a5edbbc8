r"""Finite groups with a multiplication table and an action of each element on pixels.

Elements act on images by :math:`(g x)(p) = x(g^{-1} p)`. Features over a group have one slice per element h, and are
stored in the *turned frame*: slice h of a lifted image is the image turned back by h, :math:`x'_h = h^{-1} x`. There an
element t only permutes slices, :math:`(t x)'_h = x'_{t^{-1} h}`, and a shift of the image by v moves slice h by
:math:`h^{-1} v`, different for each slice. In the *fixed frame*, :math:`x_h = h x'_h`, a shift moves all slices
equally; an element permutes and turns them.

Layout: features (N, C·|G|, H, W), channel-major with the element fastest: channel c·|G| + h.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from ..errors import StructureError
from .square import FINITE_GROUPS, act, missing_products, product

FIRST_SIDE = 12  # pixels of the images on which an action is checked first; divisible by 2, 3, 4 and 6


@dataclass(frozen=True)
class Group:
    r"""A finite group: elements 0, 1, …, element 0 the identity, with products and an action on images.

    The table and the action on 12×12 images are checked on construction, the action on other sizes when they are first
    used. Layers over the group commute with it for any action, and also with circular shifts if the action maps shifts
    to shifts, as turns, mirrors and the identity do.

    Arguments:
        name: The name of the group in messages and records.
        table: The product :math:`g h` of g = row and h = column: h acts first.
        action: From images (..., H, W) and an element to the transformed images: a permutation of pixels.
        checked: The sizes (H, W) of images on which the action was checked.

    Example:
        >>> import torch
        >>> from covary.groups import Group
        >>> mirror = Group("mirror", [[0, 1], [1, 0]], lambda images, element: images.flip(-1) if element else images)
        >>> mirror.size, mirror.act(torch.tensor([[1, 2]]), 1).tolist()
        (2, [[2, 1]])
    """

    name: str
    table: Sequence[Sequence[int]]
    action: Callable[[Tensor, int], Tensor]
    checked: set[tuple[int, int]] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", tuple(tuple(row) for row in self.table))
        _check_table(self)
        self.check_on((FIRST_SIDE, FIRST_SIDE))

    @property
    def size(self) -> int:
        """Number of elements |G|."""
        return len(self.table)

    @property
    def inverses(self) -> tuple[int, ...]:
        """Inverse of each element."""
        return tuple(row.index(0) for row in self.table)

    def act(self, images: Shaped[Tensor, "*batch H W"], element: int) -> Shaped[Tensor, "*batch H W"]:
        """Images under one element."""
        return self.action(images, element)

    def check_on(self, size: Sequence[int]) -> None:
        """Raise `StructureError` if the action on images of size (H, W) does not follow the table; once per size."""
        height, width = size
        if (height, width) not in self.checked:
            _check_action(self, height, width)
            self.checked.add((height, width))

    def __str__(self) -> str:
        """The name, for `print`."""
        return self.name


def square_group(elements: str | Sequence[str]) -> Group:
    """Group of symmetries of the square, by its name or by the names of its elements, in that order.

    Arguments:
        elements: "quarter_turns", "dihedral", "flips", or names such as ("identity", "flip_x").

    Example:
        >>> from covary.groups import square_group
        >>> square_group("dihedral").size, square_group(("identity", "flip_x")).name
        (8, 'identity+flip_x')
    """
    names = FINITE_GROUPS.get(elements, ()) if isinstance(elements, str) else tuple(elements)
    if not names or names[0] != "identity" or len(set(names)) < len(names):
        raise StructureError(
            f"Expected one of {', '.join(FINITE_GROUPS)}, or different names of elements with 'identity' first, got "
            f"{elements!r}. Pass for example ('identity', 'flip_x')."
        )
    if missing := missing_products(names):
        raise StructureError(
            f"Expected a group, but of the elements {', '.join(names)} the products {', '.join(missing)} are missing. "
            "Add them."
        )
    table = [[names.index(product(second, first)) for first in names] for second in names]
    name = elements if isinstance(elements, str) else "+".join(names)
    return Group(name, table, partial(_act_by_name, names))


def cyclic(order: int, turn: str | Callable[[Tensor], Tensor] = "identity") -> Group:
    r"""Cyclic group of order n: element k acts as the k-th power of `turn`, whose n-th power must be the identity.

    Arguments:
        order: The number n of elements.
        turn: A symmetry of the square by name, or a permutation of pixels (..., H, W) -> (..., H, W) for 12×12 pixels
            and every size in use; by default the group permutes slices and does not move pixels.

    Example:
        >>> from covary.groups import cyclic
        >>> cyclic(4, "quarter_turn").table[1]
        (1, 2, 3, 0)
    """
    if order < 1:
        raise StructureError(f"Expected an order of 1 or more, got {order}. Pass the number of elements.")
    table = [[(first + second) % order for first in range(order)] for second in range(order)]
    once = partial(act, name=turn) if isinstance(turn, str) else turn
    return Group(f"cyclic({order})", table, partial(_act_by_power, once))


def lift(images: Float[Tensor, "*N C H W"], group: Group) -> Float[Tensor, "*N CG H W"]:
    r"""Features over a group of plain images, in the turned frame: slice h is :math:`h^{-1} x`.

    Example:
        >>> import torch
        >>> from covary.groups import P4, lift
        >>> lift(torch.zeros(2, 3, 8, 8), P4).shape
        torch.Size([2, 12, 8, 8])
    """
    group.check_on(images.shape[-2:])
    return torch.stack([group.act(images, inverse) for inverse in group.inverses], -3).flatten(-4, -3)


def turn_slices(
    features: Float[Tensor, "*N CG H W"], group: Group, elements: Sequence[int]
) -> Float[Tensor, "*N CG H W"]:
    """Features with the pixels of slice h transformed by `elements[h]`.

    Arguments:
        features: One slice per element.
        group: The group.
        elements: An element per slice: `range(group.size)` maps the turned frame to the fixed one, `group.inverses`
            the fixed frame to the turned one.

    Example:
        >>> import torch
        >>> from covary.groups import P4, lift, turn_slices
        >>> image = torch.arange(4.0).view(1, 1, 2, 2)
        >>> bool((turn_slices(lift(image, P4), P4, range(4)) == image).all())
        True
    """
    group.check_on(features.shape[-2:])
    slices = features.unflatten(-3, (-1, group.size)).unbind(-3)
    turned = [group.act(piece, element) for piece, element in zip(slices, elements, strict=True)]
    return torch.stack(turned, -3).flatten(-4, -3)


def permute_slices(features: Float[Tensor, "*N CG H W"], group: Group, element: int) -> Float[Tensor, "*N CG H W"]:
    r"""Features transformed by an element t in the turned frame: :math:`(t x)'_h = x'_{t^{-1} h}`; no pixel moves.

    Example:
        >>> import torch
        >>> from covary.groups import P4, lift, permute_slices
        >>> image = torch.rand(1, 1, 2, 2)
        >>> torch.equal(permute_slices(lift(image, P4), P4, 1), lift(P4.act(image, 1), P4))
        True
    """
    order = list(group.table[group.inverses[element]])
    return features.unflatten(-3, (-1, group.size))[..., order, :, :].flatten(-4, -3)


def align(slices: Float[Tensor, "*N G H W"], group: Group) -> Float[Tensor, "*N G G H W"]:
    r"""The input of slice h of a group convolution at offset u: :math:`u x'_{hu}`, axes (..., h, u, H, W)."""
    group.check_on(slices.shape[-2:])
    columns = [[row[offset] for row in group.table] for offset in range(group.size)]
    return torch.stack([group.act(slices[..., column, :, :], u) for u, column in enumerate(columns)], -3)


def alike(one: Group, other: Group) -> bool:
    """Whether two groups have the same table and the same action on a 12×12 image, whatever their names."""
    image = _numbered(FIRST_SIDE, FIRST_SIDE)
    return one.table == other.table and all(
        torch.equal(one.act(image, element), other.act(image, element)) for element in range(one.size)
    )


def turns_shifts(group: Group) -> bool:
    """Whether an element maps a shift to another one, as turns and mirrors do; a roll maps each to itself."""
    image, shifts = _numbered(FIRST_SIDE, FIRST_SIDE), list(itertools.product(range(FIRST_SIDE), repeat=2))
    for element, shift in itertools.product(range(group.size), ((0, 1), (1, 0))):
        still, moved = group.act(image, element), group.act(image.roll(shift, (0, 1)), element)
        if any(torch.equal(moved, still.roll(other, (0, 1))) for other in shifts if other != shift):
            return True
    return False


def _act_by_name(names: Sequence[str], images: Tensor, element: int) -> Tensor:
    return act(images, names[element])


def _act_by_power(once: Callable[[Tensor], Tensor], images: Tensor, element: int) -> Tensor:
    for _ in range(element):
        images = once(images)
    return images


def _numbered(height: int, width: int) -> Int[Tensor, "H W"]:
    """An image with a different number in every pixel."""
    return torch.arange(height * width, device="cpu").view(height, width)


def _check_table(group: Group) -> None:
    size, every = len(group.table), set(range(len(group.table)))
    if not size or any(len(row) != size or not every.issuperset(row) for row in group.table):
        raise StructureError(
            f"The table of group '{group.name}' must be square with entries 0 to {size - 1}, one row per element, got "
            f"{group.table}. Number the elements from 0 and give the product of every pair."
        )
    table = torch.tensor(group.table, device="cpu")
    if table[0].tolist() != [*every] or table[:, 0].tolist() != [*every]:
        raise StructureError(
            f"Element 0 of group '{group.name}' must be the identity, got the row {group.table[0]}. Reorder the "
            "elements."
        )
    if any(0 not in row for row in group.table):
        missing = next(g for g, row in enumerate(group.table) if 0 not in row)
        raise StructureError(
            f"Every element of group '{group.name}' must have an inverse, but row {group.table[missing]} of element "
            f"{missing} lacks the identity 0. Correct the table."
        )
    left, right = table[table], table[:, table]  # (a b) c and a (b c), axes a, b, c
    if not torch.equal(left, right):
        a, b, c = (left != right).nonzero()[0].tolist()
        raise StructureError(
            f"The table of group '{group.name}' must be associative, but ({a}·{b})·{c} is {int(left[a, b, c])} and "
            f"{a}·({b}·{c}) is {int(right[a, b, c])}. Correct the table."
        )


def _check_action(group: Group, height: int, width: int) -> None:
    image = _numbered(height, width)
    images = [group.action(image, element) for element in range(group.size)]
    for element, moved in enumerate(images):
        if moved.shape != image.shape or not torch.equal(moved.flatten().sort().values, image.flatten()):
            raise StructureError(
                f"Element {element} of group '{group.name}' must permute the pixels of an image, but a "
                f"{height}×{width} image lost pixels or its shape. Pass an action without interpolation or cropping."
            )
    for second, row in enumerate(group.table):
        for first, together in enumerate(row):
            if not torch.equal(group.action(images[first], second), images[together]):
                raise StructureError(
                    f"The action of group '{group.name}' must follow its table, but {first}, then {second}, moves "
                    f"pixels of a {height}×{width} image differently from their product {together}. Correct the table "
                    "(row · column, the column acts first) or the action, or use images of another size."
                )


P4 = square_group("quarter_turns")
P4M = square_group("dihedral")
