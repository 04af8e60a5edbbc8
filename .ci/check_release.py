"""Check the sdist and the wheel in dist/: their files, and the wheel in a fresh environment, away from the sources."""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# What is installed must answer as the sources do: the version, the package, its types and the data inside it.
SCRIPT = """
import sys
from importlib.metadata import version
from importlib.resources import files
import covary
assert covary.__version__ == version("covary") == sys.argv[1], (covary.__version__, version("covary"), sys.argv[1])
assert "site-packages" in covary.__file__, covary.__file__
assert (files("covary") / "py.typed").is_file()
covary.data.load("mnist-mini")  # the digits that are part of the package
for name in covary.__all__:
    getattr(covary, name)
"""


def only(pattern: str) -> Path:
    """The one file in dist/ that matches a pattern."""
    found = sorted((REPOSITORY / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"Expected one file dist/{pattern}, got {len(found)}. Run `make release`, which builds anew.")
    return found[0]


def tracked(folder: str) -> set[str]:
    """Files of a folder that git tracks, as paths relative to the repository."""
    listing = subprocess.run(["git", "ls-files", folder], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return set(listing.stdout.split())


def check_files(sdist: Path, wheel: Path) -> None:
    """Exit with an error unless both archives hold every tracked file of the package."""
    with zipfile.ZipFile(wheel) as archive:
        missing = {name.removeprefix("src/") for name in tracked("src")} - set(archive.namelist())
    if missing:
        sys.exit(f"{wheel.name} lacks {sorted(missing)}.")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for folder in ("src", "tests", "docs", "examples") for name in tracked(folder)}
    if missing := (wanted | {"README.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff", "constraints.txt"}) - inside:
        sys.exit(f"{sdist.name} lacks {sorted(missing)}.")


def check_installed(wheel: Path) -> None:
    """Install the wheel into a fresh environment and run it there; a failure ends the process."""
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        bin_ = Path(folder) / "bin"
        constraints = REPOSITORY / "constraints.txt"
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([bin_ / "python", "-m", "pip", "install", *quiet, "-c", constraints, wheel], check=True)
        subprocess.run([bin_ / "python", "-I", "-c", SCRIPT, version], cwd=folder, check=True)
        command = subprocess.run([bin_ / "covary", "--version"], cwd=folder, check=True, capture_output=True, text=True)
        if command.stdout.strip() != f"covary {version}":
            sys.exit(f"Expected `covary --version` to print 'covary {version}', got {command.stdout!r}.")


if __name__ == "__main__":
    sdist, wheel = only("covary-*.tar.gz"), only("covary-*.whl")
    check_files(sdist, wheel)
    check_installed(wheel)
    print(f"{sdist.name} and {wheel.name} are complete; the wheel installs, imports and answers.")
