"""`covary discover` and `covary layers`: a run with the settings of a preset, a file, flags and `--set`."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..config import BASELINES, ExperimentConfig, FitConfig, discover_config, layers_config, parse_setting
from ..config.settings import check_choice, names_of
from ..errors import CovaryError
from ..records import RunRecord
from .estimate import print_estimate
from .output import echo_json
from .terminal import echo, echo_line, show

# What the registries of data, networks and experiments know, for help and completion without torch.
STARTS = ("free", "equivariant", "best")
DATA_NAMES = ("mnist-mini", "mnist", "fashion-mnist", "cifar-10", "cifar-100")
NETWORK_NAMES = (
    *("mlp", "mlp:WIDTH[-WIDTH…]", "cnn", "lenet", "resnet-DEPTH-WIDTH"),
    *("relaxed:VARIANT:ALPHA[:LENGTH_SCALE]", "package.module:function"),
)
AUGMENTATION_NAMES = (
    *("affine", "affine:NAME,NAME…", "correlated[:NAME,…]", "color[:NAME,…]"),
    *("flips", "quarter-turns", "dihedral", "one+another"),
)
TASK_NAMES = ("none", "digit", "quadrant")
VARIANT_NAMES = (
    *("fc", "conv", "f-fc", "fc+conv", "f-fc+conv", "s-conv", "s-fc", "s-fc+s-conv", "f-fc+conv+gconv"),
    *("gconv-full", "gconv-separable", "gconv-depthwise", "gconv-pointwise"),
)
VARIANT, ALPHA = "f-fc+conv", 4
RELAXATION = 0.3  # of --start equivariant; `--set relaxation=0.1` has precedence
LONGEST_CONFIG = 1_000_000  # bytes; /dev/zero never ends
RECORDED = (
    *("title", "symmetries", "layers", "pruned", "evidence", "test", "baselines", "true_widths", "roles", "seconds"),
)


def _option(
    panel: str, text: str, *names: str, default: str | bool = True, offered: Callable[[], Sequence[str]] | None = None
) -> Any:
    """An option in a panel of the help; its default is shown, or is said there in words."""
    completion = None if offered is None else lambda: list(offered())
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=default, autocompletion=completion)


def _concrete(names: Sequence[str]) -> list[str]:
    """Names that can be completed: those without a part for the user to choose."""
    return [name for name in names if not any(letter.isupper() or letter in "[+…" for letter in name)]


def _setting_names() -> list[str]:
    """The names of all settings; those of training are named without "fit"."""
    return [name for name in names_of(ExperimentConfig()) if name.partition(".")[0] != "fit"] + names_of(FitConfig())


Data = Annotated[
    str | None,
    _option(
        "Data",
        f"One of {', '.join(DATA_NAMES)}; an .npz, a folder of class folders, or package.module:function.",
        default="mnist-mini",
        offered=lambda: DATA_NAMES,
    ),
]
DataDir = Annotated[str | None, _option("Data", "The folder that is searched first for data sets.")]
Symmetrize = Annotated[
    str | None, _option("Data", "A known symmetry to add: rotate:DEGREES, translate:PIXELS or scale:FACTOR.")
]
NumTrain = Annotated[int | None, _option("Data", "Number of training images, drawn by the seed.", default="all")]
Task = Annotated[
    str | None,
    _option(
        "Data",
        f"Each image in a random quadrant of a canvas: {', '.join(TASK_NAMES)}.",
        default="none",
        offered=lambda: TASK_NAMES,
    ),
]
Network = Annotated[
    str | None,
    _option(
        "Network",
        f"One of {', '.join(NETWORK_NAMES)}.",
        default="mlp",
        offered=lambda: [*_concrete(NETWORK_NAMES), "resnet-8-16"],
    ),
]
Augment = Annotated[
    str | None,
    _option(
        "Network",
        f"The augmentation to learn: none, {', '.join(AUGMENTATION_NAMES)}.",
        default="affine",
        offered=lambda: ["none", *_concrete(AUGMENTATION_NAMES)],
    ),
]
NumSamples = Annotated[int | None, _option("Network", "Augmentation samples per image.", default="8")]
Variant = Annotated[
    str | None,
    _option(
        "Network",
        f"The paths of each layer: {', '.join(VARIANT_NAMES)}.",
        default=VARIANT,
        offered=lambda: VARIANT_NAMES,
    ),
]
Alpha = Annotated[
    int | None, _option("Network", "The width of the network: channels of its first layer.", default=str(ALPHA))
]
Start = Annotated[
    str | None,
    _option(
        "Network",
        f"Where layers start: {', '.join(STARTS)}; best makes a short run from both ends and goes on by the evidence.",
        default="free",
        offered=lambda: STARTS,
    ),
]
Epochs = Annotated[int | None, _option("Training", "Passes over the training images.", default="40; of layers 50")]
Seed = Annotated[int | None, _option("Training", "The seed of everything random.", default="0")]
Device = Annotated[
    str | None,
    _option("Training", "auto, cpu, cuda or cuda:N.", default="auto", offered=lambda: ("auto", "cpu", "cuda")),
]
Baselines = Annotated[
    str | None,
    _option("Training", f"Other trainings to compare with, joined by commas: {', '.join(BASELINES)}.", default="none"),
]
Equal = Annotated[str | None, _option("Training", "What baselines have as much of: epochs or time.", default="epochs")]
Prune = Annotated[float | None, _option("Training", "Remove paths with less than this share afterwards, such as 0.01.")]
ConfigFile = Annotated[Path | None, _option("Settings", "A TOML file with settings.", "--config")]
Set = Annotated[
    list[str] | None,
    _option(
        "Settings",
        "NAME=VALUE of any setting, such as hyper.lr=0.05; repeatable.",
        "--set",
        offered=lambda: [f"{name}=" for name in _setting_names()],
    ),
]
PrintConfig = Annotated[
    bool, _option("Settings", "Print every setting as TOML, for --config, and exit.", "--print-config")
]
Out = Annotated[Path, _option("Output", "The folder for record, network and report.")]
Resume = Annotated[bool, _option("Output", "Continue the interrupted run in that folder.", "--resume")]
Overwrite = Annotated[bool, _option("Output", "Replace the run in that folder, complete or not.", "--overwrite")]
AsJson = Annotated[bool, _option("Output", "Print JSON instead of tables.", "--json")]
Estimate = Annotated[bool, _option("Output", "Print the estimated memory and time, and exit.", "--estimate")]


def discover(
    data: Data = None,
    data_dir: DataDir = None,
    symmetrize: Symmetrize = None,
    num_train: NumTrain = None,
    network: Network = None,
    augment: Augment = None,
    num_samples: NumSamples = None,
    epochs: Epochs = None,
    seed: Seed = None,
    device: Device = None,
    baselines: Baselines = None,
    equal: Equal = None,
    config: ConfigFile = None,
    settings: Set = None,
    print_config: PrintConfig = False,
    out: Out = Path("runs/latest"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    estimate: Estimate = False,
    as_json: AsJson = False,
) -> None:
    """Learn which transforms the labels of a data set ignore, and a network that ignores them.

    Writes `run.json`, `model.safetensors`, `augment.json` and `report.html`. `--resume` continues an interrupted run,
    `--overwrite` replaces the run in the folder. Several processes: `torchrun --nproc-per-node=2 -m covary discover`.

    These are the everyday flags; `--print-config` prints all settings, which the documentation describes. Precedence,
    from the lowest: preset, `--config`, flags, `--set`. With `--equal time` each baseline is trained a second time.

    **Examples**

    - `covary discover --symmetrize rotate:180 --baselines plain,trivialaugment --equal time`
    - `covary discover --data photos/ --network resnet-8-16 --augment flips+affine --estimate`
    - `covary discover --set hyper.lr=0.05 --set weights.batch_size=100 --print-config > run.toml`
    - `covary discover --config run.toml --resume`
    """
    _run(lambda given: discover_config(str(given.get("network", "mlp"))), locals())


def layers(
    data: Data = None,
    data_dir: DataDir = None,
    symmetrize: Symmetrize = None,
    num_train: NumTrain = None,
    task: Task = None,
    variant: Variant = None,
    alpha: Alpha = None,
    start: Start = None,
    epochs: Epochs = None,
    seed: Seed = None,
    device: Device = None,
    baselines: Baselines = None,
    prune: Prune = None,
    config: ConfigFile = None,
    settings: Set = None,
    print_config: PrintConfig = False,
    out: Out = Path("runs/latest"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    estimate: Estimate = False,
    as_json: AsJson = False,
) -> None:
    """Learn how equivariant each layer of a network should be.

    Each layer is a sum of paths, from free to equivariant, and the evidence selects by the priors which of them are
    active. Writes `run.json`, `model.safetensors` and `report.html`; several processes, `--resume`, `--overwrite` and
    settings work as in `covary discover`. `--set augment=affine` learns the invariance of the whole network in the same
    run.

    These are the everyday flags. `--print-config` prints all settings, and the documentation describes them on its page
    of settings. Precedence, from the lowest: preset, `--config`, flags, `--set`.

    **Examples**

    - `covary layers --task quadrant --num-train 4000`
    - `covary layers --data cifar-10 --baselines map,conv --prune 0.01 --set train_augment=flips+shifts`
    - `covary layers --variant s-fc+s-conv --estimate`
    - `covary layers --symmetrize rotate:180 --variant f-fc+conv+gconv --alpha 2 --start best`
    """
    _run(lambda given: layers_config(VARIANT, ALPHA, relaxation=given.get("relaxation", 1.0)), locals())


def _run(preset: Callable[[Mapping[str, Any]], ExperimentConfig], flags: Mapping[str, Any]) -> None:
    """Do what the flags of a command ask for: print the settings or the estimate, or run and print the result."""
    given = _given(flags)
    config = preset(given).replace(**given)
    if "variant" in flags and re.match(r"(mlp|cnn|lenet|resnet)\b", config.network):
        raise CovaryError(
            f"Expected a network of relaxed layers, such as 'relaxed:f-fc+conv:4', got '{config.network}'. Remove "
            "'network' from the settings, or use `covary discover`."
        )
    if flags["print_config"]:
        echo(config.to_toml(), nl=False)
    elif flags["estimate"]:
        print_estimate(config, flags["as_json"])
    else:
        _perform(config, flags)


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a file, in flags and in `--set`, by name; the later of these have precedence."""
    known = _setting_names()
    chosen = {name: value for name, value in flags.items() if name in known and value is not None}
    if "baselines" in chosen:
        chosen["baselines"] = [name for name in dict.fromkeys(chosen["baselines"].replace(" ", "").split(",")) if name]
    if (start := flags.get("start")) is not None:
        check_choice("start", start, STARTS)
        chosen["relaxation"] = RELAXATION if start == "equivariant" else 1.0
    variant, alpha = flags.get("variant"), flags.get("alpha")
    if variant is not None or alpha is not None:
        chosen["network"] = layers_config(variant or VARIANT, ALPHA if alpha is None else alpha).network
    return _from_file(flags["config"]) | chosen | dict(map(parse_setting, flags["settings"] or ()))


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    with path.open("rb") as file:
        content = file.read(LONGEST_CONFIG + 1)
    if len(content) > LONGEST_CONFIG:
        raise CovaryError(f"Expected a file of settings of at most {LONGEST_CONFIG:,} bytes, got more in '{path}'.")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, too
        raise CovaryError(f"'{path}' is not valid TOML: {error}.") from error


def _perform(config: ExperimentConfig, flags: Mapping[str, Any]) -> None:
    from .. import report
    from ..experiments import discover
    from ..training import is_first, process_group
    from .progress import progress_of

    out: Path = flags["out"]
    with process_group():
        if flags.get("start") == "best":
            config = _best(config)
        record = discover(config, out, resume=flags["resume"], overwrite=flags["overwrite"], callbacks=progress_of)
        if is_first():
            report.write_page(record, out / "report.html")
            _print_run(record, out, flags["as_json"])
            if record.problem is not None:
                echo_line(f"error: {record.problem}")
        if record.problem is not None:
            raise typer.Exit(1)


def _best(config: ExperimentConfig) -> ExperimentConfig:
    """The settings from the start whose short run has the higher evidence, which is printed."""
    from ..experiments import prepared
    from ..experiments.starts import best_start
    from ..training import is_first

    found = best_start(config, prepared(config))
    if is_first():
        evidences = ", ".join(f"{name} {value:.4f}" for name, value in found.evidences.items())
        echo_line(f"start: {found.name}, by the log evidence per datum of a short run from each end ({evidences})")
    return found.config


def _print_run(run: RunRecord, out: Path, as_json: bool) -> None:
    from rich.console import RenderableType
    from rich.text import Text

    from ..report import summary, tables

    if as_json:
        echo_json({name: value for name, value in asdict(run).items() if name in RECORDED} | {"out": str(out)})
        return
    shown: list[tuple[object, RenderableType]] = [
        (run.symmetries, tables.symmetries_table(run)),
        (run.layers, tables.layers_table(run)),
        (True, Text(summary(run))),
        (True, tables.evidence_table(run)),
        (run.test, tables.metrics_table(run)),
        (run.pruned, tables.pruning_table(run)),
        (run.roles.get("point"), tables.roles_table(run)),
    ]
    show(*(table for exists, table in shown if exists))
    echo(f"The report is in {out / 'report.html'}.")
