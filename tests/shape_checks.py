"""Checks of the annotations of covary while its tests run: the same as jaxtyping's own hook makes, in less time.

`jaxtyping.jaxtyped` binds the arguments of every call, checks them twice, before and after the call, and copies all
sizes that it knows at every tensor: more than half of the time of the tests. Here beartype checks arguments and
result once, inside one scope for the letters of shapes; a function without shapes in its signature has no scope at all.
The wrapper of a function inside of another is compiled once, and plain tensors are compared with plain shapes directly.
All else is left to jaxtyping.
"""

import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
import torch
from beartype import BeartypeConf, beartype
from jaxtyping._storage import _shape_storage as SCOPES
from torch import Tensor

JAXTYPED = jaxtyping.jaxtyped
CHECKED = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
ARRAYS = type(jaxtyping.AbstractArray)
IS_ARRAY = ARRAYS.__instancecheck__
PLAIN = (Tensor, torch.nn.Parameter)


def has_shapes(annotation: Any) -> bool:
    """Whether a type is one of jaxtyping's or contains one; a name that cannot be resolved may."""
    if isinstance(annotation, str | typing.ForwardRef):
        return True
    if isinstance(annotation, list | tuple):  # the arguments of a Callable
        return any(map(has_shapes, annotation))
    is_array = isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)
    return is_array or any(map(has_shapes, typing.get_args(annotation)))


class PlainShape(typing.NamedTuple):
    """Sizes and letters of a shape, the place of a variadic part among them (None: without one) and its name."""

    parts: list[int | str]
    place: int | None
    variadic: str


@functools.cache
def plain_shape(annotation: Any) -> PlainShape | None:
    """The shape of an annotation, or None for one that jaxtyping has to read."""
    parts = annotation.dim_str.split()
    places = [place for place, part in enumerate(parts) if part == "..." or part.startswith("*")]
    variadic = parts.pop(places[0]).strip(".*") if len(places) == 1 else ""
    names = [*parts, variadic] if variadic else parts
    is_plain = all(re.fullmatch(r"\d+|[^\W\d_]\w*", name) for name in names)
    if len(places) > 1 or annotation.array_type is not Tensor or not is_plain:
        return None
    return PlainShape([int(part) if part.isdigit() else part for part in parts], next(iter(places), None), variadic)


@functools.cache
def has_dtype(annotation: Any, dtype: torch.dtype) -> bool:
    """Whether tensors of a type are of the kind of an annotation, such as `Float`."""
    return IS_ARRAY(annotation.dtype[Tensor, "..."], torch.empty(0, dtype=dtype))


def is_array(annotation: Any, value: Any) -> bool:
    """In the place of jaxtyping's `__instancecheck__`: whether a value has the type and shape of an annotation."""
    if type(value) not in PLAIN or (plain := plain_shape(annotation)) is None:
        return IS_ARRAY(annotation, value)
    if not has_dtype(annotation, value.dtype):
        return False
    parts, place, variadic = plain
    shape = value.shape
    scopes = getattr(SCOPES, "memo_stack", None)
    sizes, several = scopes[-1][:2] if scopes else ({}, {})
    if place is not None:
        end = place + max(len(shape) - len(parts), 0)
        middle, shape = (False, shape[place:end]), shape[:place] + shape[end:]  # False: not one to broadcast
        if several.get(variadic, middle) != middle:
            return False
    if len(shape) != len(parts):
        return False
    known = sizes.copy()
    for part, size in zip(parts, shape):  # noqa: B905
        if (part if type(part) is int else known.setdefault(part, size)) != size:
            return False
    sizes.update(known)
    if variadic:
        several[variadic] = middle
    return True


ARRAYS.__instancecheck__ = is_array

# By the code of functions inside of others: annotations, the wrapper that beartype made and whether it needs a scope.
INNER: dict[types.CodeType, tuple[dict[str, Any], Callable, bool]] = {}


def wrapped(target: Callable) -> tuple[Callable, bool]:
    """The function as beartype checks it, and whether shapes are in its signature."""
    annotations, wrapper, shapes = INNER.get(target.__code__, (None, target, False))
    if annotations != target.__annotations__:
        wrapper, shapes = CHECKED(target), has_shapes(list(target.__annotations__.values()))
        if "<locals>" in target.__qualname__:
            INNER[target.__code__] = (target.__annotations__, wrapper, shapes)
        return wrapper, shapes
    if wrapper.__code__ is target.__code__:  # there was nothing to check
        return target, shapes
    again = types.FunctionType(wrapper.__code__, wrapper.__globals__, wrapper.__name__)
    again.__kwdefaults__ = wrapper.__kwdefaults__ | {"__beartype_func": target}
    return functools.update_wrapper(again, target), shapes


def checked(target: Any = None, *, typechecker: Callable) -> Any:
    """In the place of `jaxtyping.jaxtyped`, as its import hook calls it: a decorator of classes and functions."""
    if target is None:
        return functools.partial(checked, typechecker=typechecker)
    if dataclasses.is_dataclass(target):
        if "__init__" in vars(target) and not hasattr(target, "__no_type_check__"):
            target.__init__ = checked(target.__init__, typechecker=typechecker)
        return target
    annotations = getattr(target, "__annotations__", {})
    if not inspect.isfunction(target) or any("{" in str(annotation) for annotation in annotations.values()):
        return JAXTYPED(target, typechecker=typechecker)  # another class, or a size that is named by an argument
    function, shapes = wrapped(target)
    if not shapes:
        return function

    @functools.wraps(function)
    def in_scope(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return target(*args, **kwargs)
        scopes = SCOPES.__dict__.setdefault("memo_stack", [])
        scopes.append(({}, {}, {}, {}))
        try:
            return function(*args, **kwargs)
        finally:
            scopes.pop()

    return in_scope
