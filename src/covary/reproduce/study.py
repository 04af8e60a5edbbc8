"""The arguments that every study has, and claims that several studies make."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from .._types import Progress
from ..config import HyperConfig
from ..config.settings import check_choice
from ..errors import StructureError
from ..records import Claim, Study

# Steps as in paper 1: by Adam, one per minibatch, after a pass over all data, without a bound.
ADAM_STEPS = HyperConfig(
    estimator="two_pass",
    width_optimizer="adam",
    num_moves=1,
    max_width_change=100.0,
    num_samples=None,
    num_sets=1,
    num_steps=1,
    prior_lr=0.1,
)


def _silent(message: str, done: float) -> None:
    del message, done


class Options(NamedTuple):
    """What some studies let one choose; None, or no versions, leaves it to the scale.

    Arguments:
        data: The data set, by name.
        network: The network, by name.
        num_train: The number of training images.
        num_seeds: The number of seeds, from the first one on.
        versions: The versions of the data, by name.
        processes: How many networks are trained at once, with one thread each if there are several.
        epochs: The number of epochs.
        num_samples: The number of augmentation samples in weight steps.
        methods: The methods that are compared, by name.
    """

    data: str | None = None
    network: str | None = None
    num_train: int | None = None
    num_seeds: int | None = None
    versions: tuple[str, ...] = ()
    processes: int | None = None
    epochs: int | None = None
    num_samples: int | None = None
    methods: tuple[str, ...] = ()

    @property
    def given(self) -> list[str]:
        """The names of the options that were chosen."""
        return [name for name, value in self._asdict().items() if value not in (None, ())]


class Request(NamedTuple):
    """The arguments of a study.

    Arguments:
        scale: "smoke" (seconds), "cpu" (two cores), "full" (two cores for hours) or "paper".
        seed: The seed of data, initial weights and training; the first one if a study has several.
        data_dir: The folder that is searched first for data sets.
        progress: Called with the current step and the fraction of the study that is done.
        folder: The folder of finished cells, from which an interrupted study is resumed; None to keep none.
        options: What this study lets one choose.
    """

    scale: str = "cpu"
    seed: int = 0
    data_dir: Path | None = None
    progress: Progress = _silent
    folder: Path | None = None
    options: Options = Options()

    @property
    def name(self) -> str:
        """The options and the scale, as a part of the name of a folder."""
        chosen = self.options
        epochs = None if chosen.epochs is None else f"{chosen.epochs}-epochs"
        samples = None if chosen.num_samples is None else f"{chosen.num_samples}-samples"
        words = [chosen.data, chosen.network, chosen.num_train, self.scale, epochs, samples]
        return "-".join(str(word).replace(":", "-") for word in words if word is not None)

    def seeds(self, otherwise: int) -> range:
        """The seeds of the study: as many as were asked for, or as the scale has."""
        return range(self.seed, self.seed + (self.options.num_seeds or otherwise))

    def chosen_versions(self, known: Iterable[str]) -> tuple[str, ...]:
        """The versions that were asked for, in the order of the study; all by default."""
        return _chosen("versions", self.options.versions, known)

    def chosen_methods(self, known: Iterable[str]) -> tuple[str, ...]:
        """The methods that were asked for, in the order of the study; all by default."""
        return _chosen("methods", self.options.methods, known)

    def within(self, start: float, end: float) -> "Request":
        """The request of a part of the study, whose progress runs from `start` to `end` of the whole."""
        return self._replace(progress=lambda message, done: self.progress(message, start + (end - start) * done))


def _chosen(option: str, names: tuple[str, ...], known: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        check_choice(option, name, known)
    return tuple(name for name in known if not names or name in names)


class Entry(NamedTuple):
    """A study as a command knows it.

    Arguments:
        run: The study itself.
        options: The names of `Options` that it takes.
        scales: The scales that it has.
    """

    run: Callable[[Request], Study]
    options: tuple[str, ...] = ()
    scales: tuple[str, ...] = ("smoke", "cpu", "paper")

    def check(self, name: str, request: Request) -> None:
        """Raise `StructureError` for a scale that the study does not have, or an option that it does not take."""
        check_choice("scale", request.scale, self.scales)
        for option in request.options.given:
            if option not in self.options:
                known = ", ".join(f"--{known.replace('_', '-')}" for known in self.options) or "none of them"
                raise StructureError(
                    f"Expected options that the study '{name}' takes ({known}), got --{option.replace('_', '-')}. "
                    "Leave it out."
                )


def above(sentence: str, value: float, bar: float) -> Claim:
    """The claim that an accuracy is above a bar, both in [0, 1]."""
    return Claim(sentence, f"> {100 * bar:.2f} %", f"{100 * value:.2f} %", value > bar)


def below(sentence: str, value: float, bar: float) -> Claim:
    """The claim that a test loss is below a bar, both in nats per datum."""
    return Claim(sentence, f"< {bar:.3f}", f"{value:.3f}", value < bar)
