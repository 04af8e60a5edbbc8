"""The command line as a function, and small images to give it."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from cli.outcomes import Outcome
from covary import cli, report
from covary.records.checksums import sealed_page

UNLEARNED = "warning: No width was learned: "


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """In the place of the fixture of this name: commands run in torch's own type and, for equal bits, one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path) -> Callable[..., Outcome]:
    """The command line in an empty working directory: arguments -> exit code, standard output, standard error."""
    monkeypatch.setenv("COVARY_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("covary.cli.progress.progress_of", lambda title: [])  # tests of their own are elsewhere
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])  # the command adds its own

    def call(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        printed = capsys.readouterr()
        # most commands here train for a few steps only, and say so; tests/training/test_collapse.py holds that line
        said = [line for line in printed.err.splitlines(keepends=True) if not line.startswith(UNLEARNED)]
        return Outcome(caught.value.code, printed.out, "".join(said))

    return call


@pytest.fixture
def images(tmp_path) -> Path:
    """An archive of 40 training and 20 test images of 6×6 pixels in two classes: bars that lie, bars that stand."""
    random = np.random.default_rng(0)
    arrays = {}
    for part, number in (("train", 40), ("test", 20)):
        labels = np.arange(number) % 2
        pixels = random.integers(0, 80, (number, 6, 6), dtype=np.uint8)
        for place, label in enumerate(labels):
            (pixels[place] if label else pixels[place].T)[2:4] += 170
        arrays |= {f"x_{part}": pixels, f"y_{part}": labels}
    np.savez(tmp_path / "bars.npz", **arrays)
    return tmp_path / "bars.npz"


@pytest.fixture
def quick(images) -> tuple[str, ...]:
    """The arguments of the smallest run that learns anything."""
    return (
        "--data",
        str(images),
        "--network",
        "mlp:4",
        "--num-samples",
        "2",
        "--epochs",
        "3",
        "--set",
        "hyper.burn_in=1",
        "--set",
        "evaluation.num_error_data=0",
    )


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Runs without the figures of their report, which take most of the time of a small one."""
    monkeypatch.setattr(
        report, "write_page", lambda record, path: path.write_text(sealed_page(record.title, asdict(record)))
    )


@pytest.fixture
def discovered(run, quick, undrawn) -> Callable[..., Path]:
    """A function of (folder, more arguments) to the folder of a run."""

    def call(folder: str, *arguments: str) -> Path:
        outcome = run("discover", *quick, "--out", folder, *arguments)
        assert outcome.code == 0, outcome.err
        return Path(folder)

    return call
