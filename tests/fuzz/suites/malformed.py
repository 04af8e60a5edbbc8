"""Malformed flags, data, records, weights and settings: one line of error, no traceback, no hang, nothing executed."""

import contextlib
import faulthandler
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

import covary
from covary import cli
from covary._text import CONTROL
from covary.config import ExperimentConfig
from covary.errors import CovaryError
from fuzz import data_inputs, run_inputs
from fuzz.hostile import number
from fuzz.outcome import Row
from fuzz.run_inputs import QUICK

NUM_CASES = 2000
MOST_SECONDS = 60
SHADOWS = ("evil", "secrets", "base64", "csv", "jinja2", "colorsys", "graphlib", "unfinished")


def _of_data(source: Callable[[random.Random, Path], str]) -> Callable[[random.Random, Path], list[str]]:
    """Arguments of a command that reads malformed data."""

    def arguments(rng: random.Random, folder: Path) -> list[str]:
        data = source(rng, folder)
        commands = [
            ["discover", "--data", data, *QUICK, "--estimate"],
            ["discover", "--data", data, *QUICK, "--augment", "none", "--num-train", "10", "--out", "made"],
            ["predict", "run", "--data", data],
        ]
        if data in ("mnist", "cifar-10"):
            commands += [["data", "--data-dir", "data"], ["data", "--data-dir", "data", "--verify", "--json"]]
        else:
            commands += [["discover", "--data", data, *QUICK, "--num-train", number(rng), "--estimate"]]
        return rng.choice(commands)

    return arguments


KINDS: dict[str, Callable[[random.Random, Path], list[str]]] = {
    "flags": run_inputs.flags,
    "npz": _of_data(data_inputs.archive),
    "idx": _of_data(data_inputs.idx_files),
    "cifar": _of_data(data_inputs.cifar_files),
    "folders": _of_data(data_inputs.image_folder),
    "csv": data_inputs.table,
    "json": run_inputs.record,
    "beside": run_inputs.beside,
    "safetensors": run_inputs.weights,
    "toml": run_inputs.settings_file,
}


class Result(NamedTuple):
    """How a case ended: its arguments, exit code, output, seconds, and what fell short."""

    arguments: list[str]
    code: object
    text: str
    seconds: float
    failure: str | None


def run(num_cases: int, seed: int) -> Iterator[Row]:
    """A row for each kind of input, with an equal part of the cases."""
    with _workplace() as template:
        for kind in KINDS:
            failures, slowest = [], 0.0
            for case in range(num_cases // len(KINDS)):
                result = attempt(kind, case, seed, template)
                slowest = max(slowest, result.seconds)
                if result.failure is not None:
                    shown = " ".join(map(ascii, result.arguments))
                    failures.append(f"{kind}:{case} {result.failure:.300} | covary {shown:.300}")
            yield Row(kind, num_cases // len(KINDS), failures, slowest)


def show(case: str, seed: int) -> int:
    """Run one case and print everything about it."""
    kind, _, place = case.partition(":")
    with _workplace() as template:
        result = attempt(kind, int(place), seed, template)
    print(f"covary {' '.join(map(ascii, result.arguments))}\nexit code {result.code}, {result.seconds:.1f} s")
    print(f"{result.text}\n{result.failure or 'held'}")
    return 0 if result.failure is None else 1


def attempt(kind: str, case: int, seed: int, template: Path) -> Result:
    """The result of one case, in a folder of its own."""
    rng = random.Random(f"{seed}-{kind}-{case}")
    folder = template.with_name("case")
    shutil.copytree(template, folder, symlinks=True)
    try:
        with contextlib.chdir(folder), mock.patch.dict(os.environ, {"COVARY_DATA": str(folder / "data")}):
            arguments = KINDS[kind](rng, folder)
            return _ended(arguments, folder)
    finally:
        shutil.rmtree(folder)


def _ended(arguments: list[str], folder: Path) -> Result:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    started, code, problem = time.perf_counter(), None, None
    _started[0] = time.process_time()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(MOST_SECONDS)
    faulthandler.dump_traceback_later(2 * MOST_SECONDS, exit=True)  # where a signal is not looked at
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            code = _exit_code(arguments)
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
        streams[1].write(traceback.format_exc())
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    seconds = time.perf_counter() - started
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    documented = code in (0, 2) or (code == 1 and _says_problem(arguments, out, err))
    failure = _shortfall(code, out, err, folder) if documented else f"exit code {code}"
    return Result(arguments, code, out + err, seconds, problem or failure)


def _exit_code(arguments: list[str]) -> object:
    if arguments[0] == "load":  # the same files, from Python
        try:
            covary.load(arguments[1])
        except CovaryError as error:
            print(f"error: {error!a}", file=sys.stderr)
            return 2
        return 0
    try:
        cli.main(arguments)
    except SystemExit as ended:
        return ended.code
    return None


def _says_problem(arguments: list[str], out: str, err: str) -> bool:
    """Whether a command may end with 1: `discover` of a run that has a problem, `watch` of one that has or has stopped.

    What is in the folder and what is printed must both say so.
    """
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        if arguments[0] == "discover":
            return _errors(err) != [] and _stated(Path(arguments[arguments.index("--out") + 1])) == _errors(err)
        if arguments[0] == "watch":
            told = json.loads(out.splitlines()[-1]) if "--json" in arguments else {}
            run = Path(arguments[1]).parent if arguments[1].endswith("run.json") else Path(arguments[1])
            if _stated(run) is None:
                sentence = told["message"] if told else _errors(err)[0]
                return bool(re.fullmatch(r"The run in '.*' stopped .*; it continues with --resume\.", sentence))
            said = told["problem"] is not None if told else out.startswith("The run is complete")
            return said and _stated(run) != [] and not _errors(err)
    return False


def _stated(run: Path) -> list[str] | None:
    """The problem that the record of a complete run states, if any; None for a run that is not complete."""
    record = json.loads((run / "run.json").read_bytes()) if (run / "run.json").exists() else {"complete": False}
    if not record.get("complete", True) or (run / "checkpoints").exists():
        return None
    return [] if record["problem"] is None else [record["problem"]]


def _errors(err: str) -> list[str]:
    return [line.removeprefix("error: ") for line in err.splitlines() if line.startswith("error: ")]


def _shortfall(code: object, out: str, err: str, folder: Path) -> str | None:
    if found := [path.name for path in folder.parent.rglob("executed*")]:
        return f"executed {found}"
    if found := {letter for letter in CONTROL.findall(out + err) if letter not in "\n\t"}:
        return f"control characters {found} in the output"
    errors = _errors(err)
    if code == 2 and (len(errors) != 1 or len(errors[0]) > 2000):
        return f"expected one line that begins with error:, got {err[-200:]!r}"
    return "a traceback is in the output" if "Traceback" in err else None


def _too_long(*_: object) -> None:
    """Raise `TimeoutError` in a case that is blocked or endless; on a busy machine, one that works may go on."""
    seconds = time.process_time() - _started[0]
    if MOST_SECONDS / 20 < seconds < MOST_SECONDS:
        signal.alarm(MOST_SECONDS)
        return
    raise TimeoutError(f"more than {MOST_SECONDS} s")


_started = [0.0]


def _no_network(*_: object, **__: object) -> None:
    raise urllib.error.URLError("no network in this suite")


@contextlib.contextmanager
def _workplace() -> Iterator[Path]:
    """A folder with data, a run, an unfinished run, and modules that leave a file when they are executed."""
    with tempfile.TemporaryDirectory() as name, mock.patch.object(urllib.request, "urlopen", _no_network):
        template = Path(os.path.realpath(name)) / "template"
        template.mkdir()
        environment = {"XDG_CACHE_HOME": f"{name}/cache", "COLUMNS": "120"}
        with contextlib.chdir(template), mock.patch.dict(os.environ, environment):
            np.savez("bars.npz", **data_inputs.bars(random.Random(0)))
            (template / "link").symlink_to("bars.npz")
            quiet = contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO())
            with quiet[0], quiet[1]:
                made = ["discover", "--data", "bars.npz", *QUICK, "--augment", "affine:rotation", "--out", "run"]
                assert _exit_code(made) == 0
                shutil.copytree("run", "other")
                _leave_unfinished(template)
            for module in SHADOWS:
                place = template.parent / f"executed-{module}"
                (template / f"{module}.py").write_text(f"open({str(place)!r}, 'w').close()\n")
            yield template


def _leave_unfinished(template: Path) -> None:
    """A run that was interrupted after its second epoch, and the settings to continue it."""
    from covary.experiments import discover

    class Stop(covary.Callback):
        def on_epoch(self, epoch: covary.records.Epoch) -> None:
            if epoch.epoch == 2:
                raise KeyboardInterrupt

    config = ExperimentConfig(data="bars.npz", network="mlp:2", augment="none").replace(epochs=3)
    with contextlib.suppress(KeyboardInterrupt):
        discover(config, template / "unfinished", checkpoint_every=1, callbacks=lambda name: [Stop()])
    given = {name: getattr(config, name) for name in ("data", "network", "augment")} | {"epochs": 3}
    (template / "unfinished.toml").write_text("\n".join(f"{name} = {value!r}" for name, value in given.items()))
