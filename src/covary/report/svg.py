"""Figures as SVG text for a page: the same numbers give the same bytes."""

import re
import warnings
from contextlib import AbstractContextManager
from functools import partial
from io import StringIO

import matplotlib.style
from matplotlib.figure import Figure

# Okabe and Ito's colors, which are distinct for any kind of color vision; yellow is too faint for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B3A8E", "#7F7F7F")
INK, MUTED, PALE = "#1b1f24", "#5c6570", "#a9b8c4"

SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and enlarged
    "svg.hashsalt": "covary",
    "text.parse_math": False,  # a class may be called "$x$"
    "image.composite_image": False,
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.8,
    "axes.edgecolor": "#9aa3ad",
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "text.color": INK,
    "axes.titlecolor": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
}


def style() -> AbstractContextManager[None]:
    """The matplotlib settings of every figure, as a context; the user's are restored afterwards."""
    return matplotlib.style.context(SETTINGS, after_reset=True)


def svg(figure: Figure, name: str = "figure") -> str:
    """A figure as one `<svg>` element, without a file header, a date or links.

    Arguments:
        figure: The figure.
        name: The prefix of its identifiers, so that several figures can share a page.

    Example:
        >>> svg(Figure(figsize=(1, 1)), "empty")[:4]
        '<svg'
    """
    text = StringIO()
    with style(), warnings.catch_warnings():
        # The browser has glyphs that matplotlib's font does not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    whole = text.getvalue()
    body = whole[whole.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, count=1, flags=re.DOTALL)
    # Text never has a bare < or >, so these are the tags only.
    return re.sub(r"<[^>]+>", partial(_with_own_names, name, {}), body)


def _with_own_names(name: str, numbers: dict[str, str], tag: re.Match[str]) -> str:
    text = tag.group()
    if text.startswith("<image"):
        return re.sub(r' id="[^"]*"', "", text)  # a hash of the pixels, which equal images would share
    return re.sub(
        r'(\bid="|href="#|url\(#)([^")]+)',
        lambda found: f"{found[1]}{name}-{_numbered(found[2], numbers)}",
        text,
    )


def _numbered(identifier: str, numbers: dict[str, str]) -> str:
    """An identifier; a hash is replaced by its number, because layouts differ in digits that are not shown."""
    if not re.fullmatch(r"[A-Za-z][0-9a-f]{10}", identifier):
        return identifier
    return numbers.setdefault(identifier, f"{identifier[0]}{len(numbers) + 1}")
