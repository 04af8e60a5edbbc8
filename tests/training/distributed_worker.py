"""A fit of five steps under torchrun, written to a file by the first process: OUT ESTIMATOR M."""

import sys

import torch
import torch.distributed as dist

import covary
from training_models import QUICK, averaged, everything, points

if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_default_dtype(torch.float64)
    out, estimator, block = sys.argv[1:]
    settings = QUICK.replace(
        epochs=2, weights={"batch_size": 9}, hyper={"burn_in": 0}, evaluation={"num_evaluations": 1}
    )
    config = settings.replace(hyper={"estimator": estimator, "num_data": int(block)})
    # the minibatches that a width would take with "kernel" are each process's own
    network = averaged() if estimator == "two_pass" else averaged().network
    run = covary.fit(network, points(23), config, test=points(5, 2), callbacks=())
    numbers = [run.record.evidence.log_evidence, run.record.history[0].evidence.log_evidence]
    numbers += [epoch.log_likelihood for epoch in run.record.history]
    if dist.get_rank() == 0:
        torch.save({**everything(run), "numbers": torch.tensor(numbers)}, out)
    dist.destroy_process_group()
