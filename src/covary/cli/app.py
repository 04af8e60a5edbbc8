"""The command `covary` itself: its commands, loaded on demand, its options, and how it ends."""

import contextlib
import errno
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import __version__
from .._text import meant
from ..errors import CovaryError, Interrupted
from ..memory import keep_memory_unless_told
from .terminal import echo, echo_line, prepare_streams

# Command -> the module of this package with its function, and its help in one line.
COMMANDS = {
    "discover": ("runs", "Learn which transforms the labels of a data set ignore."),
    "layers": ("runs", "Learn how equivariant each layer of a network should be."),
    "watch": ("watch", "Follow a run that another process trains."),
    "predict": ("saved", "Write the prediction and its uncertainty for each image or row."),
    "report": ("saved", "Draw the report of a saved run again."),
    "compare": ("saved", "Rank saved runs by their evidence."),
    "verify": ("saved", "Compare the files of a run or a study with their checksums."),
    "verdict": ("saved", "Decide for each symmetry of a saved run whether the data have it."),
    "export": ("export", "Write what was learned in the form that another program reads."),
    "geometry": ("saved", "Measure sharpness and evidence of a saved network in two parametrizations."),
    "reproduce": ("studies", "Reproduce a table or figure of the papers."),
    "bench": ("studies", "Measure time, memory, coverage and verdicts."),
    "data": ("data", "List, download and verify data sets."),
}


class Commands(TyperGroup):
    """The group of all commands: names and help are known at once, a command's module when it is resolved."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The name, the command itself instead of its entry in the help, and the remaining arguments."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if name is None or known is None else command(name), rest


def command(name: str) -> Any:
    """The command of this name, with all its options."""
    module, _ = COMMANDS[name]
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name)(getattr(import_module(f".{module}", __package__), name))
    return typer.main.get_command(single)


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")
for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command `covary` and exit; an error that the user can fix is one line, with exit code 2."""
    prepare_streams()
    keep_memory_unless_told()
    _ignore_matplotlibrc()
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = app(None if arguments is None else given, prog_name="covary", standalone_mode=False)
        if sys.stdout is not None:  # which it is where standard output is closed
            sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        _stop("stopped.", 130)
    except typer.TyperException as error:
        said = (error.format_message() or "Expected a command; `covary --help` lists them.").replace(
            "Value error, ", ""
        )
        context = getattr(error, "ctx", None)
        cure = _choice_meant(said) + _setting_meant(said, context) + _option_meant(said, context, given)
        _stop(said + cure, error.exit_code)
    except Interrupted as error:
        state = str(error).removesuffix("Resume to continue.")  # how in Python; commands have an option
        flag = "--resume in place of --overwrite" if "--overwrite" in given else "--resume"
        _stop(f"{state}Run the same command with {flag} to continue.", 128 + error.signal_number)
    except CovaryError as error:
        _stop(str(error), 2)
    except OSError as error:
        _stop(_system_error(error), 2)
    sys.exit(code if isinstance(code, int) else 0)


def _choice_meant(message: str) -> str:
    """The choice that a wrong value is like, after the message of an option with choices."""
    found = re.search(r"'([^']*)' is not one of (.*)\.$", message)
    return meant(found[1], re.findall(r"'([^']*)'", found[2])) if found else ""


def _setting_meant(message: str, context: Any) -> str:
    """The settings of the name of an option that a command with settings does not have, after the message."""
    found = re.match(r"No such option: --([\w-]+)", message)
    if found is None or context is None or all(parameter.name != "settings" for parameter in context.command.params):
        return ""
    if (context.command.name, found[1]) == ("layers", "network"):
        return ". Choose the layers by --variant, or use `covary discover` for another network."
    config = import_module("..config", __package__)
    known = config.settings.names_of(config.ExperimentConfig())
    same = [name for name in known if name.rpartition(".")[2] == found[1].replace("-", "_")]
    ways = " or ".join(f"--set {name.removeprefix('fit.')}=…" for name in same)
    return f"{'' if message.endswith('.') else '.'} It is a setting: {ways}." if same else ""


def _option_meant(message: str, context: Any, given: Sequence[str]) -> str:
    """What to write in place of an argument without its option, after the message."""
    found = re.match(r"Got unexpected extra argument\(?s?\)? \(([^\s)]+)", message)
    if found is None or context is None or found[1] not in given:
        return ""
    place = given.index(found[1])
    if place > 1 and given[place - 2] == "--set" and "=" not in given[place - 1]:
        return f". Write {given[place - 1]}={found[1]}."
    trains = any(parameter.name == "settings" for parameter in context.command.params)
    return f". Write --data {found[1]}." if trains and "--data" not in given else ""


def _ignore_matplotlibrc() -> None:
    """Import matplotlib from elsewhere if the working directory has settings for it, which may be a pipe or no text."""
    if os.path.lexists("matplotlibrc"):
        with contextlib.chdir(os.path.dirname(__file__)):
            import_module("matplotlib")


def _system_error(error: OSError) -> str:
    """The message for an error of the system with a file, or with standard output; raise any other again."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    if error.filename is None:
        if not full:
            raise error
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - Python would fail once more when it flushes at the end
        return f"The output cannot be written: {error.strerror}. Make space, or redirect it to another file."
    if error.errno == errno.EEXIST:
        return f"Expected a folder, got '{error.filename}', which is a file. Choose another path."
    if error.errno == errno.ENOTDIR:
        return f"Expected a folder above '{error.filename}', got a file. Choose another path."
    advice = "Make space, or choose another path." if full else "Choose another path."
    return f"'{error.filename}' cannot be read or written: {error.strerror}. {advice}"


def _print_version(wanted: bool) -> bool:
    if wanted:
        echo(f"covary {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def covary(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn the symmetries of your data while your network trains.

    Examples: `covary discover --symmetrize rotate:180`, `covary layers --task quadrant`, `covary report runs/latest`.
    `covary COMMAND --help` describes a command; `covary --install-completion` installs completion for your shell.
    """
    del show_version  # its callback has printed it and exited


def _warn(message: Warning | str, *_place: object, **_file: object) -> None:
    """Print one line on standard error, without the source line that Python would print."""
    echo_line(f"warning: {message}")


def _stop(message: str, code: int) -> NoReturn:
    """Print one line on standard error and exit."""
    echo_line(f"error: {message}")
    sys.exit(code)
