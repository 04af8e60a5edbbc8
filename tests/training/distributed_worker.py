"""Fits of nine steps under torchrun, one per case, written to a file by the first process: OUT."""

import sys

import torch
import torch.distributed as dist

import covary
from training_models import QUICK, averaged, everything, points

CASES = {  # estimator, M
    "running-7": ("running", 7),
    "two_pass-7": ("two_pass", 7),
    "kernel-7": ("kernel", 7),
    "kernel-40": ("kernel", 40),
}


def fitted(estimator: str, block: int) -> dict[str, torch.Tensor]:
    settings = QUICK.replace(
        epochs=3,
        weights={"batch_size": 9},
        hyper={"burn_in": 0, "probes": "exact"},
        evaluation={"num_evaluations": 1},
    )
    config = settings.replace(hyper={"estimator": estimator, "num_data": block, "fraction": 1.0})
    # the minibatches that a width would take with "kernel" are each process's own
    network = averaged().network if estimator == "kernel" else averaged()
    run = covary.fit(network, points(23), config, test=points(5, 2), callbacks=())
    numbers = [run.record.evidence.log_evidence, run.record.history[0].evidence.log_evidence]
    numbers += [epoch.log_likelihood for epoch in run.record.history]
    return {**everything(run), "numbers": torch.tensor(numbers)}


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_default_dtype(torch.float64)
    found = {name: fitted(*case) for name, case in CASES.items()}
    if dist.get_rank() == 0:
        torch.save(found, sys.argv[1])
    dist.destroy_process_group()
