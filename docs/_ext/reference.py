"""Reference pages, written from the code before the pages are read: every exported name, command and setting."""

import importlib
import inspect
import pkgutil
import re
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import covary
import covary.integrations
from covary.errors import MissingLibraryError

if TYPE_CHECKING:
    from sphinx.application import Sphinx

COMMAND_PACKAGES = ("cli", "benchmarks", "experiments", "reproduce")
"""Packages behind the command line: their reference is that of the commands."""


def public_packages() -> dict[str, ModuleType]:
    """Packages whose `__all__` is public, the errors, and the integrations whose library is installed, by name."""
    names = [info.name for info in pkgutil.iter_modules(covary.__path__) if info.ispkg]
    public = [f"covary.{name}" for name in names if name not in COMMAND_PACKAGES]
    packages = {name: importlib.import_module(name) for name in ["covary", *public, "covary.errors"]}
    return {name: package for name, package in packages.items() if exported(package)} | _integrations()


def _integrations() -> dict[str, ModuleType]:
    found = {}
    for info in pkgutil.iter_modules(covary.integrations.__path__, "covary.integrations."):
        if not info.name.rpartition(".")[2].startswith("_"):
            with suppress(MissingLibraryError):
                found[info.name] = importlib.import_module(info.name)
    return {name: module for name, module in found.items() if exported(module)}


def exported(package: ModuleType) -> dict[str, Any]:
    """Public objects of a package by name, without its modules; of one without `__all__`, what it defines."""
    if not hasattr(package, "__all__") and package.__name__.startswith(("covary.errors", "covary.integrations.")):
        defined = {
            name: value for name, value in vars(package).items() if getattr(value, "__module__", "") == package.__name__
        }
        return {name: value for name, value in defined.items() if not name.startswith("_")}
    values = {name: getattr(package, name) for name in getattr(package, "__all__", ())}
    return {name: value for name, value in values.items() if not inspect.ismodule(value)}


def homes() -> dict[str, dict[str, str]]:
    """For every package the place of each name's entry: the first package, from the top, that exports the object."""
    seen: dict[int, str] = {}
    places: dict[str, dict[str, str]] = {}
    for package, module in public_packages().items():
        places[package] = {}
        for name, value in exported(module).items():
            place = f"{package}.{name}"
            shared = inspect.isclass(value) or inspect.isfunction(value)
            places[package][name] = seen.setdefault(id(value), place) if shared else place
    return places


def _entry(path: str, value: Any) -> str:
    if inspect.isclass(value):
        members = "" if issubclass(value, BaseException) else "   :members:\n"
        bases = "" if value.__bases__ == (object,) else "   :show-inheritance:\n"
        return f".. autoclass:: {path}\n{members}{bases}"
    if callable(value):
        return f".. autofunction:: {path}\n"
    return f".. autodata:: {path}\n   :no-value:\n"


def _api_page(package: str, module: ModuleType, places: dict[str, str]) -> str:
    own = {name: value for name, value in exported(module).items() if places[name] == f"{package}.{name}"}
    other = [place for name, place in places.items() if name not in own]
    lines = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:", ""]
    if other:
        lines += ["Also exported here: " + ", ".join(f":py:obj:`{place}`" for place in other) + ".", ""]
    for name, value in own.items():
        lines += [name, "-" * len(name), "", _entry(f"{package}.{name}", value), ""]
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    """Write a page where it differs from what is there, so that an unchanged one is not read again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_api(folder: Path) -> None:
    """Write a page per public package, and their list."""
    places = homes()
    packages = public_packages()
    for page in folder.glob("*.rst"):
        if page.stem not in packages:  # of a package that was public in an earlier build
            page.unlink()
    for name, module in packages.items():
        _write(folder / f"{name}.rst", _api_page(name, module, places[name]))
    rows = "\n".join(f"| [`{name}`]({name}.rst) | {_cell(_first_line(module))} |" for name, module in packages.items())
    listing = "\n".join(packages)
    text = (
        "# Python\n\nEvery exported name, with its signature and an example. All else is private.\n\n"
        f"| package | what it is for |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{listing}\n```\n"
    )
    _write(folder / "index.md", text)


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")


def _cell(text: Any) -> str:
    return " ".join(str(text).split()).replace("|", r"\|")


def _options(command: Any) -> list[str]:
    rows = []
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        name = option.metavar or option.name.upper() if not option.opts[0].startswith("-") else ", ".join(option.opts)
        if option.secondary_opts:
            name += ", " + ", ".join(option.secondary_opts)
        default = option.default if option.default not in (None, False, "", ()) and not callable(option.default) else ""
        rows.append(f"| `{name}` | {_cell(option.help or '')} | {f'`{_cell(default)}`' if default != '' else ''} |")
    return rows


def write_commands(path: Path) -> None:
    """Write the page of commands: help text and options of each."""
    from covary.cli.app import COMMANDS, command

    text = [
        "# Commands",
        "",
        "`covary COMMAND --help` prints the same in a terminal; `python -m covary` is the same program. Bad input ends",
        "a command with one line on standard error and exit code 2.",
        "",
    ]
    for name in COMMANDS:
        help_text = re.sub(r"[\b\f]", "", inspect.cleandoc(command(name).help or "")).strip()
        text += [f"## `covary {name}`", "", help_text, ""]
        text += ["| argument or option | meaning | default |", "|---|---|---|", *_options(command(name)), ""]
    _write(path, "\n".join(text))


def _settings_rows(config: Any, presets: list[Any], prefix: str = "") -> list[str]:
    rows = []
    for field in fields(config):
        values = [getattr(preset, field.name) for preset in presets]
        if is_dataclass(values[0]) and prefix == "":
            rows += _settings_rows(type(values[0]), values, f"{field.name}.")
        else:
            meaning = _argument(config, field.name)
            rows.append(f"| `{prefix}{field.name}` | {_cell(meaning)} | " + " | ".join(f"`{v}`" for v in values) + " |")
    return rows


def _argument(config: type, name: str) -> str:
    """What the docstring of a settings class says about one of its fields."""
    document = inspect.cleandoc(config.__doc__ or "")
    found = re.search(rf"^    {name}: (.*?)(?=^    \S|^\S|\Z)", document, re.M | re.S)
    return " ".join(found[1].split()) if found else ""


def write_settings(path: Path) -> None:
    """Write the page of settings: name, meaning, value in each preset."""
    from covary.config import ExperimentConfig, FitConfig

    names = ("mlp", "regression", "deep", "resnet", "layers", "layers-equivariant")
    presets = [FitConfig.preset(name) for name in names]
    columns = " | ".join(f"`{name}`" for name in names)
    head = [f"| setting | meaning | {columns} |", "|---|---|" + "---|" * len(names)]
    experiment = [
        f"| `{field.name}` | {_cell(_argument(ExperimentConfig, field.name))} | `{_default(field)}` |"
        for field in fields(ExperimentConfig)
        if field.name != "fit"
    ]
    text = [
        "# Settings",
        "",
        "## Training",
        "",
        "Fields of {py:obj}`covary.FitConfig`, by the name in TOML files and in `--set NAME=VALUE`, and their value in",
        "each preset. `None` as a learning rate of a group means that of `hyper.lr`.",
        "",
        *head,
        *_settings_rows(FitConfig, presets),
        "",
        "## Experiments",
        "",
        "Fields of {py:obj}`covary.config.ExperimentConfig`, which `covary discover` and `covary layers` add to these.",
        "",
        "| setting | meaning | default |",
        "|---|---|---|",
        *experiment,
        "",
    ]
    _write(path, "\n".join(text))


def _default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else ""


def _generate(app: "Sphinx") -> None:
    folder = Path(app.srcdir) / "reference"
    write_api(folder / "api")
    write_commands(folder / "commands.md")
    write_settings(folder / "settings.md")


def setup(app: "Sphinx") -> dict[str, Any]:
    """Write the pages when the build begins."""
    app.connect("builder-inited", _generate)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
