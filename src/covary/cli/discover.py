"""`covary discover`: which transforms do the labels of a data set ignore?"""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group

from .._errors import CovaryError
from ..config import BASELINES, DiscoverConfig
from ..networks import NAMES as NETWORKS
from ..records import Run
from ..report import evidence_table, metrics_table, summary, symmetries_table
from ..studies import AUGMENTATIONS, Plan, plan, prepared
from ..studies import discover as discover_symmetries
from ..training import is_first, process_group
from .app import app
from .output import Json, echo_json, table

__all__ = ["discover"]

_DISCOVER = DiscoverConfig()
_FIT = _DISCOVER.fit


@app.command()
def discover(
    data: Annotated[
        str, typer.Option(help="A name, an .npz, a folder of class folders, or package.module:function.")
    ] = _DISCOVER.data,
    data_dir: Annotated[str | None, typer.Option(help="Where to look first for data sets.")] = None,
    symmetrise: Annotated[
        str, typer.Option(help="A known symmetry: rotate:DEG, translate:PIXELS, scale:FACTOR.")
    ] = "none",
    limit: Annotated[int | None, typer.Option(help="How many training images to use.")] = None,
    network: Annotated[str, typer.Option(help=f"One of: {', '.join(NETWORKS)}.")] = _DISCOVER.network,
    augment: Annotated[str, typer.Option(help=f"One of: {', '.join(AUGMENTATIONS)}.")] = _DISCOVER.augment,
    samples: Annotated[
        int, typer.Option(help="Copies of each image in weight steps and the test.")
    ] = _DISCOVER.num_samples,
    prior: Annotated[
        str, typer.Option(help="One precision per: scalar (all), layerwise (tensor), diagonal (weight).")
    ] = _DISCOVER.prior,
    baselines: Annotated[str, typer.Option(help=f"Compare with, joined by commas: {', '.join(BASELINES)}.")] = "",
    fixed_widths: Annotated[
        str, typer.Option(help="Widths of the baseline 'fixed', such as rotation=1.57,shift_x=0.1.")
    ] = "",
    epochs: Annotated[int, typer.Option(help="Passes over the training data.")] = _FIT.epochs,
    batch_size: Annotated[int, typer.Option(help="Images in a weight step.")] = _FIT.batch_size,
    optimiser: Annotated[str, typer.Option(help="adam or sgd.")] = _FIT.optimiser,
    learning_rate: Annotated[
        float, typer.Option(help="The weights' rate; it falls along a cosine.")
    ] = _FIT.learning_rate,
    burn_in: Annotated[int, typer.Option(help="Epochs before the first hyper step.")] = _FIT.burn_in,
    frequency: Annotated[int, typer.Option(help="A hyper step every so many epochs.")] = _FIT.frequency,
    estimator: Annotated[str, typer.Option(help="two_pass, or stochastic (a bound, few images).")] = _FIT.estimator,
    curvature: Annotated[str, typer.Option(help="kron, full or diag.")] = _FIT.curvature,
    columns: Annotated[str, typer.Option(help="Sketches in the hyper-gradient, or exact.")] = str(_FIT.columns),
    hyper_data: Annotated[
        int | None, typer.Option(help="Images that each step on the augmentation reads.")
    ] = _FIT.hyper_data,
    hyper_samples: Annotated[
        int | None, typer.Option(help="Copies of each image in hyper steps.")
    ] = _FIT.hyper_samples,
    hyper_steps: Annotated[
        int, typer.Option(help="Steps on the augmentation per pass over all images.")
    ] = _FIT.hyper_steps,
    prior_steps: Annotated[int, typer.Option(help="Steps on the prior per pass over all images.")] = _FIT.prior_steps,
    augment_rate: Annotated[
        float, typer.Option(help="The augmentation's first rate; it falls along a cosine.")
    ] = _FIT.augment_rate,
    prior_rate: Annotated[
        float, typer.Option(help="The prior's first rate; it falls along a cosine.")
    ] = _FIT.prior_rate,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = _DISCOVER.dtype,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="The folder for records, network and report.")] = Path("runs/latest"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run in that folder.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Print what the run would need, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Learn which transforms the labels of a data set ignore, and a network that ignores them.

    Writes `run.json`, `model.safetensors`, `augment.json` and `report.html`, in the place of a complete run that is
    there. With `--resume` a run that was stopped goes on, and a complete one is shown again. Several processes:
    `torchrun --nproc-per-node=2 -m covary discover ...`.

    Examples: `covary discover --symmetrise rotate:180 --baselines plain`, `covary discover --data photos/ --network
    resnet-8-16 --augment flips+affine --plan`, `covary discover --data my_package.my_module:load --resume`.
    """
    fit = replace(
        _FIT,
        epochs=epochs,
        batch_size=batch_size,
        optimiser=optimiser,
        learning_rate=learning_rate,
        burn_in=burn_in,
        frequency=frequency,
        estimator=estimator,
        curvature=curvature,
        columns=_columns(columns),
        hyper_data=hyper_data,
        hyper_samples=hyper_samples,
        hyper_steps=hyper_steps,
        prior_steps=prior_steps,
        augment_rate=augment_rate,
        prior_rate=prior_rate,
        seed=seed,
    )
    config = DiscoverConfig(
        data=data,
        data_dir=data_dir,
        symmetrise=symmetrise,
        limit=limit,
        network=network,
        augment=augment,
        num_samples=samples,
        prior=prior,
        baselines=tuple(dict.fromkeys(name.strip() for name in baselines.split(",") if name.strip())),
        fixed_widths=_widths(fixed_widths),
        dtype=dtype,
        fit=fit,
    )
    if plan_only:  # before any group: each process would plan for itself
        if int(os.environ.get("RANK", "0")) == 0:
            _print_plan(plan(config, prepared(config)), as_json)
        return
    with process_group():
        run = discover_symmetries(config, out, resume=resume)
        if is_first():
            _print_run(run, out, as_json)


def _columns(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _widths(text: str) -> dict[str, float]:
    """Widths by name, from name=number joined by commas."""
    widths = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        try:
            widths[name.strip()] = float(number)
        except ValueError as error:
            raise CovaryError(f"a width is name=number, such as rotation=1.57; '{part}' came.") from error
    return widths


def _print_run(run: Run, out: Path, as_json: bool) -> None:
    if as_json:
        shown = ("title", "symmetries", "evidence", "test", "baselines", "true_widths", "seconds")
        echo_json({name: value for name, value in asdict(run).items() if name in shown} | {"out": str(out)})
        return
    tested = [metrics_table(run)] if run.test else []
    Console().print(Group(symmetries_table(run), summary(run), evidence_table(run), *tested))
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
    Console().print(Group(table(needs.factors), table(rows)))
    typer.echo("It fits in memory." if fits else "It does not fit in memory, and would be refused.")


def _sizes(needs: Plan) -> dict[str, int]:
    return {
        "data": needs.data_bytes,
        "weights, gradients, moments": needs.weight_bytes,
        "factors": needs.factor_bytes,
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
