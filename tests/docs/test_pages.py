"""Pages of the documentation and README: code runs, links and figures exist, flags and names are real."""

import math
import re
import tokenize
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
GENERATED = ("_build/", "tutorials/", "examples/", "reference/api/", "reference/commands.md", "reference/settings.md")
PAGES = [ROOT / "README.md", ROOT / "llms.txt"] + [
    path for path in sorted(DOCS.rglob("*.md")) if not str(path.relative_to(DOCS)).startswith(GENERATED)
]

# Pages on other libraries: page -> the module without which its code does not run.
LIBRARIES = {"sklearn": "sklearn", "tracking": "tensorboard"}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Code blocks of a page in a language, with the lines where they begin."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text[: match.start(1)].count("\n") + 1, match[1]) for match in found]


def _skipped(code: str) -> bool:
    """Whether a block begins with `# skip: reason`."""
    return re.match(r"# skip: \S", code) is not None


# The code of the README is that of the first page, and the test below runs it.
RUN = [page for page in PAGES if blocks(page, "python") and page not in (ROOT / "README.md", DOCS / "index.md")]


@pytest.mark.parametrize("page", RUN, ids=_name)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks run one after another, in one namespace and an empty folder."""
    monkeypatch.chdir(tmp_path)
    if page.stem in LIBRARIES:
        pytest.importorskip(LIBRARIES[page.stem])
    namespace: dict[str, object] = {"__name__": "__page__"}
    for line, code in blocks(page, "python"):
        if not _skipped(code):
            exec(compile("\n" * (line - 1) + _shorter(code), str(page), "exec"), namespace)


def test_the_readme_learns_the_rotation_that_its_digits_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as a reader runs it, with fewer images, samples, hidden units and epochs, and without error bars."""
    monkeypatch.chdir(tmp_path)
    (code,) = [code for _, code in blocks(ROOT / "README.md", "python")]
    assert [code] == [other for _, other in blocks(DOCS / "index.md", "python")]
    smaller = {
        ", 2000, seed": ", 600, seed",
        "(784, 100, 10)": "(784, 50, 10)",
        "samples=8": "samples=4",
        "=30,": "=20,",
        "test=digits.test": 'test=digits.test, evaluation={"num_error_data": 0}',
    }
    for written, shorter in smaller.items():
        assert written in code
        code = code.replace(written, shorter)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    found = {symmetry.name: symmetry.width for symmetry in namespace["run"].symmetries}
    assert found.pop("rotation") == pytest.approx(math.pi / 2, rel=0.15)
    assert max(found.values()) < 0.2, "no other transform is in the data"


def _shorter(code: str) -> str:
    """The code with few images and epochs, which is enough to see that it runs."""
    code = re.sub(r"(limited\([^\n]*), \d+, seed=0\)", r"\1, 60, seed=0)", code)
    return re.sub(r"epochs=\d+", "epochs=1", code)


def _commands() -> dict[str, set[str]]:
    from covary.cli.app import COMMANDS, command

    flags = {
        name: {flag for option in command(name).params for flag in [*option.opts, *option.secondary_opts]}
        for name in COMMANDS
    }
    return flags | {"": {"--install-completion", "--show-completion"}}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=_name)
def test_commands_of_a_page_exist(page: Path) -> None:
    known = _commands()
    for _, code in blocks(page, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            match = re.match(r"(?:torchrun \S+ -m )?covary(?: ([a-z]+))?(.*)", line.split("#")[0].strip())
            if match:
                command = match[1] or ""
                assert command in known, line
                unknown = set(re.findall(r"(?<=\s)--[a-z-]+", match[2])) - known[command] - {"--help", "--version"}
                assert not unknown, line


def _anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def _is_dead(target: str, page: Path) -> bool:
    place, _, anchor = target.partition("#")
    path = (page.parent / place).resolve() if place else page
    generated = path.is_relative_to(DOCS) and str(path.relative_to(DOCS)).startswith(GENERATED)
    if place.startswith("/") or generated or not path.exists():
        return True
    return bool(anchor) and path.suffix == ".md" and anchor not in _anchors(path)


def dead_links(text: str, page: Path) -> list[str]:
    """Links of a page that lead nowhere in a clone; in the site those to scripts lead to their pages."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [target for target in targets if "://" not in target and _is_dead(target, page)]


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md"))], ids=_name)
def test_links_and_figures_of_a_page_exist_in_a_clone(page: Path) -> None:
    assert dead_links(page.read_text(encoding="utf-8"), page) == []


def test_a_dead_link_is_found() -> None:
    dead = ["/examples/x.rst", "none.md", "faq.md#nowhere", "reference/settings.md"]
    text = " ".join(f"[a]({target})" for target in [*dead, "faq.md", "index.md#install", "https://example.org/x"])
    assert dead_links(text, DOCS / "index.md") == dead


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_names_that_a_page_refers_to_exist(page: Path) -> None:
    import covary

    for name in re.findall(r"\{py:(?:obj|mod)\}`covary\.([\w.]+)`", page.read_text(encoding="utf-8")):
        value: object = covary
        for part in name.split("."):
            value = getattr(value, part)


def test_notation_lists_only_names_that_occur_in_the_code() -> None:
    page = (DOCS / "explanation" / "notation.md").read_text(encoding="utf-8")
    rows = page.split("Letters of shapes")[0]
    names = set(re.findall(r"`(\w+)`", rows))
    used = set()
    for path in (ROOT / "src").rglob("*.py"):
        with path.open("rb") as file:
            used |= {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    assert len(names) > 10
    assert names - used == set()


def test_the_readme_fits_on_one_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_examples_are_listed_in_the_guides() -> None:
    listed = (DOCS / "guides" / "index.md").read_text(encoding="utf-8")
    for path in (ROOT / "examples" / "guides").glob("*.py"):
        assert f"](../../examples/guides/{path.stem}.py)" in listed
        assert f"\n/examples/{path.stem}\n" in listed, "in the contents of the site"
