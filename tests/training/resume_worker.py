"""A fit in a process of its own, that goes on where an earlier one was killed: FOLDER OUT."""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

import covary
from training_models import QUICK, averaged, everything, points

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    config = replace(QUICK, epochs=25, judgements=4)
    run = covary.fit(
        averaged(), points(), config=config, checkpoint_dir=folder, checkpoint_every=1, resume=True, test=points(10, 7)
    )
    noise = run.network.augment.sample_noise(torch.arange(5), 3, seed=0)
    widths = torch.tensor([list(epoch.widths.values()) for epoch in run.record.history])
    numbers = torch.tensor([run.record.evidence.log_evidence, run.record.test.nll, run.record.test.accuracy])
    save_file({**everything(run), "noise": noise, "widths": widths, "numbers": numbers}, out)
