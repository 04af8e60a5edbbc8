r"""
Keep Accelerate
===============

A loop with Accelerate is a loop of your own (:doc:`own_training_loop`): the learner is registered with what is saved,
and no callback is needed. ``pip install "covary[huggingface]"`` installs Accelerate too.
"""

import math
import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)
train = covary.data.resized(covary.data.symmetrize(digits, "rotate:90", seed=0), 14).train
network = covary.Averaged(covary.networks.mlp(196, 50, 10), covary.augment.Affine2d(["rotation"]), num_samples=8)

# %%
learner = covary.EvidenceLearner(network, train, epochs=20)
accelerator = Accelerator()
loader = DataLoader(TensorDataset(*train), batch_size=50, shuffle=True)
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
accelerator.register_for_checkpointing(learner)

for _ in range(20):
    for images, labels in loader:
        optimizer.zero_grad()
        accelerator.backward(learner.loss(network(images, seed=learner.seed), labels))
        optimizer.step()
        learner.step(len(labels) * accelerator.num_processes)

# %%
# ``save_state`` and ``load_state`` include the learner.

with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    accelerator.load_state(folder)
print(f"rotation ±{math.degrees(learner.widths['rotation']):.0f}°, log evidence {learner.evaluate().log_evidence:.0f}")
