"""Augmentations by name."""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import nn

from .. import augment
from .._text import meant
from ..augment.uniform import InitialWidth
from ..data.layouts import Layout
from ..errors import StructureError

FINITE = {"flips": "flips", "quarter-turns": "quarter_turns", "dihedral": "dihedral"}
NAMES = (
    *("affine", "affine:NAME,NAME…", "correlated[:NAME,…]", "color[:NAME,…]", *FINITE),
    *("signal[:NAME,…]", "points[:NAME,…]", "volume[:NAME,…]", "mirror[:NAME,…]", "one+another"),
)
# family -> what it transforms; mirrors are of points and of volumes
LAYOUTS: dict[str, Layout] = {"signal": "signals", "points": "points", "volume": "volumes"}


def build(description: str, widths: Mapping[str, float] | None = None, dtype: str = "float32") -> augment.Augmentation:
    """The augmentation that a description names.

    Arguments:
        description: "affine" (all six generators), "affine:rotation,shift_x" (some), "correlated" (coefficients that
            may move together), "color" or "color:brightness,contrast" (colors; gray images have these two only),
            "flips", "quarter-turns" or "dihedral" (learned probabilities); "signal" (shift, stretch, amplitude, noise),
            "points" (rotations, scale, jitter of point clouds), "volume" (rotations, scale), "mirror" (of
            points and volumes), all or by names; or several joined by "+", applied from left to right.
        widths: Where each width starts, by name; the others are 0. Elements of a finite group and mirrors that are not
            named are left out; those elements that are make up a group with the identity. By default all start small
            and positive.
        dtype: The type of its parameters.
    """
    parts = [_part(name, None) for name in description.split("+")]
    whole = parts[0] if len(parts) == 1 else augment.Composed(*parts)
    for name in widths or ():
        if name not in whole.names:
            listed = ", ".join(whole.names)
            raise StructureError(f"'{name}' is no transform of the augmentation '{description}'; those are {listed}.")
    if widths is not None:
        named = zip(description.split("+"), parts, strict=True)
        finite = augment.FiniteGroup | augment.Mirror3d
        kept = [_part(n, widths) for n, p in named if not isinstance(p, finite) or set(p.names) & set(widths)]
        whole = kept[0] if len(kept) == 1 else augment.Composed(*kept)
    cast(nn.Module, whole).to(getattr(torch, dtype))
    return whole


def augmentations_with(symmetry: str) -> list[str]:
    """The augmentations that learn a symmetry of this name, such as "affine:rotation" or "flips"; [] for no name."""
    families = [name for name in _ALL if name != "correlated"]
    named = [f"{name}:{symmetry}" for name in families if symmetry in _ALL[name]().names]
    groups = {name: augment.FiniteGroup(group).names for name, group in FINITE.items()}
    return named + [name for name, elements in groups.items() if symmetry in (*elements, name.removesuffix("s"))][:1]


def layout_of(description: str) -> Layout:
    """What an augmentation transforms: "images", "signals", "points", "volumes", or either of these two ("space").

    Arguments:
        description: The description, as for `build`, or "none", for images.
    """
    families = {name.strip().partition(":")[0] for name in description.split("+")}
    found: set[Layout] = {LAYOUTS.get(family, "images") for family in families - {"mirror"}}
    if len(found) > 1 or ("mirror" in families and found & {"images", "signals"}):
        own = f"{', '.join(sorted(found))}{' and points or volumes' if 'mirror' in families else ''}"
        raise StructureError(
            f"Expected augmentations of one kind of data, got '{description:.200}', of {own}. Name those of one kind."
        )
    return found.pop() if found else "space"


_MAKERS: dict[str, Callable[[tuple[str, ...], InitialWidth], augment.Augmentation]] = {
    "affine": lambda names, start: augment.Affine2d(names, initial_width=start),
    "correlated": lambda names, start: augment.Correlated(augment.Affine2d(names, initial_width=start)),
    "color": lambda names, start: augment.ColorJitter(names, initial_width=start),
    "signal": lambda names, start: augment.Signal1d(names, initial_width=start),
    "points": lambda names, start: augment.Points3d(names, initial_width=start),
    "volume": lambda names, start: augment.Volume3d(names, initial_width=start),
}
_ALL: dict[str, Callable[[], augment.Augmentation]] = {
    "affine": augment.Affine2d,
    "correlated": augment.Affine2d,
    "color": augment.ColorJitter,
    "signal": augment.Signal1d,
    "points": augment.Points3d,
    "volume": augment.Volume3d,
    "mirror": augment.Mirror3d,
}


def _part(name: str, widths: Mapping[str, float] | None) -> augment.Augmentation:
    kind, _, chosen = name.strip().partition(":")
    if kind in FINITE and not chosen:
        group = augment.FiniteGroup(FINITE[kind])
        if widths is None:
            return group
        named = {name: float(widths[name]) for name in group.names if name in widths}
        return augment.FiniteGroup(("identity", *named), named)
    if kind not in _ALL:
        having = " or ".join(augmentations_with(kind))
        advice = f" Did you mean {having}?" if having else meant(kind, (*_ALL, *FINITE, "none"))
        raise StructureError(
            f"No augmentation is called '{name}': expected one of {', '.join(NAMES)}, or none.{advice}"
        )
    names = tuple(part.strip() for part in chosen.split(",")) if chosen else _ALL[kind]().names
    if kind == "mirror":
        held = names if widths is None else tuple(part for part in names if part in widths)
        return augment.Mirror3d(held, 0.05 if widths is None else {part: float(widths[part]) for part in held})
    return _MAKERS[kind](names, 0.05 if widths is None else {part: float(widths.get(part, 0.0)) for part in names})
