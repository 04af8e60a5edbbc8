"""Fits of nine steps, one per case, in this process or as one of two."""

import os
import warnings
from pathlib import Path

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
SETTINGS = QUICK.replace(
    epochs=3,
    weights={"batch_size": 9},
    hyper={"burn_in": 0, "probes": "exact"},
    evaluation={"num_evaluations": 1, "num_error_data": 500},
)


def fitted(estimator: str, block: int) -> dict[str, torch.Tensor]:
    config = SETTINGS.replace(hyper={"estimator": estimator, "num_data": block, "fraction": 1.0})
    # the minibatches that a width would take with "kernel" are each process's own
    network = averaged().network if estimator == "kernel" else averaged()
    run = covary.fit(network, points(23), config, test=points(5, 2), callbacks=())
    tested = run.record.test
    numbers = [tested.accuracy, tested.nll, tested.ece, tested.num_data]
    numbers += [run.record.evidence.log_evidence, run.record.history[0].evidence.log_evidence]
    numbers += [epoch.log_likelihood for epoch in run.record.history]
    return {**everything(run), "numbers": torch.tensor(numbers)}


class ReadableOnce(torch.utils.data.Dataset):
    """Points of which one can be read once, by the checks before a fit; of two processes the second reads it again."""

    num_reads = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.num_reads += number == 1
        if self.num_reads > 1:
            raise OSError("no such point")
        x, y = points(4)
        return x[number], y[number]


def tested() -> dict[str, torch.Tensor]:
    """The test of one datum, which cannot be divided, and of points of which one cannot be read again."""
    config = SETTINGS.replace(epochs=1, hyper={"estimator": "augerino"})
    single = covary.fit(averaged(), points(23), config, test=points(1, 2), callbacks=()).record
    with warnings.catch_warnings(record=True):
        unread = covary.fit(averaged(), points(23), config, test=ReadableOnce(), callbacks=()).record
    told = [float("no such point" in note) for note in unread.notes]
    return {"single": torch.tensor([single.test.nll, single.test.num_data]), "told": torch.tensor([sum(told)])}


def learned() -> dict[str, torch.Tensor]:
    """Hyper steps of a loop of one's own, in which all processes take the same weight steps."""
    config = SETTINGS.replace(hyper={"estimator": "running", "num_data": 7, "fraction": 1.0})
    x, y = points(23)
    learner = covary.EvidenceLearner(averaged(), (x, y), config)
    network = learner.model.network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        learner.loss(network(x, seed=learner.seed), y).backward()
        optimizer.step()
        learner.step(23)
    numbers = torch.tensor([learner.log_evidence, learner.evaluate().log_evidence, *learner.widths.values()])
    return {"numbers": numbers, "log_precision": learner.model.prior.log_precision.detach().clone()}


def fitted_cases() -> dict[str, dict[str, torch.Tensor]]:
    """Everything that the fit of each case, and the loop of one's own, has changed, and what tests say."""
    return {name: fitted(*case) for name, case in CASES.items()} | {"learner": learned(), "tested": tested()}


def member(rank: int, folder: Path) -> None:
    """Fit as one of two processes; the first writes what the fits have changed to the folder."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    found = fitted_cases()
    if rank == 0:
        torch.save(found, folder / "two")
    dist.barrier()  # no process closes the group while another still uses it
    dist.destroy_process_group()
    os._exit(0)  # torch's own threads may abort a process that ends while they run
