"""Text that is safe to show and to save, numbers in words, and warnings at the line of the user."""

import difflib
import re
import sys
import warnings
from collections.abc import Iterable
from functools import cache

from .errors import StructureError

# C0, DEL and C1: what a terminal obeys; surrogates: bytes of file names that are no text; bidirectional overrides,
# which show text in another order than it has.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

LONGEST = 60  # characters of a value in a message


def is_plain(text: str) -> bool:
    """Whether a text has no control characters, tabs and line ends included, and can be encoded."""
    return CONTROL.search(text) is None


def escaped(text: str) -> str:
    r"""The text with control characters as `\u001b`, which JSON and TOML read as well; tabs and line ends are kept."""
    return CONTROL.sub(lambda found: found[0] if found[0] in "\t\n" else f"\\u{ord(found[0]):04x}", text)


def plural(number: int, noun: str) -> str:
    """A number of things, such as "1 image" or "1,234 images"; the plural of a noun has an "s"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def meant(value: object, choices: Iterable[str], rest: str = "") -> str:
    """A question after the message for a wrong name, such as " Did you mean 'kron'?"; empty if no choice is like it.

    `rest` follows the name, as a part of it that was right.
    """
    found = difflib.get_close_matches(str(value).lower(), list(choices), n=1)
    return f" Did you mean '{found[0]}{rest}'?" if found else ""


def require_choice(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise `StructureError` if a value is not one of the choices; `what` names one, such as "a sampler"."""
    known = list(choices)
    if value not in known:
        raise StructureError(f"Expected {what} among {', '.join(known)}, got {clipped(value)}.{meant(value, known)}")


def clipped(value: object) -> str:
    """The representation of any value in at most 60 characters, for messages."""
    try:
        shown = repr(value[: LONGEST + 1] if isinstance(value, str | bytes | list | tuple) else value)
    except (ValueError, RecursionError):  # more digits than Python converts, or a value inside of itself
        shown = f"a {type(value).__name__} that is too large to show"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def warn(message: str) -> None:
    """Show a warning at the line that called covary, however deep inside of it the reason was found."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("covary", "torch"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


@cache
def warn_once(message: str) -> None:
    """Show a warning the first time that it is given: a fit checks its model and reads its data many times."""
    warn(message)
