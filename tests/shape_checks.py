"""Checks of the annotations of covary while its tests run: the same as jaxtyping's own hook makes, in less time.

`jaxtyping.jaxtyped` binds the arguments of every call and checks them twice, before and after the call, which took half
of the time of the tests. Here beartype checks arguments and result once, inside one scope for the letters of shapes; a
function without shapes in its signature has no scope at all.
"""

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

JAXTYPED = jaxtyping.jaxtyped
CHECKED = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


def has_shapes(annotation: Any) -> bool:
    """Whether a type is one of jaxtyping's or contains one; a name that cannot be resolved may."""
    if isinstance(annotation, str | typing.ForwardRef):
        return True
    if isinstance(annotation, list | tuple):  # the arguments of a Callable
        return any(map(has_shapes, annotation))
    is_array = isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)
    return is_array or any(map(has_shapes, typing.get_args(annotation)))


def checked(target: Any = None, *, typechecker: Callable) -> Any:
    """In the place of `jaxtyping.jaxtyped`, as its import hook calls it: a decorator of classes and functions."""
    if target is None:
        return functools.partial(checked, typechecker=typechecker)
    annotations = getattr(target, "__annotations__", {})
    if not inspect.isfunction(target) or any("{" in str(annotation) for annotation in annotations.values()):
        return JAXTYPED(target, typechecker=typechecker)  # a class, or a size that is named by an argument
    function = CHECKED(target)
    if not has_shapes(list(annotations.values())):
        return function

    @functools.wraps(function)
    def in_scope(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return target(*args, **kwargs)
        with JAXTYPED("context"):
            return function(*args, **kwargs)

    return in_scope
