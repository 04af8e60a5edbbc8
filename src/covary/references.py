"""User functions by reference, `package.module:function`."""

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import CovaryError


def function_of(
    reference: str, arguments: tuple[str, ...], expected: str, failure: type[CovaryError]
) -> Callable[..., object]:
    """The function of a reference, after a check that it can be called with the given arguments.

    Its module is installed, in a folder of `PYTHONPATH`, or in the working directory, which is searched last.

    Arguments:
        arguments: The names of its positional arguments.
        expected: A description of the expected function, for messages.
        failure: The type of error to raise.
    """
    module, _, attribute = reference.partition(":")
    try:
        with _working_directory_last():
            function = pkgutil.resolve_name(reference)
    except AttributeError as error:
        raise failure(f"{reference}: module {module} has no '{attribute}'. Check the spelling.") from error
    except (Exception, SystemExit) as error:  # a module's import may raise any exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        advice = "Install its package, or add its folder to PYTHONPATH."
        if module.endswith(".py"):
            advice = f"Write {module.removesuffix('.py').removeprefix('./').replace('/', '.')}:{attribute}."
        raise failure(f"{reference} cannot be imported ({reason}). {advice}") from error
    if not callable(function):
        raise failure(f"{reference} is of type {type(function).__name__}: expected {expected}.")
    try:
        # the outer signature: a decorator may supply arguments of the function inside
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # not every function written in C has a signature
        return function
    try:
        signature.bind(*arguments)
    except TypeError as error:
        called = f"with ({', '.join(arguments)})" if arguments else "without arguments"
        raise failure(f"{reference} cannot be called {called} ({error}): expected {expected}.") from error
    return function


@contextmanager
def _working_directory_last() -> Iterator[None]:
    """Let modules be imported from the working directory too, where no other place has them.

    Only while a reference is resolved: a file there must not replace a module that is imported later.
    """
    place = os.getcwd()
    importlib.invalidate_caches()  # the module may be younger than the last look into the directory
    sys.path.append(place)
    try:
        yield
    finally:
        if place in sys.path:
            del sys.path[-1 - sys.path[::-1].index(place)]  # the last one, which is ours
