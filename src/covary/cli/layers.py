"""`covary layers`: how equivariant should each layer be?"""

from dataclasses import replace
from typing import Annotated

import typer

from ..config import layers_config
from ..networks.relaxed import LENGTH_SCALES, VARIANTS
from .flags import RunFlags, settings, with_run_flags
from .runs import perform

VARIANT, ALPHA = "f-fc+conv", 4


@with_run_flags(layers_config(VARIANT, ALPHA))
def layers(
    variant: Annotated[str, typer.Option(help=f"The paths of each layer, one of: {', '.join(VARIANTS)}.")] = VARIANT,
    alpha: Annotated[int, typer.Option(help="The width of the network: its first layer has so many channels.")] = ALPHA,
    length_scale: Annotated[
        str, typer.Option(help=f"Of the bases of sparse layers: {', '.join(LENGTH_SCALES)}.")
    ] = LENGTH_SCALES[0],
    relaxation: Annotated[
        float,
        typer.Option(help="The size at which all paths but the strict one start, weight by weight; 1: all alike."),
    ] = 1.0,
    prune: Annotated[
        float | None, typer.Option(help="Take out paths with less than this share, such as 0.01, and say what changed.")
    ] = None,
    *,
    flags: RunFlags,
) -> None:
    """Learn how equivariant each layer of a network should be, layer by layer.

    Each layer is a sum of paths, from free to strictly equivariant, and the evidence decides by the priors which of
    them it needs. Writes `run.json`, `model.safetensors` and `report.html`; resumes, plans and shares work as `covary
    discover` does. With `--augment affine` the invariance of the whole network is learned in the same run.

    Examples: `covary layers --task quadrant --num-train 4000`, `covary layers --data cifar-10 --train-augment
    flips+shifts --baselines map,conv --prune 0.01`, `covary layers --variant s-fc+s-conv --plan`.
    """
    base = replace(layers_config(variant, alpha, length_scale, relaxation), prune=prune)
    perform(settings(flags, base), flags)
