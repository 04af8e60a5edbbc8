"""Text on a terminal: without control characters of the data, in letters that the terminal has."""

import codecs
import io
import sys
from collections.abc import Iterable

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from .._text import escaped

LONGEST, BEGINNING, END = 1500, 1000, 400  # characters of a message, and of what is kept of a longer one
ERRORS = "covary-ascii"
IN_ASCII = {
    **{"±": "+/-", "×": "x", "°": " deg", "…": "...", "–": "-", "—": "-", "−": "-", "·": "*", "→": "->"},
    **{"≤": "<=", "≥": ">=", "≈": "~", "“": '"', "”": '"', "‘": "'", "’": "'", "½": "1/2", "²": "^2"},
    **{"α": "alpha", "γ": "gamma", "δ": "delta", "η": "eta", "σ": "sigma", "ψ": "psi", "★": "*", "◆": "*"},
}


def prepare_streams() -> None:
    """Let both standard streams replace letters that they cannot encode, instead of failing."""
    codecs.register_error(ERRORS, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def echo(text: str, *, nl: bool = True) -> None:
    """Print a text on standard output."""
    typer.echo(escaped(text), nl=nl)


def echo_line(text: str) -> None:
    """Print one line on standard error; of a very long one its beginning and its end."""
    line = escaped(" ".join(text.split()))
    if len(line) > LONGEST:
        line = f"{line[:BEGINNING]} … {line[-END:]}"
    typer.echo(line, err=True)


def show(*renderables: RenderableType) -> None:
    """Print tables on standard output."""
    PlainConsole().print(*renderables, sep="\n")


class PlainConsole(Console):
    """A console that prints control characters of texts as escapes; its own, for colors and bars, are kept."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of anything that can be printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(IN_ASCII.get(letter) or _escape(letter) for letter in letters), error.end


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
