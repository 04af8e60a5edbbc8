"""`covary discover`: which transforms do the labels of a data set ignore?"""

from dataclasses import replace
from typing import Annotated

import typer

from ..config import ExperimentConfig
from ..networks.named import NAMES as NETWORKS
from .flags import RunFlags, settings, with_run_flags
from .runs import perform

_DISCOVER = ExperimentConfig()


@with_run_flags(_DISCOVER)
def discover(
    network: Annotated[str, typer.Option(help=f"One of: {', '.join(NETWORKS)}.")] = _DISCOVER.network,
    *,
    flags: RunFlags,
) -> None:
    """Learn which transforms the labels of a data set ignore, and a network that ignores them.

    Writes `run.json`, `model.safetensors`, `augment.json` and `report.html`, in the place of a complete run that is
    there. With `--resume` a run that was stopped goes on, and a complete one is shown again. Several processes:
    `torchrun --nproc-per-node=2 -m covary discover ...`.

    Examples: `covary discover --symmetrize rotate:180 --baselines plain`, `covary discover --data photos/ --network
    resnet-8-16 --augment flips+affine --plan`, `covary discover --data my_package.my_module:load --resume`.
    """
    perform(settings(flags, replace(_DISCOVER, network=network)), flags)
