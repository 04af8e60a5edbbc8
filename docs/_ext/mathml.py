"""Formulas as MathML, converted while the pages are built.

Browsers draw MathML themselves, so that a page needs neither a script nor a connection to show its formulas. The
converter is the one that docutils ships; formulas that it cannot read are errors of the build.
"""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

SIZED = re.compile(r"\\([Bb]igg?)(?![a-zA-Z])\s*(\\[{}|]|\\[lr]\w+|.)")
OPENING = ("(", "[", r"\{", r"\lfloor", r"\langle")


def _sized(match: re.Match[str]) -> str:
    """A sized delimiter with the side, l or r, that docutils' converter needs."""
    side = "l" if match[2] in OPENING else "r"
    return rf"\{match[1]}{side}{match[2]}"


def to_mathml(formula: str, *, block: bool) -> str:
    """MathML of a LaTeX formula."""
    formula = SIZED.sub(_sized, " ".join(formula.split()))
    formula = re.sub(r"\\dots(?![a-z])", r"\\ldots", formula)
    if block and r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    try:
        return tex2mathml(formula, as_block=block)
    except MathError as error:
        raise ExtensionError(f"The formula '{formula}' cannot be converted: {error}") from error


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(to_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({node["number"]})</span>')
    translator.body.append(to_mathml(node.astext(), block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
