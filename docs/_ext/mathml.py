"""Formulas as MathML, converted while the pages are built.

Browsers draw MathML themselves, so that a page needs neither a script nor a connection to show its formulas. A command
that the converter does not know is an error of the build.
"""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator

SPACE = '<mspace width="0.167em" />'
FUNCTION = r"<m[io]>(?:log|exp|det|tr|diag|ln|min|max|sin|cos|tanh|softmax|softplus|rank|Tr)</m[io]>"
BEFORE = re.compile(rf"(</(?:mi|mn|mstyle|mfrac|msub|msup|msubsup|mrow|munder|munderover)>)(?={FUNCTION})")
AFTER = re.compile(rf'((?<!<msub>)(?<!<msup>)(?<!<msubsup>){FUNCTION})(?=<(?!mo stretchy="false">&#x00028;|/))')


def to_mathml(formula: str, *, block: bool) -> str:
    """MathML of a LaTeX formula, with the thin spaces that LaTeX has around functions."""
    formula = " ".join(formula.split()).replace("{aligned}", "{align*}")
    if block and r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{align*}}{formula}\end{{align*}}"
    result = convert(formula, display="block" if block else "inline")
    if unknown := re.search(r"\\[a-zA-Z]+", result):
        raise ExtensionError(f"The formula '{formula}' has the unknown command '{unknown[0]}'. Write it otherwise.")
    return AFTER.sub(rf"\1{SPACE}", BEFORE.sub(rf"\1{SPACE}", result))


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(to_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(to_mathml(node.astext(), block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
