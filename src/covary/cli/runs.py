"""`covary discover` and `covary layers`: a run with the settings of a preset, a file, flags and `--set`."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from .._files import require_regular
from ..config import ExperimentConfig, discover_config, layers_config, parse_setting
from ..config.experiment import TaskName
from ..config.settings import check_choice
from ..errors import CovaryError
from ..records import RunRecord
from . import options
from .output import echo_json, print_rows
from .terminal import echo, echo_line, show
from .track import Track, tracked

LONGEST_CONFIG = 1_000_000  # bytes; /dev/zero never ends
RECORDED = (
    *("title", "symmetries", "layers", "pruned", "evidence", "test", "baselines", "true_widths", "roles", "seconds"),
)


def discover(
    data: options.Data = None,
    symmetrize: options.Symmetrize = None,
    num_train: options.NumTrain = None,
    network: options.Network = None,
    augment: options.Augment = None,
    num_samples: options.NumSamples = None,
    epochs: options.Epochs = None,
    seed: options.Seed = None,
    baselines: options.Baselines = None,
    out: options.Out = Path("runs/latest"),
    resume: options.Resume = False,
    estimate: options.Estimate = False,
    config: options.ConfigFile = None,
    settings: options.Set = None,
    print_config: options.PrintConfig = False,
    task: options.DiscoverTask = None,
    target: options.Target = None,
    keys: options.Keys = None,
    size: options.Size = None,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    precision: options.Precision = None,
    equal: options.Equal = None,
    overwrite: options.Overwrite = False,
    track: Track = None,
    as_json: options.AsJson = False,
) -> None:
    """Learn which transforms the labels of a data set ignore, and a network that ignores them.

    Writes `run.json`, `model.safetensors`, `augment.json` and `report.html`. `--resume` continues an interrupted run,
    `--overwrite` replaces the run in the folder. Several processes: `torchrun --nproc-per-node=2 -m covary discover`.

    The first panels have the everyday flags. `--print-config` prints all settings; the reference of the
    documentation and `help(covary.FitConfig)` in Python describe them.
    Precedence, from the lowest: preset, `--config`, flags, `--set`. `--equal time` trains each baseline a second time,
    for as long as the learned network. `--estimate` and `--print-config` write nothing.

    **Examples**

    - `covary discover --symmetrize rotate:180 --baselines plain,trivialaugment --equal time`
    - `covary discover --data photos/ --size 32 --network resnet-8-16 --augment flips+affine --estimate`
    - `covary discover --data beats.npz --keys ecg,beat --augment signal:shift,amplitude`
    - `covary discover --data houses.csv --task regression --target price --set test_share=0.2`
    - `covary discover --set hyper.lr=0.05 --set weights.batch_size=100 --print-config > run.toml`
    - `covary discover --config run.toml --resume`
    """
    _run(_discover_preset, locals())


def layers(
    data: options.Data = None,
    symmetrize: options.Symmetrize = None,
    num_train: options.NumTrain = None,
    task: options.Task = None,
    variant: options.Variant = None,
    alpha: options.Alpha = None,
    start: options.Start = None,
    epochs: options.Epochs = None,
    seed: options.Seed = None,
    baselines: options.Baselines = None,
    prune: options.Prune = None,
    out: options.Out = Path("runs/latest"),
    resume: options.Resume = False,
    estimate: options.Estimate = False,
    config: options.ConfigFile = None,
    settings: options.Set = None,
    print_config: options.PrintConfig = False,
    data_dir: options.DataDir = None,
    device: options.Device = None,
    precision: options.Precision = None,
    overwrite: options.Overwrite = False,
    track: Track = None,
    as_json: options.AsJson = False,
) -> None:
    """Learn how equivariant each layer of a network should be.

    Each layer is a sum of paths, from free to equivariant, and the evidence selects by the priors which of them are
    active. Writes `run.json`, `model.safetensors` and `report.html`; several processes, `--resume`, `--overwrite` and
    settings work as in `covary discover`. `--set augment=affine` learns the invariance of the whole network in the same
    run.

    The first panels have the everyday flags. `--print-config` prints all settings; the reference of the
    documentation and `help(covary.FitConfig)` in Python describe them.
    Precedence, from the lowest: preset, `--config`, flags, `--set`.

    **Examples**

    - `covary layers --task quadrant --num-train 4000`
    - `covary layers --data cifar-10 --baselines map,conv --prune 0.01 --set train_augment=flips+shifts`
    - `covary layers --variant s-fc+s-conv --estimate`
    - `covary layers --symmetrize rotate:180 --variant f-fc+conv+gconv --alpha 2 --start best`
    """
    _run(_layers_preset, locals())


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


def _discover_preset(given: Mapping[str, Any]) -> ExperimentConfig:
    """The settings for the network, the task and the number of epochs that are named."""
    task: TaskName = "regression" if given.get("task") == "regression" else "none"
    return discover_config(str(given.get("network", "mlp")), task, given.get("epochs"))


def _layers_preset(given: Mapping[str, Any]) -> ExperimentConfig:
    return layers_config(
        options.VARIANT, options.ALPHA, relaxation=given.get("relaxation", 1.0), epochs=given.get("epochs")
    )


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a file, in flags and in `--set`, by name; the later of these have precedence."""
    known = options.setting_names()
    chosen = {name: value for name, value in flags.items() if name in known and value is not None}
    if "baselines" in chosen:
        chosen["baselines"] = [name for name in dict.fromkeys(chosen["baselines"].replace(" ", "").split(",")) if name]
    if (start := flags.get("start")) is not None:
        check_choice("start", start, options.STARTS)
        chosen["relaxation"] = options.RELAXATION if start == "equivariant" else 1.0
    for name in ("keys", "target"):
        if name in chosen:
            chosen[name] = [part.strip() for part in chosen[name].split(",") if part.strip()]
    if flags["precision"] is not None:
        chosen["weights.precision"] = flags["precision"]
    variant, alpha = flags.get("variant"), flags.get("alpha")
    if variant is not None or alpha is not None:
        chosen["network"] = layers_config(variant or options.VARIANT, options.ALPHA if alpha is None else alpha).network
    return _from_file(flags["config"]) | chosen | dict(map(parse_setting, flags["settings"] or ()))


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    require_regular(path)  # a pipe may never send anything
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
    from ..distributed import is_first, process_group
    from ..experiments import discover

    out: Path = flags["out"]
    with process_group():
        if flags.get("start") == "best":
            config = _best(config)
        if flags["resume"] and is_first() and not any((out / name).exists() for name in ("run.json", "checkpoints")):
            echo_line(f"There is no run in {out} to resume: a new one starts.")
        with tracked(flags["track"], config, out) as (callbacks, log):
            record = discover(config, out, resume=flags["resume"], overwrite=flags["overwrite"], callbacks=callbacks)
            log(record)
        if is_first():
            report.write_page(record, out / "report.html")
            _print_run(record, out, flags["as_json"])
            if record.problem is not None:
                echo_line(f"error: {record.problem}")
        if record.problem is not None:
            raise typer.Exit(1)


def _best(config: ExperimentConfig) -> ExperimentConfig:
    """The settings from the start whose short run has the higher evidence, which is printed."""
    from ..distributed import is_first
    from ..experiments import prepared
    from ..experiments.starts import best_start

    found = best_start(config, prepared(config))
    if is_first():
        evidences = ", ".join(f"{name} {value:.4f}" for name, value in found.evidences.items())
        echo_line(f"start: {found.name}, by the log evidence per datum of a short run from each end ({evidences})")
    return found.config


def _print_run(run: RunRecord, out: Path, as_json: bool) -> None:
    from rich.console import RenderableType
    from rich.text import Text

    from ..records.tables import layer_rows, no_errors_text, noise_text, role_rows
    from ..report import summary, tables

    if as_json:
        echo_json({name: value for name, value in asdict(run).items() if name in RECORDED} | {"out": str(out)})
        return
    shown: list[tuple[object, RenderableType]] = [
        (run.symmetries, tables.symmetries_table(run)),
        (no_errors_text(run), Text(no_errors_text(run))),
        (run.layers, tables.table(*layer_rows(run))),
        (True, Text(summary(replace(run, problem=None)))),  # the last line is the problem
        (run.evidence, tables.evidence_table(run)),
        ((run.symmetries or run.layers) and noise_text(run), Text(noise_text(run))),
        (run.test, tables.metrics_table(run)),
        (run.pruned, tables.pruning_table(run)),
        (run.roles.get("point"), tables.table(*role_rows(run))),
    ]
    show(*(table for exists, table in shown if exists))
    echo(f"The report is in {out / 'report.html'}.")


def print_estimate(config: ExperimentConfig, as_json: bool) -> None:
    """Print the estimated memory and, where the run fits, the estimated time; JSON has both at once."""
    from ..experiments import estimate_resources, prepared

    if int(os.environ.get("RANK", "0")) != 0:  # before any group: each process would estimate for itself
        return
    found = estimate_resources(config, prepared(config), None if as_json else _print_memory)
    if as_json:
        echo_json(asdict(found))
    elif found.seconds is not None:
        print_rows(_time_rows(found))


# `found` is a `ResourceEstimate`, whose module imports torch: the help must not.
def _print_memory(found: Any) -> None:
    print_rows(found.factors)
    print_rows(_memory_rows(found))
    fits = found.total_bytes <= found.available_bytes
    echo("It fits in memory." if fits else "It does not fit in memory, and the run would be refused.")
    if fits:
        echo("Measuring the time on this machine ...")


def _memory_rows(found: Any) -> list[dict[str, Any]]:
    sizes = {
        "data": found.data_bytes,
        "weights, gradients, moments": found.weight_bytes,
        "factors": found.factor_bytes,
        "kernels": found.kernel_bytes,
        "activations": found.activation_bytes,
        "total": found.total_bytes,
        "available": found.available_bytes,
    }
    return [
        {"what": "weights", "amount": f"{found.num_params:,}"},
        {"what": "images × samples", "amount": f"{found.num_data:,} × {found.num_samples}"},
        *({"what": name, "amount": f"{size / 2**20:,.0f} MiB"} for name, size in sizes.items()),
    ]


def _time_rows(found: Any) -> list[dict[str, Any]]:
    times = {
        "an epoch": found.epoch_seconds,
        "a hyper step": found.hyper_seconds,
        "an evaluation of the evidence": found.evaluation_seconds,
        "the whole run, about": found.seconds,
    }
    return [{"what": name, "time": f"{value:,.1f} s"} for name, value in times.items() if value is not None]
