"""The command `covary` itself: its options, and how it ends."""

import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from ..errors import CovaryError, Interrupted

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The process of the command `covary`: what a user can mend ends it with one line and exit code 2."""
    sys.path.insert(0, "")  # `package.module:function` may lie in the working directory, as for `python -m`
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = app(None if arguments is None else list(arguments), prog_name="covary", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        _stop("stopped.", 130)
    except typer.TyperException as error:
        _stop(error.format_message() or "give a command; `covary --help` lists them.", error.exit_code)
    except Interrupted as error:
        _stop(str(error), 128 + error.signal_number)
    except CovaryError as error:
        _stop(str(error), 2)
    except OSError as error:
        if error.filename is None:
            raise
        _stop(f"{error.filename} cannot be read or written: {error.strerror}. Name another place, or mend it.", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"covary {version('covary')}")
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
    """
    del show_version  # its callback has printed it and ended the process


def _warn(message: Warning | str, *_place: object, **_file: object) -> None:
    """One line on standard error, without the place in the code that Python would print."""
    typer.echo(f"warning: {' '.join(str(message).split())}", err=True)


def _stop(message: str, code: int) -> NoReturn:
    """The end of the process, after one line on standard error."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)
