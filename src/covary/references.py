"""Functions of the user's own, by their reference `package.module:function`."""

import pkgutil
from collections.abc import Callable

from ._errors import CovaryError

__all__ = ["function_of"]


def function_of(reference: str, expected: str, failure: type[CovaryError]) -> Callable[..., object]:
    """The function of a reference, once it is there and can be called.

    Arguments:
        reference: The module, a colon, and the function's name in it.
        expected: What kind of function is wanted, for the message.
        failure: The error to raise where there is none.
    """
    module, _, attribute = reference.partition(":")
    try:
        function = pkgutil.resolve_name(reference)
    except AttributeError as error:
        raise failure(f"{reference}: module {module} has no '{attribute}'. Is it spelt right?") from error
    except Exception as error:  # whatever a module does when it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise failure(
            f"{reference} cannot be imported ({reason}). Install its package, or add its folder to PYTHONPATH."
        ) from error
    if not callable(function):
        raise failure(f"{reference} is a {type(function).__name__}: expected {expected}.")
    return function
