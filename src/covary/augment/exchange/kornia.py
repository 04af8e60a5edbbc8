"""Pipelines of kornia: read by the attributes of their transforms, and made again with learned ranges."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from torch import nn

from ..._text import clipped
from ...errors import StructureError
from ..color import COLOR_NAMES
from ..protocol import Augmentation
from .ranges import Flips, two_shears
from .reading import (
    CHOICE,
    FLIPS,
    NO_RANGE,
    Range,
    Reading,
    assembled,
    drawn_shear,
    flip_reading,
    flip_share,
    independent_flips,
    learned_ranges,
    quarter_turns,
)

CONTAINERS = ("AugmentationSequential", "ImageSequential", "Sequential", "ModuleList")
_OTHER_FORMULAS = "its formulas are not those of kornia's ColorJitter; use that class to learn the range"


def from_kornia(pipeline: Any) -> Augmentation:
    """The augmentation whose widths start at the ranges of a pipeline of kornia.

    Learned are the ranges of `RandomAffine`, `RandomRotation`, `RandomTranslate`, `RandomShear`, `ColorJitter` and
    `RandomHue`, and the probabilities of flips and quarter turns. A warning lists every transform if one of them is not
    learned, and says why; `to_kornia` keeps those as they are. kornia is not imported.

    Arguments:
        pipeline: One transform, or several in `AugmentationSequential`, `ImageSequential` or `torch.nn.Sequential`.

    Example:
        >>> import torch
        >>> from covary.augment import from_kornia
        >>> class RandomHorizontalFlip(torch.nn.Module):  # kornia.augmentation.RandomHorizontalFlip is one
        ...     p = 0.3
        >>> from_kornia(torch.nn.Sequential(RandomHorizontalFlip()))
        FiniteGroup(flip_x=0.3)
    """
    return assembled("kornia", [_reading(step) for step in _steps(_checked(pipeline))])


def to_kornia(augment: Augmentation, pipeline: Any) -> nn.Module:
    """A copy of a pipeline of kornia with the ranges of an augmentation that was learned from it.

    Arguments:
        augment: The augmentation, such as `run.augment` after a fit with `from_kornia(pipeline)`.
        pipeline: The pipeline; transforms that are not learned are copied.

    Example:
        >>> import torch
        >>> from covary.augment import FiniteGroup, to_kornia
        >>> class RandomHorizontalFlip(torch.nn.Module):  # kornia.augmentation.RandomHorizontalFlip is one
        ...     def __init__(self, p=0.5, same_on_batch=False, keepdim=False):
        ...         super().__init__()
        ...         self.p, self.same_on_batch, self.keepdim = p, same_on_batch, keepdim
        >>> round(to_kornia(FiniteGroup(("identity", "flip_x"), 0.2), RandomHorizontalFlip()).p, 6)
        0.2
    """
    made = deepcopy(_checked(pipeline))
    steps = [*_steps(made)]
    ranges, elements = learned_ranges(augment, [_reading(step) for step in steps])
    flips = independent_flips(elements)
    named = dict(made.named_modules())
    for step, own in zip(steps, ranges, strict=True):
        new = _with_ranges(step, own, flips)
        if step is made:
            return new
        path = next(path for path, module in named.items() if module is step)
        parent, _, child = path.rpartition(".")
        setattr(named[parent], child, new)
    return made


def _checked(pipeline: Any) -> nn.Module:
    if not isinstance(pipeline, nn.Module):
        raise StructureError(
            f"Expected a module of kornia, got {clipped(pipeline)}. Put several transforms into a "
            "kornia.augmentation.AugmentationSequential."
        )
    return pipeline


def _steps(pipeline: nn.Module) -> Iterator[nn.Module]:
    if type(pipeline).__name__ in CONTAINERS and not getattr(pipeline, "random_apply", False):
        for child in pipeline.children():
            yield from _steps(child)
    else:
        yield pipeline


def _reading(step: Any) -> Reading:
    kind = type(step).__name__
    p = float(getattr(step, "p", 1.0))
    if kind in CONTAINERS:
        return Reading(kind, unsupported=CHOICE)
    if kind in FLIPS:
        return flip_reading(kind, p)
    if kind == "RandomRotation90":
        return Reading(kind, elements=quarter_turns(_rounded(_ends(_plain(step, "times"))), p), p=p)
    if kind in ("ColorJiggle", "RandomBrightness", "RandomContrast", "RandomSaturation"):
        return Reading(kind, fixed=_OTHER_FORMULAS)
    if kind not in READERS:
        return Reading(kind, fixed=NO_RANGE)
    return Reading(kind, ranges=READERS[kind](step), p=p)


def _affine(step: Any) -> dict[str, Range]:
    own = step._param_generator
    found = {} if own.degree_sampler is None else {"rotation": _ends(own.degree_sampler)}
    found |= _translate(step)
    if own.scale_2_sampler is not None:
        found["scale_x"] = _ends(own.scale_2_sampler)
        found["scale_y"] = _ends(own.scale_4_sampler or own.scale_2_sampler)
    return found | _shear(step)


def _translate(step: Any) -> dict[str, Range]:
    own = step._param_generator
    samplers = {"shift_x": own.translate_x_sampler, "shift_y": own.translate_y_sampler}
    return {name: _ends(sampler) for name, sampler in samplers.items() if sampler is not None}


def _shear(step: Any) -> dict[str, Range]:
    own = step._param_generator
    return drawn_shear(*(s and _ends(s) for s in (own.shear_x_sampler, own.shear_y_sampler)))


def _colors(step: Any) -> dict[str, Range]:
    return {name: _ends(getattr(step._param_generator, f"{name}_sampler")) for name in COLOR_NAMES}


READERS: dict[str, Callable[[Any], dict[str, Range]]] = {
    "RandomAffine": _affine,
    "RandomRotation": lambda step: {"rotation": _ends(_plain(step, "degrees"))},
    "RandomTranslate": _translate,
    "RandomShear": _shear,
    "ColorJitter": _colors,
    "RandomHue": lambda step: {"hue": _ends(_plain(step, "hue_factor"))},
}


def _plain(step: Any, name: str) -> Any:
    return step._param_generator.sampler_dict[name]


def _ends(sampler: Any) -> Range:
    """The ends of a uniform distribution, which kornia keeps in float32."""
    low, high = (float(f"{float(end):.7g}") for end in (sampler.low, sampler.high))
    return low, high


def _rounded(ends: Range) -> dict[int, float]:
    """Probabilities of numbers of quarter turns modulo four: an even number that is rounded."""
    low, high = ends
    if low == high:
        return {round(low) % 4: 1.0}
    found: dict[int, float] = {}
    for turns in range(math.floor(low), math.ceil(high) + 1):
        share = max(min(turns + 0.5, high) - max(turns - 0.5, low), 0.0) / (high - low)
        found[turns % 4] = found.get(turns % 4, 0.0) + share
    return found


def _with_ranges(step: Any, ranges: dict[str, Range], flips: Flips) -> Any:
    """A transform of the same class with learned ranges; the transform itself where nothing of it is learned."""
    if not ranges and not _reading(step).elements.get("identity"):
        return step
    kind, options = type(step).__name__, {"same_on_batch": step.same_on_batch, "keepdim": step.keepdim}
    flags = getattr(step, "flags", {})
    if kind in FLIPS:
        return type(step)(p=flip_share(kind, flips), **options)
    if kind == "RandomRotation90":
        return type(step)((-1.5, 2.5), p=flips.turned, **flags, **options)
    if kind == "ColorJitter":
        given = {name: ranges[name] for name in COLOR_NAMES if name in ranges}
        return type(step)(**given, p=1.0, **options)
    return type(step)(**_new_arguments(step, ranges), p=1.0, **flags, **options)


def _new_arguments(step: Any, ranges: dict[str, Range]) -> dict[str, Any]:
    """The ranges in the arguments of a geometric transform, or of RandomHue."""
    kind = type(step).__name__
    if kind == "RandomRotation":
        return {"degrees": ranges["rotation"][1]}
    if kind == "RandomHue":
        return {"hue": ranges["hue"]}
    if kind == "RandomShear":
        return {"shear": _new_shear(step, ranges)}
    if kind == "RandomTranslate":
        return {f"translate_{axis}": ranges.get(f"shift_{axis}") for axis in "xy"}
    return _new_affine(step, ranges)


def _new_affine(step: Any, ranges: dict[str, Range]) -> dict[str, Any]:
    """Arguments of RandomAffine; a range that is not learned is kept as it is."""
    own = step._param_generator
    degrees = ranges.get("rotation", _ends(own.degree_sampler))
    kept = {"degrees": degrees, "translate": own.translate, "scale": own.scale, "shear": own.shear}
    if "shift_x" in ranges or "shift_y" in ranges:
        kept["translate"] = tuple(ranges.get(f"shift_{axis}", (0.0, 0.0))[1] for axis in "xy")
    if "scale_x" in ranges:
        both = [*ranges["scale_x"], *ranges.get("scale_y", ranges["scale_x"])]
        kept["scale"] = tuple(both)
    return kept | ({"shear": _new_shear(step, ranges)} if "shear" in ranges else {})


def _new_shear(step: Any, ranges: dict[str, Range]) -> tuple[float, ...]:
    """The learned shear parallel to x, or, if both directions were drawn, in both by a smaller angle."""
    own = step._param_generator
    if own.shear_y_sampler is None or _ends(own.shear_y_sampler) == (0.0, 0.0):
        return (*ranges["shear"], 0.0, 0.0)
    half = two_shears(ranges["shear"][1])
    return (-half, half, -half, half)
