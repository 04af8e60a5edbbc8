"""The words of docstrings, messages and flags: plain technical English, the field's words, American spelling.

Patterns are explicit, and so are the phrases in which a word is meant otherwise. `python tests/test_words.py` lists
what is found.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "covary"

# What not to write -> what to write. A comment in front of a pattern names the meaning that it must not hit.
WORDS = {
    r"\bcame\b": "got",
    r"\bslopes?\b|\bmost_slope\b": "gradient",
    r"\bshorten(s|ed|ing)?\b": "clip",
    r"(?<![Ll]earning )(?<![Ll]earning-)\brates?\b": "lr, learning rate",
    r"\bjudg\w*": "evaluate, select",
    r"\bcopies\b": "augmentation samples",
    r"\bsketch\w*": "probes",
    r"\bshares? of (a|the|its|one|every|each) (layer|parameter|weight|projection|query|module)\b": "factors (a, g)",
    r"\bin parts\b|\bparts? of (a|the|its) batch\b|\bparts of at most\b": "chunks",
    r"\brooms?\b": "package, module",
    r"\b(takes?|taken|taking|took) (\w+ )?out\b|\bswitch\w* off\b|\bswitched-off\b": "remove, prune, inactive",
    r"\bread-?outs?\b": "layer summary",
    r"\bplans?\b": "resource estimate",
    r"\b(begin_strict|follow_prior|relative_to|\w+_rate|judge_columns|hyper_(data|sets|steps))\b": "its name now",
    r"\b(lies?|lay|lying) (in|at|on|below|above|beyond|between|within|outside|inside|beside|there|near)\b": "is in",
    r"\b(is|are|was|were|has|have) left\b(?! (alone|as|unchanged|unset|untouched|empty|out|to right))": "remains",
    r"\b(come|comes|coming) to\b": "equals",
    r"\bserv(e|es|ed|ing)\b": "is used for",
    r"\bdear(er|est)?\b": "expensive",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bby heart\b": "memorize",
    r"\bso many\b": "up to N",
    r"\b(tell|tells|told|telling)\b": "show, say",
    r"^The (way|error) (by|of)\b": "an imperative sentence",
}

# Phrases in which a word is meant otherwise.
ALLOWED = {
    "negative slope",  # of leaky ReLU
    "negative_slope",
    "slope −0.5",  # of a line through errors
    "sampling rate",
    "error rate",
    "tells apart",
}

BRITISH = re.compile(
    r"(optim|factor|symmetr|normal|linear|parametr|standard|initial|general|random|regular|orthogonal|recogn|minim|"
    r"memor|maxim|discret|summar|character|penal|categor|emphas|util|serial|local|vector|stabil|visual|quant)is"
    r"(e|ed|es|er|ers|ing|ation|ations|able)(?![a-z])|colour|centre|neighbour|behaviour|favour|labelled|modelled|"
    r"licence|grey|artefact|analyse",
    re.IGNORECASE,
)


def _strings(node: ast.AST) -> Iterator[ast.Constant]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child


def _is_message(node: ast.AST) -> bool:
    """Whether the strings of a node reach a user: a raised error, a warning, the help of a flag."""
    if isinstance(node, ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in {"warn", "Option", "Argument", "_option", "CovaryError"} or name.endswith("Error")


def texts(path: Path) -> dict[int, str]:
    """Docstrings and messages of a file by line."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if document := ast.get_docstring(node):
                first = node.body[0]
                found[first.lineno] = document
        elif _is_message(node):
            for text in _strings(node):
                found[text.lineno] = " ".join(other.value for other in _strings(node) if other.lineno == text.lineno)
    return found


def _without_allowed(text: str) -> str:
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    return text


def offenses(path: Path) -> list[str]:
    """What a file says in words that it should not, a line each."""
    lines = []
    for number, text in sorted(texts(path).items()):
        if text.startswith("Nothing"):
            lines.append(f"{path.relative_to(SOURCE)}:{number}: begins with 'Nothing'; write an imperative sentence")
        prose = _without_allowed(" ".join(text.split()))
        for pattern, better in WORDS.items():
            if match := re.search(pattern, prose):
                around = prose[max(0, match.start() - 30) : match.end() + 30]
                lines.append(f"{path.relative_to(SOURCE)}:{number}: '{match[0]}' in '…{around}…'; write {better}")
    return lines


def british(path: Path) -> list[str]:
    """Identifiers and flags of a file with British spelling."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    names = [(t.start[0], t.string) for t in tokens if t.type == tokenize.NAME and BRITISH.search(t.string)]
    flags = [
        (text.lineno, flag)
        for text in _strings(ast.parse(path.read_text(encoding="utf-8")))
        for flag in re.findall(r"--[a-z][a-z-]+", text.value)
        if BRITISH.search(flag)
    ]
    return [f"{path.relative_to(SOURCE)}:{number}: {name}" for number, name in [*names, *flags]]


FILES = sorted(SOURCE.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_docstrings_and_messages_use_the_words_of_the_field(path: Path) -> None:
    assert offenses(path) == []


def test_identifiers_and_flags_are_spelled_as_in_torch() -> None:
    assert [line for path in FILES for line in british(path)] == []


def test_the_check_finds_what_it_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: a file with such words is found."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    path = tmp_path / "bad.py"
    path.write_text(
        'def f(optimiser):\n    """Nothing, or an error."""\n    raise ValueError(f"{f} came; 3 copies.")\n'
    )
    assert len(offenses(path)) == 3
    assert british(path) == ["bad.py:1: optimiser"]


if __name__ == "__main__":
    print("\n".join(line for path in FILES for line in [*offenses(path), *british(path)]))
