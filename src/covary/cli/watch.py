"""`covary watch`: follow a run that another process trains."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.live import Live
from rich.text import Text

from .._lock import writer_of
from .._text import plural
from ..errors import CovaryError
from ..records import RunRecord, read_run
from ..records.progress import LOG, Event, LogReader, Phase, Progress
from ..records.summary import summary
from . import output
from .terminal import echo, echo_line

CHECKPOINTS, RECORD, REPORT = "checkpoints", "run.json", "report.html"
SHORTEST, LONGEST = 0.05, 3600  # seconds
LINES = 10  # of a fit, about, where there is no terminal


def watch(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of checkpoints.", metavar="RUN")],
    interval: Annotated[float, typer.Option(help="Seconds from one look to the next.")] = 1.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per line: each phase and epoch.")
    ] = False,
) -> None:
    """Follow a run that another process trains, until it ends; say how a run ended.

    Shows phase, bar, epoch, evidence and time left; without a terminal about ten lines for each fit. Nothing is
    written, and the run is not disturbed. Exits with 0 if the run is complete, 1 if it was stopped or has a problem, 2
    if there is none.

    Examples: `covary watch runs/latest`, `covary watch runs/latest --json`.
    """
    if not SHORTEST <= interval <= LONGEST:  # not true of nan either
        raise CovaryError(f"Expected --interval to be between {SHORTEST} and {LONGEST} seconds, got {interval}.")
    run = run.parent if run.name == RECORD and run.is_file() else run
    _require_run(run)
    view = _JsonView() if as_json else _View()
    readers: dict[Path, LogReader] = {}
    with view:
        while True:
            active = writer_of(run) is not None  # before the look: what is written last is seen, too
            for path in _logs(run):
                reader = readers.setdefault(path, LogReader(path))
                view.show("" if path.parent == run else path.parent.name, reader.read())
            if not active:
                break
            time.sleep(interval)
    raise typer.Exit(_end(run, view))


def _require_run(run: Path) -> None:
    """Raise `CovaryError` if a folder has neither a run, complete or not, nor a process that is writing one."""
    found = [run / RECORD, run / CHECKPOINTS, run / LOG]
    if not any(path.exists() for path in found) and writer_of(run) is None:
        reason = "has no run" if run.is_dir() else "is a file" if run.exists() else "does not exist"
        raise CovaryError(f"'{run}' {reason}. Name the folder of a run, as `covary discover --out` does.")


def _logs(run: Path) -> list[Path]:
    """The logs of a run's fits, or of one that writes its checkpoints to the folder itself, the oldest first."""
    times = {}
    for path in [*run.glob(f"{CHECKPOINTS}/*/{LOG}"), run / LOG]:
        try:
            times[path] = path.stat().st_mtime
        except OSError:  # absent, or the run has just ended
            continue
    return sorted(times, key=times.__getitem__)


def _end(run: Path, view: "_View") -> int:
    """Say how a run has ended, and return the exit code."""
    if (run / RECORD).exists() and not (run / CHECKPOINTS).exists():
        record = read_run(run)
        if record.complete:
            view.complete(run, record)
            return 0 if record.problem is None else 1
    if (run / LOG).exists() and not (run / CHECKPOINTS).exists() and view.is_done(""):
        view.tell("complete", run, "The fit is complete.")
        return 0
    view.tell("stopped", run, f"The run in '{run}' stopped {view.place()}; it continues with --resume.")
    return 1


class _View:
    """Progress for a person: a line on a terminal that changes, or lines of a log; then how it ended."""

    def __init__(self) -> None:
        self.fits: dict[str, Progress] = {}
        self.current, self.seen, self.printed = "", time.monotonic(), -1
        self.live: Live | None = None

    def __enter__(self) -> "_View":
        if output.CONSOLE.is_terminal:
            self.live = Live(console=output.CONSOLE, transient=True, refresh_per_second=4, get_renderable=self._line)
            self.live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, fit: str, events: list[Event]) -> None:
        """Show what happened in a fit."""
        for event in events:
            self._follow(fit, event)
        if events and self.live is None:
            progress = self.fits[fit]
            part = -1 if progress.last is None else progress.last.epoch * LINES // max(progress.num_epochs, 1)
            if progress.last is not None and (part != self.printed or progress.phase == "testing"):
                echo(progress.log_line())
                self.printed = part

    def _follow(self, fit: str, event: Event) -> None:
        if event.event == "start" or fit not in self.fits:
            self.fits[fit] = Progress(fit, event.num_epochs or 0)
            self.printed = -1
        progress = self.fits[fit]
        if event.phase in ("training", "evaluating", "testing"):
            progress.phase = cast(Phase, event.phase)
        if event.epoch is not None:
            progress.note(event.epoch)
            progress.elapsed = event.epoch.seconds
            progress.left = progress.elapsed * (progress.num_epochs / max(progress.epoch, 1) - 1)
        self.current, self.seen = fit, time.monotonic()

    def _line(self) -> Text:
        progress, width = self.fits.get(self.current), output.CONSOLE.width - 1
        if progress is None:
            return Text("waiting for the first epoch", no_wrap=True)
        since = time.monotonic() - self.seen
        left = None if progress.left is None else max(progress.left - since, 0.0)
        return Text(replace(progress, elapsed=progress.elapsed + since, left=left).bar(width), no_wrap=True)

    def is_done(self, fit: str) -> bool:
        """Whether all epochs of a fit are complete."""
        progress = self.fits.get(fit)
        return progress is not None and progress.epochs == progress.num_epochs

    def place(self) -> str:
        """Where the fit that was followed last is."""
        progress = self.fits.get(self.current)
        if progress is None:
            return "before its first epoch"
        return f"in epoch {min(progress.epoch + 1, progress.num_epochs)} of {progress.num_epochs}" + (
            f" of '{self.current}'" if self.current else ""
        )

    def complete(self, run: Path, record: RunRecord) -> None:
        """Say what a complete run has learned."""
        self.tell(
            "complete", run, f"The run is complete: {plural(len(record.history), 'epoch')} in {record.seconds:.0f} s."
        )
        echo(summary(record))
        if (run / REPORT).exists():
            echo(f"The report is in {run / REPORT}.")

    def tell(self, state: str, run: Path, sentence: str) -> None:
        """Say how the run ended."""
        del run
        if state == "complete":
            echo(sentence)
        else:
            echo_line(f"error: {sentence}")


class _JsonView(_View):
    """Progress for a machine: each event as a JSON object on a line, the last of which is the end."""

    def __enter__(self) -> "_JsonView":
        return self

    def show(self, fit: str, events: list[Event]) -> None:
        """Print the events."""
        for event in events:
            self._follow(fit, event)
            _print_json({"fit": fit, **event.plain()})

    def complete(self, run: Path, record: RunRecord) -> None:
        """Print the epochs that were not seen, and the end with evidence and problem."""
        seen = self.fits.get("learn")
        for epoch in record.history:
            if seen is None or epoch.epoch > seen.epochs:
                _print_json({"fit": "learn", **Event("epoch", epoch=epoch).plain()})
        evidence = record.evidence and record.evidence.log_evidence
        _print_json(
            {"event": "end", "state": "complete", "run": str(run), "log_evidence": evidence, "problem": record.problem}
        )

    def tell(self, state: str, run: Path, sentence: str) -> None:
        """Print the end."""
        _print_json({"event": "end", "state": state, "run": str(run), "message": sentence})


def _print_json(value: Mapping[str, Any]) -> None:
    echo(json.dumps(value, allow_nan=False))
