"""`--estimate`: the memory of a run, known at once, then its time, which a short trial measures."""

import os
from dataclasses import asdict
from typing import Any

from ..config import ExperimentConfig
from .output import echo_json, print_rows
from .terminal import echo


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
