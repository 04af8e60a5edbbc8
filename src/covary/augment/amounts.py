"""One symmetry of an augmentation removed, or made complete; the others stay as they are."""

import math
from itertools import combinations

import torch
from torch import nn

from ..errors import StructureError
from ..groups.square import missing_products, product
from .affine import Correlated
from .composed import Composed
from .finite import FiniteGroup, Mirror3d
from .generators import LearnedGenerators
from .per_class import PerClass
from .protocol import Augmentation
from .uniform import UniformWidths, raw_from_widths

NEVER = -30.0  # the logit of a probability of 1e-13; minus infinity has no gradient
ALMOST = 1 - 1e-6  # of π, which no parameter reaches
# Unit -> the width that counts as complete; one that was learned to be wider is doubled.
COMPLETE = {
    "radians": math.pi * ALMOST,
    "radians of hue": math.pi * ALMOST,
    "half-widths": 1.0,
    "half-heights": 1.0,
    "half-lengths": 1.0,
    "log-scale": math.log(2),
    "log-factor": math.log(2),
    "generator norm": math.pi,
}
OTHERWISE = 1.0


def complete_width(unit: str, width: float) -> float:
    """The width at which a transform counts as complete: half a turn, half of the image, a factor of two."""
    complete = COMPLETE.get(unit, OTHERWISE)
    return complete if unit.startswith("radians") or width < complete else 2 * width


def num_elements(augment: Augmentation) -> int:
    """The number of combinations of finite symmetries that the samples of a datum cycle through; 1 without any."""
    if isinstance(augment, Composed):
        return math.prod(num_elements(part) for part in augment.parts)
    if isinstance(augment, FiniteGroup):
        return len(augment.elements)
    return 2 ** len(augment.names) if isinstance(augment, Mirror3d) else 1


def set_none(augment: Augmentation, name: str) -> None:
    """Take a symmetry out of an augmentation, in place: its width, or its probability, is 0, whatever its limits are.

    Without an element of a finite group, the rest has to be a group: of the subgroups without it, the one that had the
    largest probability remains.
    """
    part = _part(augment, name)
    if isinstance(part, FiniteGroup):
        kept = _without(part, name)
        _set_probabilities(part, [p if e in kept else 0.0 for e, p in zip(part.elements, _learned(part), strict=True)])
    elif isinstance(part, Mirror3d):
        _fill(part.logits, part.names.index(name), NEVER)
    else:
        _set_width(part, name, 0.0)


def set_full(augment: Augmentation, name: str) -> None:
    """Make a symmetry of an augmentation complete, in place.

    A width is that of `complete_width`, whatever its limits are. A mirror has the probability ½. With an element g of a
    finite group, g x is as probable as x: the learned probabilities are averaged over the powers of g.
    """
    part = _part(augment, name)
    number = part.names.index(name)
    if isinstance(part, FiniteGroup):
        known, powers = dict(zip(part.elements, _learned(part), strict=True)), _powers(name)
        _set_probabilities(part, [sum(known[product(g, e)] for g in powers) / len(powers) for e in part.elements])
    elif isinstance(part, Mirror3d):
        _fill(part.logits, number, 0.0)
    else:
        unit = getattr(part, "units", ("",) * len(part.names))[number]
        _set_width(part, name, complete_width(unit, part.widths[number].item()))


def _part(augment: Augmentation, name: str) -> Augmentation:
    """The part of composed augmentations that has a name."""
    while isinstance(augment, Composed):
        augment = next(part for part in augment.parts if name in part.names)
    return augment


@torch.no_grad()
def _set_width(augment: Augmentation, name: str, width: float) -> None:
    number = augment.names.index(name)
    if isinstance(augment, PerClass):
        of, own = divmod(number, len(augment.names) // len(augment.parts))
        part = augment.parts[of]
        assert isinstance(part, UniformWidths), "PerClass takes no others"
        _set_width(part, part.names[own], width)
    elif isinstance(augment, UniformWidths):
        _unlimit(augment, name)
        raw = raw_from_widths(augment.raw_widths.new_tensor([width]), augment.angular[number : number + 1])
        _fill(augment.raw_widths, number, float(raw))
    elif isinstance(augment, Correlated):
        _unlimit(augment.base, name)
        row = torch.zeros_like(augment.raw_mix[number])
        angular = augment.base.angular[number : number + 1]
        row[number] = float(raw_from_widths(row.new_tensor([width]), angular))
        augment.raw_mix[number] = row  # by itself: how it went along with others is no part of its amount
    elif isinstance(augment, LearnedGenerators):
        augment.generators[number] *= width / augment.widths[number].clamp(min=1e-12)
    elif isinstance(augment.widths, nn.Parameter):
        _fill(augment.widths, number, width)
    else:
        raise StructureError(
            f"The width of '{name}' cannot be set: expected an augmentation of covary, or one whose `widths` are a "
            f"parameter, got {type(augment).__name__}."
        )


def _unlimit(augment: UniformWidths, name: str) -> None:
    """Remove the limits of a width, which would hold it there."""
    augment.limits = {other: ends for other, ends in augment.limits.items() if other != name}


@torch.no_grad()
def _fill(parameter: nn.Parameter, number: int, value: float) -> None:
    parameter[number] = value


@torch.no_grad()
def _set_probabilities(group: FiniteGroup, probabilities: list[float]) -> None:
    found = torch.tensor(probabilities, dtype=torch.float64)
    group.logits.copy_((found / found.sum()).log().clamp(min=NEVER))


def _learned(group: FiniteGroup) -> list[float]:
    return group.probabilities.tolist()


def _powers(name: str) -> list[str]:
    """The powers of an element, the identity first."""
    found = ["identity"]
    while (following := product(name, found[-1])) != "identity":
        found.append(following)
    return found


def _without(group: FiniteGroup, name: str) -> set[str]:
    """The elements of the subgroup without this one that has the largest probability."""
    known = dict(zip(group.elements, _learned(group), strict=True))
    others = [element for element in group.names if element != name]
    sets = [{"identity", *some} for size in range(len(others) + 1) for some in combinations(others, size)]
    groups = [elements for elements in sets if not missing_products(tuple(elements))]
    return max(groups, key=lambda elements: sum(known[element] for element in elements))
