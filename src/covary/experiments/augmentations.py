"""Augmentations by name."""

from collections.abc import Mapping

import torch

from ..augment import Affine2d, Augmentation, ColorJitter, Composed, Correlated, FiniteGroup
from ..errors import StructureError

FINITE = {"flips": "flips", "quarter-turns": "quarter_turns", "dihedral": "dihedral"}
NAMES = ("affine", "affine:NAME,NAME…", "correlated[:NAME,…]", "color[:NAME,…]", *FINITE, "one+another")


def build(description: str, widths: Mapping[str, float] | None = None, dtype: str = "float32") -> Augmentation:
    """The augmentation that a description names.

    Arguments:
        description: "affine" (all six generators), "affine:rotation,shift_x" (some), "correlated" (coefficients that
            may move together), "color" or "color:brightness,contrast" (colors; gray images have these two only),
            "flips", "quarter-turns" or "dihedral" (learned probabilities), or several joined by "+", applied from left
            to right.
        widths: Where each width starts, by name; the others are 0. Elements of a finite group that are not named are
            left out; those that are make up a group with the identity. By default all start small and positive.
        dtype: The type of its parameters.
    """
    parts = [_part(name, None) for name in description.split("+")]
    whole = parts[0] if len(parts) == 1 else Composed(*parts)
    for name in widths or ():
        if name not in whole.names:
            listed = ", ".join(whole.names)
            raise StructureError(f"'{name}' is no transform of the augmentation '{description}'; those are {listed}.")
    if widths is not None:
        named = zip(description.split("+"), parts, strict=True)
        kept = [_part(n, widths) for n, p in named if not isinstance(p, FiniteGroup) or set(p.names) & set(widths)]
        whole = kept[0] if len(kept) == 1 else Composed(*kept)
    return whole.to(getattr(torch, dtype))


def _part(name: str, widths: Mapping[str, float] | None) -> Affine2d | ColorJitter | Correlated | FiniteGroup:
    kind, _, chosen = name.strip().partition(":")
    if kind in FINITE and not chosen:
        group = FiniteGroup(FINITE[kind])
        if widths is None:
            return group
        named = {name: float(widths[name]) for name in group.names if name in widths}
        return FiniteGroup(("identity", *named), named)
    if kind not in ("affine", "correlated", "color"):
        raise StructureError(f"No augmentation is called '{name}': expected one of {', '.join(NAMES)}, or none.")
    make = ColorJitter if kind == "color" else Affine2d
    names = tuple(part.strip() for part in chosen.split(",")) if chosen else make().names
    if kind == "color":
        return ColorJitter(names, initial_width=0.05 if widths is None else _all_widths(names, widths))
    base = Affine2d(names) if widths is None else Affine2d(names, initial_width=_all_widths(names, widths))
    return Correlated(base) if kind == "correlated" else base


def _all_widths(names: tuple[str, ...], widths: Mapping[str, float]) -> dict[str, float]:
    return {name: float(widths.get(name, 0.0)) for name in names}
