"""Figures as SVG text that stands inside a page: the same numbers give the same bytes."""

import re
import warnings
from contextlib import AbstractContextManager
from functools import partial
from io import StringIO

import matplotlib.style
from matplotlib.figure import Figure

# Okabe and Ito's colors, which people with any kind of color vision can tell apart; yellow is too faint for a line.
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
    """The settings that every figure is made and drawn with; those of the user come back afterwards."""
    return matplotlib.style.context(SETTINGS, after_reset=True)


def svg(figure: Figure, name: str = "figure") -> str:
    """A figure as one `<svg>` element, without the head of a file, a date or anything to fetch.

    Arguments:
        figure: What `figures` returns.
        name: What its inner identifiers start with, so that many figures can share a page.
    """
    text = StringIO()
    with style(), warnings.catch_warnings():
        # The browser has letters that the font of the layout lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    whole = text.getvalue()
    body = whole[whole.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, count=1, flags=re.DOTALL)
    # Text never holds a bare < or >, so these are the tags alone.
    return re.sub(r"<[^>]+>", partial(_with_own_names, name, {}), body)


def _with_own_names(name: str, numbers: dict[str, str], tag: re.Match[str]) -> str:
    text = tag.group()
    if text.startswith("<image"):
        return re.sub(r' id="[^"]*"', "", text)  # a hash of the pixels: equal pictures would share it
    return re.sub(
        r'(\bid="|href="#|url\(#)([^")]+)',
        lambda found: f"{found[1]}{name}-{_numbered(found[2], numbers)}",
        text,
    )


def _numbered(identifier: str, numbers: dict[str, str]) -> str:
    """An identifier; one that is a hash by its place among them, since layouts differ beyond the digits that show."""
    if not re.fullmatch(r"[A-Za-z][0-9a-f]{10}", identifier):
        return identifier
    return numbers.setdefault(identifier, f"{identifier[0]}{len(numbers) + 1}")
