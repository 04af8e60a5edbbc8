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


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=_name)
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
    """The example as a reader runs it, with fewer images, samples, hidden units and epochs."""
    monkeypatch.chdir(tmp_path)
    code = blocks(ROOT / "README.md", "python")[0][1]
    smaller = {
        ", 2000, seed": ", 600, seed",
        "(784, 100, 10)": "(784, 50, 10)",
        "samples=8": "samples=4",
        "=30,": "=20,",
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


def _source(target: str, page: Path) -> Path:
    """The file in the repository that a link leads to, or from which its target is made."""
    if match := re.match(r"/?(?:.*/)?(tutorials|examples)/images/sphx_glr_(\w+)_\d+\.png", target):
        return ROOT / "examples" / match[1].replace("examples", "guides") / f"{match[2]}.py"
    if match := re.match(r"/?(tutorials|examples)/(\w+)\.rst", target):
        folder = ROOT / "examples" / match[1].replace("examples", "guides")
        return folder / ("GALLERY_HEADER.rst" if match[2] == "index" else f"{match[2]}.py")
    path = (page.parent / target).resolve()
    if str(path).startswith(str(DOCS)) and str(path.relative_to(DOCS)).startswith(GENERATED):
        return DOCS / "_ext" / "reference.py"
    return path


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_and_figures_of_a_page_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        place, _, anchor = target.partition("#")
        source = _source(place, page) if place else page
        assert source.exists(), target
        if anchor and source.suffix == ".md":
            assert anchor in _anchors(source), target


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
        assert f"/examples/{path.stem}.rst" in listed
