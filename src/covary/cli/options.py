"""The options of `covary discover` and `covary layers`: help, defaults in words, completion."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ..config import BASELINES, ExperimentConfig, FitConfig
from ..config.fit import WeightPrecision
from ..config.settings import names_of

# What the registries of data, networks and experiments know, for help and completion without torch.
DATA_NAMES = ("mnist-mini", "mnist", "fashion-mnist", "cifar-10", "cifar-100")
NETWORK_NAMES = (
    *("mlp", "mlp:WIDTH[-WIDTH…]", "cnn", "lenet", "resnet-DEPTH-WIDTH"),
    *("relaxed:VARIANT:ALPHA[:LENGTH_SCALE]", "package.module:function"),
)
AUGMENTATION_NAMES = (
    *("affine", "affine:NAME,NAME…", "correlated[:NAME,…]", "color[:NAME,…]"),
    *("flips", "quarter-turns", "dihedral"),
    *("signal[:NAME,…]", "points[:NAME,…]", "volume[:NAME,…]", "mirror[:NAME,…]", "one+another"),
)
TASK_NAMES = ("none", "digit", "quadrant")
DISCOVER_TASKS = ("none", "regression")
VARIANT_NAMES = (
    *("fc", "conv", "f-fc", "fc+conv", "f-fc+conv", "s-conv", "s-fc", "s-fc+s-conv", "f-fc+conv+gconv"),
    *("gconv-full", "gconv-separable", "gconv-depthwise", "gconv-pointwise"),
)
VARIANT, ALPHA = "f-fc+conv", 4
STARTS = ("free", "equivariant", "best")
LESS_COMMON = "Less common"  # the panel after those of the everyday flags
RELAXATION = 0.3  # of --start equivariant; `--set relaxation=0.1` has precedence


def _option(panel: str, text: str, *names: str, default: str | bool = True, offered: Sequence[str] = ()) -> Any:
    """An option in a panel of the help; its default is shown, or is said there in words."""
    completion = (lambda: list(offered)) if offered else None
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=default, autocompletion=completion)


def _concrete(names: Sequence[str]) -> list[str]:
    """Names that can be completed: those without a part for the user to choose."""
    return [name for name in names if not any(letter.isupper() or letter in "[+…" for letter in name)]


def setting_names() -> list[str]:
    """The names of all settings; those of training are named without "fit"."""
    return [name for name in names_of(ExperimentConfig()) if name.partition(".")[0] != "fit"] + names_of(FitConfig())


Data = Annotated[
    str | None,
    _option(
        "Data",
        f"One of {', '.join(DATA_NAMES)}; an .npz, a folder of class folders, a .csv, or package.module:function.",
        default="mnist-mini",
        offered=DATA_NAMES,
    ),
]
DataDir = Annotated[str | None, _option(LESS_COMMON, "The folder that is searched first for data sets.")]
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
        offered=TASK_NAMES,
    ),
]
DiscoverTask = Annotated[
    str | None,
    _option(LESS_COMMON, "What the labels are: none (classes) or regression.", default="none", offered=DISCOVER_TASKS),
]
Keys = Annotated[
    str | None,
    _option(
        LESS_COMMON, "Names of the arrays of an .npz, such as images,labels.", default="x_train,y_train,x_test,y_test"
    ),
]
Target = Annotated[str | None, _option(LESS_COMMON, "The column of a .csv to predict, or several joined by commas.")]
Size = Annotated[
    int | None,
    _option(LESS_COMMON, "The side of the square that images are resampled to; a folder may have any sizes."),
]
Network = Annotated[
    str | None,
    _option(
        "Network",
        f"One of {', '.join(NETWORK_NAMES)}.",
        default="mlp",
        offered=[*_concrete(NETWORK_NAMES), "resnet-8-16"],
    ),
]
Augment = Annotated[
    str | None,
    _option(
        "Network",
        f"The augmentation to learn: none, {', '.join(AUGMENTATION_NAMES)}.",
        default="affine",
        offered=["none", *_concrete(AUGMENTATION_NAMES)],
    ),
]
NumSamples = Annotated[int | None, _option("Network", "Augmentation samples per image.", default="8")]
Variant = Annotated[
    str | None,
    _option("Network", f"The paths of each layer: {', '.join(VARIANT_NAMES)}.", default=VARIANT, offered=VARIANT_NAMES),
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
        offered=STARTS,
    ),
]
Epochs = Annotated[int | None, _option("Training", "Passes over the training images.", default="40; of layers 50")]
Seed = Annotated[int | None, _option("Training", "The seed of everything random.", default="0")]
Device = Annotated[
    str | None,
    _option(LESS_COMMON, "auto, cpu, cuda, cuda:N or mps.", default="auto", offered=("auto", "cpu", "cuda", "mps")),
]
Precision = Annotated[
    str | None,
    _option(LESS_COMMON, "Of the weight steps: full or bf16.", default="full", offered=get_args(WeightPrecision)),
]
Baselines = Annotated[
    str | None,
    _option("Training", f"Other trainings to compare with, joined by commas: {', '.join(BASELINES)}.", default="none"),
]
Equal = Annotated[str | None, _option(LESS_COMMON, "What baselines have as much of: epochs or time.", default="epochs")]
Prune = Annotated[float | None, _option("Training", "Remove paths with less than this share afterwards, such as 0.01.")]
ConfigFile = Annotated[Path | None, _option("Settings", "A TOML file with settings.", "--config")]
Set = Annotated[
    list[str] | None,
    _option(
        "Settings",
        "NAME=VALUE of any setting, such as hyper.lr=0.05; repeatable.",
        "--set",
        offered=[f"{name}=" for name in setting_names()],
    ),
]
PrintConfig = Annotated[
    bool, _option("Settings", "Print every setting as TOML, for --config, and exit.", "--print-config")
]
Out = Annotated[Path, _option("Output", "The folder for record, network and report.")]
Resume = Annotated[bool, _option("Output", "Continue the interrupted run in that folder, or start one.", "--resume")]
Overwrite = Annotated[bool, _option(LESS_COMMON, "Replace the run in that folder, complete or not.", "--overwrite")]
AsJson = Annotated[bool, _option(LESS_COMMON, "Print JSON instead of tables.", "--json")]
Estimate = Annotated[bool, _option("Output", "Print the estimated memory and time, and exit.", "--estimate")]
