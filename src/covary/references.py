"""User functions by reference, `package.module:function`."""

import inspect
import pkgutil
from collections.abc import Callable

from .errors import CovaryError


def function_of(
    reference: str, arguments: tuple[str, ...], expected: str, failure: type[CovaryError]
) -> Callable[..., object]:
    """The function of a reference, after a check that it can be called with the given arguments.

    Arguments:
        reference: The module, a colon, and the function's name in it.
        arguments: The names of its positional arguments.
        expected: A description of the expected function, for messages.
        failure: The type of error to raise.
    """
    module, _, attribute = reference.partition(":")
    try:
        function = pkgutil.resolve_name(reference)
    except AttributeError as error:
        raise failure(f"{reference}: module {module} has no '{attribute}'. Check the spelling.") from error
    except Exception as error:  # a module's import may raise any exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise failure(
            f"{reference} cannot be imported ({reason}). Install its package, or add its folder to PYTHONPATH."
        ) from error
    if not callable(function):
        raise failure(f"{reference} is a {type(function).__name__}: expected {expected}.")
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
