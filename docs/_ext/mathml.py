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

TIGHT = re.compile(r"<mo(?: stretchy=\"false\")?>(&#x0007C;|&#x02016;|\|)</mo>")  # bars of |x| and ‖x‖
SIGN = re.compile(r"(<mo(?: [^>]*)?>(?:&#x0003D;|&#x02248;|&#x02264;|&#x02265;|,|&#x00028;)</mo>)<mo>&#x02212;</mo>")


def to_mathml(formula: str, *, block: bool) -> str:
    """MathML of a LaTeX formula, spaced as LaTeX does."""
    formula = " ".join(formula.split()).replace("{aligned}", "{align*}")
    if block and r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{align*}}{formula}\end{{align*}}"
    result = convert(formula, display="block" if block else "inline")
    if unknown := re.search(r"\\[a-zA-Z]+", result):
        raise ExtensionError(f"The formula '{formula}' has the unknown command '{unknown[0]}'. Write it otherwise.")
    result = AFTER.sub(rf"\1{SPACE}", BEFORE.sub(rf"\1{SPACE}", result))
    result = TIGHT.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', result)
    return SIGN.sub(r'\1<mo form="prefix">&#x02212;</mo>', result)


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
