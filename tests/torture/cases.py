"""The commands that are tortured, the smallest ones that do everything, and whether two results are the same."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from covary.config import FitConfig
from covary.data import limited, load
from covary.experiments import discover
from covary.records import Study, verify
from covary.report import page
from covary.reproduce.figures import STUDY_FIGURES
from covary.reproduce.paper1 import recover

OUT = "run"
DISCOVER = (
    *("discover", "--network", "mlp:4", "--num-samples", "2", "--epochs", "4", "--baselines", "plain"),
    *("--set", "hyper.burn_in=1", "--set", "hyper.num_steps=2", "--set", "hyper.num_samples=2"),
    *("--set", "hyper.num_prior_steps=2", "--set", "weights.batch_size=20", "--set", "dtype=float64"),
)
LAYERS = (
    *("layers", "--alpha", "1", "--variant", "fc+conv", "--epochs", "5", "--prune", "0.5", "--set", "size=4"),
    *("--set", "weights.warmup_epochs=1", "--set", "hyper.burn_in=1", "--set", "hyper.every=2"),
    *("--set", "hyper.num_prior_steps=2", "--set", "weights.batch_size=20"),
)
STUDY = ("reproduce", "recover", "--scale", "smoke")


class Blank(NamedTuple):
    """A figure of a report that is not drawn."""

    svg: str = ""
    label: str = ""
    caption: str = ""


class Case(NamedTuple):
    """A command, and the folders of its undisturbed result and of that with another seed."""

    name: str
    arguments: tuple[str, ...]
    reference: Path
    other: Path

    @property
    def command(self) -> tuple[str, ...]:
        """The command line."""
        return (*self.arguments, "--out", OUT)


def prepare(work: Path) -> dict[str, Case]:
    """Write the data, make what is only drawn cheap, and return the commands by name."""
    work.mkdir(parents=True, exist_ok=True)
    assert discover.__kwdefaults__ is not None
    discover.__kwdefaults__["checkpoint_every"] = 1  # so that few epochs write, keep and remove checkpoints
    _write_bars(work / "bars.npz")
    digits = limited(load("mnist-mini"), 44, seed=0)
    tests = slice(0, 10)
    parts = {"x_train": digits.x_train[..., ::2, ::2], "y_train": digits.y_train}
    parts |= {"x_test": digits.x_test[tests, ..., ::2, ::2], "y_test": digits.y_test[tests]}
    np.savez(work / "digits.npz", **{name: tensor.numpy() for name, tensor in parts.items()})
    hyper = {"burn_in": 1, "every": 1, "num_data": 10, "num_samples": 2, "num_prior_steps": 2}
    settings = FitConfig().replace(epochs=2, hyper=hyper, evaluation={"num_error_data": 0})
    recover.SCALES["smoke"] = recover.Scale(str(work / "digits.npz"), None, "mlp:4", 2, settings)
    STUDY_FIGURES["recover"] = {"figure": _drawn}
    page.__globals__["_figures"] = lambda run: defaultdict(Blank)  # the figures of a report touch no file
    bars = ("--data", str(work / "bars.npz"))
    commands = {"discover": (*DISCOVER, *bars), "layers": (*LAYERS, *bars), "study": STUDY}
    return {
        name: Case(name, command, work / f"{name}-0" / OUT, work / f"{name}-1" / OUT)
        for name, command in commands.items()
    }


def _drawn(study: Study) -> Figure:
    """A figure that is drawn at once, and another one with another seed."""
    figure = Figure()
    figure.text(0.5, 0.5, str(study.config["seed"]))
    return figure


def _write_bars(path: Path) -> None:
    """40 training and 20 test images of 6×6 pixels in two classes: bars that lie, bars that stand."""
    random, arrays = np.random.default_rng(0), {}
    for part, number in (("train", 40), ("test", 20)):
        labels = np.arange(number) % 2
        pixels = random.integers(0, 80, (number, 6, 6), dtype=np.uint8)
        for place, label in enumerate(labels):
            (pixels[place] if label else pixels[place].T)[2:4] += 170
        arrays |= {f"x_{part}": pixels, f"y_{part}": labels}
    np.savez(path, **arrays)


def difference(folder: Path, reference: Path) -> str:
    """How a finished run or study differs from the undisturbed one; empty if only times do."""
    names, expected = (_files(place) for place in (folder, reference))
    if names != expected:
        return f"files {sorted(names ^ expected)}"
    for name in sorted(names - {"report.html"}):  # which states times; its checksum is verified below
        one, two = (place / name for place in (folder, reference))
        same = _plain(one) == _plain(two) if name.endswith(".json") else one.read_bytes() == two.read_bytes()
        if not same:
            return f"content of {name}"
    wrong = [check.name for check in verify(folder) if check.state != "ok"]
    return f"checksums of {wrong}" if wrong else ""


def _files(folder: Path) -> set[str]:
    """The files of a folder and of those below it, such as the cells of a study."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _plain(path: Path) -> Any:
    return _without_times(json.loads(path.read_text(encoding="utf-8")))


def _without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        times = ("sha256", "seconds", "timings")
        kept = {name: entry for name, entry in value.items() if name not in times and not name.startswith("cells/")}
        return {name: _without_times(entry) for name, entry in kept.items()}
    return [_without_times(entry) for entry in value] if isinstance(value, list) else value
