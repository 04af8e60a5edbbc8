"""Every exported name has an example that runs, and an entry in the reference."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
import reference  # of docs/_ext
import torch

import covary
from covary.errors import MissingLibraryError


def _modules() -> list[str]:
    names = [info.name for info in pkgutil.walk_packages(covary.__path__, "covary.") if info.name != "covary.__main__"]
    return ["covary", *names]


def _exported() -> dict[str, object]:
    """Exported classes and functions by their full name, each once."""
    packages = reference.public_packages()
    return {
        f"{package}.{name}": value
        for package, module in packages.items()
        for name, value in reference.exported(module).items()
        if reference.homes()[package][name] == f"{package}.{name}"
        and (inspect.isclass(value) or inspect.isroutine(value))
    }


@pytest.mark.parametrize("name", _modules())
def test_examples_of_a_module_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingLibraryError as error:  # of an integration
        pytest.skip(str(error))
    known = {"covary": covary, "torch": torch}
    failed, _ = doctest.testmod(module, extraglobs=known, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_every_exported_name_has_an_example() -> None:
    without = [name for name, value in _exported().items() if ">>>" not in (inspect.getdoc(value) or "")]
    assert without == []


def test_every_exported_name_has_an_entry_in_the_reference(tmp_path: Path) -> None:
    reference.write_api(tmp_path)
    for package, places in reference.homes().items():
        page = (tmp_path / f"{package}.rst").read_text()
        for name, place in places.items():
            assert (f":: {package}.{name}\n" in page) if place == f"{package}.{name}" else (f"`{place}`" in page)


def test_every_command_and_setting_has_an_entry(tmp_path: Path) -> None:
    reference.write_commands(tmp_path / "commands.md")
    reference.write_settings(tmp_path / "settings.md")
    commands, settings = (tmp_path / "commands.md").read_text(), (tmp_path / "settings.md").read_text()
    running, saved = ("discover", "layers", "watch", "reproduce", "bench"), ("predict", "geometry", "report", "compare")
    for name in (*running, *saved, "data"):
        assert f"## `covary {name}`" in commands
    for name in ("epochs", "weights.lr", "hyper.num_samples", "evaluation.num_evaluations", "data", "network"):
        assert f"| `{name}` | " in settings
    assert "|  |" not in settings, "a setting without a meaning: describe it in the docstring of its class"
