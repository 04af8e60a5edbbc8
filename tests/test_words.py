"""The words of docstrings, messages, comments and pages: plain technical English, the field's words, American spelling.

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

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "covary"

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
    "shorten the learned rows",  # of a table
}

BRITISH = re.compile(
    r"(optim|factor|symmetr|normal|linear|parametr|standard|initial|general|random|regular|orthogonal|recogn|minim|"
    r"memor|maxim|discret|summar|character|penal|categor|emphas|util|serial|local|vector|stabil|visual|quant)is"
    r"(e|ed|es|er|ers|ing|ation|ations|able)(?![a-z])|colour|centre|neighbour|behaviour|favour|labelled|modelled|"
    r"licence|grey|artefact|analyse",
    re.IGNORECASE,
)

NOUN_PHRASE = r"(An?|The|One|Fig\.|App\.|Table \d)\b"


def _strings(node: ast.AST) -> Iterator[ast.Constant]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child


def texts(path: Path) -> dict[int, str]:
    """What a file says, by line: docstrings, other strings of several words and comments, or the prose of a page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        prose = re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), source, flags=re.MULTILINE | re.DOTALL)
        return dict(enumerate(re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose).splitlines(), 1))
    found = {}
    for text in _strings(ast.parse(source)):
        if " " in text.value:
            found[text.lineno] = " ".join([found.get(text.lineno, ""), text.value]).strip()
    comments = (token for token in _tokens(source) if token.type == tokenize.COMMENT)
    return found | {token.start[0]: f"{found.get(token.start[0], '')} {token.string}" for token in comments}


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(source).readline)


def _without_allowed(text: str) -> str:
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    return text


def offenses(path: Path) -> list[str]:
    """What a file says in words that it should not, a line each."""
    lines = []
    for number, text in sorted(texts(path).items()):
        if text.startswith("Nothing"):
            lines.append(f"{_name(path)}:{number}: begins with 'Nothing'; write an imperative sentence")
        prose = _without_allowed(" ".join(text.split()))
        for pattern, better in [*WORDS.items(), (BRITISH.pattern, "American spelling")]:
            if match := re.search(pattern, prose, re.IGNORECASE):
                around = prose[max(0, match.start() - 30) : match.end() + 30]
                lines.append(f"{_name(path)}:{number}: '{match[0]}' in '…{around}…'; write {better}")
    return lines


def british(path: Path) -> list[str]:
    """Identifiers and flags of a file with British spelling."""
    source = path.read_text(encoding="utf-8")
    names = [(t.start[0], t.string) for t in _tokens(source) if t.type == tokenize.NAME and BRITISH.search(t.string)]
    flags = [
        (text.lineno, flag)
        for text in _strings(ast.parse(source))
        for flag in re.findall(r"--[a-z][a-z-]+", text.value)
        if BRITISH.search(flag)
    ]
    return [f"{_name(path)}:{number}: {name}" for number, name in [*names, *flags]]


def no_procedures(path: Path) -> list[str]:
    """Functions of a file that return nothing, and whose docstring does not say what to do."""
    functions = (
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    )
    return [
        f"{_name(path)}:{node.lineno}: {node.name}"
        for node in functions
        if getattr(node.returns, "value", "") is None and re.match(NOUN_PHRASE, ast.get_docstring(node) or "")
    ]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


FILES = sorted(SOURCE.rglob("*.py"))
GENERATED = ("docs/_build/", "docs/tutorials/", "docs/examples/", "docs/reference/")
PAGES = [*ROOT.glob("*.md"), ROOT / "llms.txt", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
PROSE = [*FILES, *(path for path in sorted(PAGES) if not _name(path).startswith(GENERATED))]


@pytest.mark.parametrize("path", PROSE, ids=_name)
def test_docstrings_messages_and_pages_use_the_words_of_the_field(path: Path) -> None:
    assert offenses(path) == []


def test_the_docstring_of_a_procedure_is_an_imperative_sentence() -> None:
    assert [line for path in FILES for line in no_procedures(path)] == []


def test_identifiers_and_flags_are_spelled_as_in_torch() -> None:
    assert [line for path in FILES for line in british(path)] == []


def test_files_that_docstrings_name_exist() -> None:
    known = {path.name for folder in (SOURCE, ROOT / "tests", ROOT / "examples") for path in folder.rglob("*.py")}
    named = {(_name(path), found) for path in FILES for found in re.findall(r"`(?:\w+/)*(\w+\.py)`", path.read_text())}
    assert {(path, found) for path, found in named if found not in known} == set()


def test_the_check_finds_what_it_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: a file with such words is found."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path, page = tmp_path / "bad.py", tmp_path / "bad.md"
    path.write_text(
        'def f(optimiser):\n    """Nothing, or an error."""\n    raise ValueError(f"{f} came; 3 copies.")  # dear\n'
    )
    assert len(offenses(path)) == 4
    assert british(path) == ["bad.py:1: optimiser"]
    page.write_text("The `copies` are\n```python\ncopies\n```\nso many that its colour differs.\n")
    assert [line.split(":")[1] for line in offenses(page)] == ["5", "5"]


if __name__ == "__main__":
    print("\n".join(line for path in PROSE for line in offenses(path)))
