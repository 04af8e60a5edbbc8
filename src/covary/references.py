"""Functions of the user's own, by their reference `package.module:function`."""

import inspect
import pkgutil
from collections.abc import Callable

from .errors import CovaryError


def function_of(
    reference: str, arguments: tuple[str, ...], expected: str, failure: type[CovaryError]
) -> Callable[..., object]:
    """The function of a reference, once it is there and can be called with so many arguments.

    Arguments:
        reference: The module, a colon, and the function's name in it.
        arguments: The names of what it is called with, by position.
        expected: What kind of function is wanted, for the message.
        failure: The error to raise where there is none.
    """
    module, _, attribute = reference.partition(":")
    try:
        function = pkgutil.resolve_name(reference)
    except AttributeError as error:
        raise failure(f"{reference}: module {module} has no '{attribute}'. Is it spelled right?") from error
    except Exception as error:  # whatever a module does when it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise failure(
            f"{reference} cannot be imported ({reason}). Install its package, or add its folder to PYTHONPATH."
        ) from error
    if not callable(function):
        raise failure(f"{reference} is a {type(function).__name__}: expected {expected}.")
    try:
        # as it is called: a decorator may give the function inside what that asks for
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # not every function that is written in C tells
        return function
    try:
        signature.bind(*arguments)
    except TypeError as error:
        called = f"with ({', '.join(arguments)})" if arguments else "without arguments"
        raise failure(f"{reference} cannot be called {called} ({error}): expected {expected}.") from error
    return function
