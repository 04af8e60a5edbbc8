"""One run as a command does it: planned or made, then printed."""

import os
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console, Group, RenderableType

from ..config import ExperimentConfig
from ..experiments import Plan, discover, plan, prepared
from ..records import RunRecord
from ..report import (
    evidence_table,
    layers_table,
    metrics_table,
    pruning_table,
    summary,
    symmetries_table,
)
from ..training import is_first, process_group
from .flags import RunFlags
from .output import echo_json, print_rows

SHOWN = ("title", "symmetries", "layers", "pruned", "evidence", "test", "baselines", "true_widths", "seconds")


def perform(config: ExperimentConfig, flags: RunFlags) -> None:
    """Nothing; the run that the settings ask for is made and printed, or only its needs are."""
    if flags.plan_only:  # before any group: each process would plan for itself
        if int(os.environ.get("RANK", "0")) == 0:
            _print_plan(plan(config, prepared(config)), flags.as_json)
        return
    with process_group():
        run = discover(config, flags.out, resume=flags.resume)
        if is_first():
            _print_run(run, flags.out, flags.as_json)


def _print_run(run: RunRecord, out: Path, as_json: bool) -> None:
    if as_json:
        echo_json({name: value for name, value in asdict(run).items() if name in SHOWN} | {"out": str(out)})
        return
    parts: list[tuple[object, RenderableType]] = [
        (run.symmetries, symmetries_table(run)),
        (run.layers, layers_table(run)),
        (True, summary(run)),
        (True, evidence_table(run)),
        (run.test, metrics_table(run)),
        (run.pruned, pruning_table(run)),
    ]
    Console().print(Group(*(shown for there, shown in parts if there)))
    typer.echo(f"The report lies in {out / 'report.html'}.")


def _print_plan(needs: Plan, as_json: bool) -> None:
    if as_json:
        echo_json(asdict(needs))
        return
    fits = needs.total_bytes <= needs.available_bytes
    rows = [
        {"what": "weights", "amount": f"{needs.num_params:,}"},
        {"what": "images × copies", "amount": f"{needs.num_data:,} × {needs.num_samples}"},
        *({"what": name, "amount": f"{size / 2**20:,.0f} MiB"} for name, size in _sizes(needs).items()),
        *({"what": name, "amount": f"{value:,.1f} s"} for name, value in _times(needs).items() if value is not None),
    ]
    print_rows(needs.factors)
    print_rows(rows)
    typer.echo("It fits in memory." if fits else "It does not fit in memory, and would be refused.")


def _sizes(needs: Plan) -> dict[str, int]:
    return {
        "data": needs.data_bytes,
        "weights, gradients, moments": needs.weight_bytes,
        "factors": needs.factor_bytes,
        "kernels": needs.kernel_bytes,
        "activations": needs.activation_bytes,
        "in all": needs.total_bytes,
        "available": needs.available_bytes,
    }


def _times(needs: Plan) -> dict[str, float | None]:
    return {
        "an epoch": needs.epoch_seconds,
        "a hyper step": needs.hyper_seconds,
        "a judgement": needs.judge_seconds,
        "the whole run, about": needs.seconds,
    }
