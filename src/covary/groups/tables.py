r"""Finite groups by their multiplication table, with the pixel permutation that each element is.

Elements act on images by :math:`(g x)(p) = x(g^{-1} p)`. Features over a group have one slice per element h, and are
kept in the *turned frame*: slice h of a lifted image is the image turned back by h, :math:`x'_h = h^{-1} x`. There an
element t only permutes slices, :math:`(t x)'_h = x'_{t^{-1} h}`, and a shift of the image by v moves slice h by
:math:`h^{-1} v`, each slice another way. In the *fixed frame*, :math:`x_h = h x'_h`, a shift moves all slices alike;
an element permutes and turns them.

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
from .finite import FINITE_GROUPS, act, missing_products, product

FIRST_SIDE = 12  # pixels of the images on which an action is checked first; divisible by 2, 3, 4 and 6


@dataclass(frozen=True)
class Group:
    r"""A finite group: elements 0, 1, …, element 0 the identity, with products and an action on images.

    What makes it a group is checked when it is made; that the action is one of this group, on images of 12×12 pixels
    then, and on those of another size when they first come. Layers over it commute with the group for any action, and
    with circular shifts too where the action maps shifts to shifts, as turns, mirrors and the identity do.

    Arguments:
        name: What to call it.
        table: The product :math:`g h` of g = row and h = column: h acts first.
        action: From images (..., H, W) and an element to the images under it: a permutation of pixels.
        checked: The sizes (H, W) of images on which the action was found to be one of this group.
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
        """Nothing, or an error where the action on images of this (H, W) is none of this group; once for each size."""
        height, width = size
        if (height, width) not in self.checked:
            _check_action(self, height, width)
            self.checked.add((height, width))

    def __str__(self) -> str:
        """The name, for `print`."""
        return self.name


def square_group(elements: str | Sequence[str]) -> Group:
    """Group of symmetries of the square, by its name in `FINITE_GROUPS` or its elements' names, in that order.

    Arguments:
        elements: "quarter_turns", "dihedral", "flips", or names such as ("identity", "flip_x").
    """
    names = FINITE_GROUPS.get(elements, ()) if isinstance(elements, str) else tuple(elements)
    if not names or names[0] != "identity" or len(set(names)) < len(names):
        raise StructureError(
            f"A group of the square is one of {', '.join(FINITE_GROUPS)}, or different names with 'identity' first; "
            f"{elements!r} came. Pass for example ('identity', 'flip_x')."
        )
    if missing := missing_products(names):
        raise StructureError(
            f"The elements {', '.join(names)} are no group: their products {', '.join(missing)} are missing. Add those."
        )
    table = [[names.index(product(second, first)) for first in names] for second in names]
    name = elements if isinstance(elements, str) else "+".join(names)
    return Group(name, table, partial(_act_by_name, names))


def cyclic(order: int, turn: str | Callable[[Tensor], Tensor] = "identity") -> Group:
    r"""Cyclic group of an order n: element k acts as k times the `turn`, whose n-th power must be the identity.

    Arguments:
        order: The number n of elements.
        turn: A symmetry of the square by name, or a permutation of pixels (..., H, W) -> (..., H, W), of 12×12 pixels
            and of every size that is used; by default the group acts on slices alone and leaves pixels where they are.
    """
    if order < 1:
        raise StructureError(f"A cyclic group needs an order of 1 or more; {order} came.")
    table = [[(first + second) % order for first in range(order)] for second in range(order)]
    once = partial(act, name=turn) if isinstance(turn, str) else turn
    return Group(f"cyclic({order})", table, partial(_act_by_power, once))


def lift(images: Float[Tensor, "*N C H W"], group: Group) -> Float[Tensor, "*N CG H W"]:
    r"""Features of plain images in the turned frame: slice h is :math:`h^{-1} x`."""
    group.check_on(images.shape[-2:])
    return torch.stack([group.act(images, inverse) for inverse in group.inverses], -3).flatten(-4, -3)


def turn_slices(
    features: Float[Tensor, "*N CG H W"], group: Group, elements: Sequence[int]
) -> Float[Tensor, "*N CG H W"]:
    """Features with the pixels of slice h under `elements[h]`.

    Arguments:
        features: One slice per element.
        group: The group.
        elements: An element per slice: `range(group.size)` takes the turned frame to the fixed one, `group.inverses`
            the fixed frame to the turned one.
    """
    group.check_on(features.shape[-2:])
    slices = features.unflatten(-3, (-1, group.size)).unbind(-3)
    turned = [group.act(part, element) for part, element in zip(slices, elements, strict=True)]
    return torch.stack(turned, -3).flatten(-4, -3)


def permute_slices(features: Float[Tensor, "*N CG H W"], group: Group, element: int) -> Float[Tensor, "*N CG H W"]:
    r"""Features under an element t in the turned frame: :math:`(t x)'_h = x'_{t^{-1} h}`; no pixel moves."""
    order = list(group.table[group.inverses[element]])
    return features.unflatten(-3, (-1, group.size))[..., order, :, :].flatten(-4, -3)


def align(slices: Float[Tensor, "*N G H W"], group: Group) -> Float[Tensor, "*N G G H W"]:
    r"""What slice h of a group convolution sees at offset u: :math:`u x'_{hu}`, axes (..., h, u, H, W)."""
    group.check_on(slices.shape[-2:])
    columns = [[row[offset] for row in group.table] for offset in range(group.size)]
    return torch.stack([group.act(slices[..., column, :, :], u) for u, column in enumerate(columns)], -3)


def alike(one: Group, other: Group) -> bool:
    """Whether two groups have one table and move the pixels of a 12×12 image alike, whatever they are called."""
    image = _numbered(FIRST_SIDE, FIRST_SIDE)
    return one.table == other.table and all(
        torch.equal(one.act(image, element), other.act(image, element)) for element in range(one.size)
    )


def turns_shifts(group: Group) -> bool:
    """Whether an element takes a shift to another one, as turns and mirrors do; a roll takes each to itself."""
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
    """An image with a number of its own in every pixel."""
    return torch.arange(height * width, device="cpu").view(height, width)


def _check_table(group: Group) -> None:
    size, every = len(group.table), set(range(len(group.table)))
    if not size or any(len(row) != size or not every.issuperset(row) for row in group.table):
        raise StructureError(
            f"The table of group '{group.name}' must be square with entries 0 to {size - 1}, one row per element; "
            f"{group.table} came. Number the elements from 0 and give the product of every pair."
        )
    table = torch.tensor(group.table, device="cpu")
    if table[0].tolist() != [*every] or table[:, 0].tolist() != [*every]:
        raise StructureError(
            f"Element 0 of group '{group.name}' must be the identity; its row is {group.table[0]}. Reorder the "
            "elements."
        )
    if any(0 not in row for row in group.table):
        missing = next(g for g, row in enumerate(group.table) if 0 not in row)
        raise StructureError(
            f"Element {missing} of group '{group.name}' has no inverse: its row {group.table[missing]} lacks the "
            "identity 0. Correct the table."
        )
    left, right = table[table], table[:, table]  # (a b) c and a (b c), axes a, b, c
    if not torch.equal(left, right):
        a, b, c = (left != right).nonzero()[0].tolist()
        raise StructureError(
            f"The table of group '{group.name}' is not associative: ({a}·{b})·{c} is {int(left[a, b, c])}, "
            f"{a}·({b}·{c}) is {int(right[a, b, c])}. Correct the table."
        )


def _check_action(group: Group, height: int, width: int) -> None:
    image = _numbered(height, width)
    images = [group.action(image, element) for element in range(group.size)]
    for element, moved in enumerate(images):
        if moved.shape != image.shape or not torch.equal(moved.flatten().sort().values, image.flatten()):
            raise StructureError(
                f"Element {element} of group '{group.name}' must permute the pixels of an image; a {height}×{width} "
                "image lost pixels or its shape. Give an action without interpolation or cropping."
            )
    for second, row in enumerate(group.table):
        for first, together in enumerate(row):
            if not torch.equal(group.action(images[first], second), images[together]):
                raise StructureError(
                    f"The action of group '{group.name}' does not follow its table: {first}, then {second}, moves "
                    f"pixels of a {height}×{width} image otherwise than their product {together}. Correct the table "
                    "(row · column, the column acts first) or the action, or take images of a size that it suits."
                )


P4 = square_group("quarter_turns")
P4M = square_group("dihedral")
