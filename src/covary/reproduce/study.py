"""The arguments that every study has, and claims that several studies make."""

from pathlib import Path
from typing import NamedTuple

from .._types import Progress
from ..records import Claim


def _silent(message: str, done: float) -> None:
    del message, done


class Request(NamedTuple):
    """The arguments of a study.

    Arguments:
        scale: "smoke" (seconds), "cpu" (two cores) or "paper".
        seed: The seed of data, initial weights and training; the first one if a study has several.
        data_dir: The folder that is searched first for data sets.
        progress: Called with the current step and the fraction of the study that is done.
        folder: The folder of finished cells, from which an interrupted study is resumed; None to keep none.
    """

    scale: str = "cpu"
    seed: int = 0
    data_dir: Path | None = None
    progress: Progress = _silent
    folder: Path | None = None

    def within(self, start: float, end: float) -> "Request":
        """The request of a part of the study, whose progress runs from `start` to `end` of the whole."""
        return self._replace(progress=lambda message, done: self.progress(message, start + (end - start) * done))


def above(sentence: str, value: float, bar: float) -> Claim:
    """The claim that an accuracy is above a bar, both in [0, 1]."""
    return Claim(sentence, f"> {100 * bar:.2f} %", f"{100 * value:.2f} %", value > bar)


def below(sentence: str, value: float, bar: float) -> Claim:
    """The claim that a test loss is below a bar, both in nats per datum."""
    return Claim(sentence, f"< {bar:.3f}", f"{value:.3f}", value < bar)
