r"""
Keep your own training loop
===========================

:class:`covary.EvidenceLearner` is the half of :func:`covary.fit` that learns widths, prior precisions and noise by the
evidence. The loop stays yours: any optimizer, any scheduler, any way to read batches. The learner needs two calls, one
for the loss and one after each step of the optimizer.
"""

import math
import tempfile

import matplotlib.pyplot as plt
import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)
x, y = covary.data.resized(covary.data.symmetrize(digits, "rotate:90", seed=0), 14).train
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(0))

network = covary.networks.mlp(196, 50, 10, generator=torch.Generator().manual_seed(0))
network = covary.Averaged(network, covary.augment.Affine2d(["rotation"]), num_samples=8)

# %%
# The learner gets the network and the training data as they are, without random augmentation: hyper steps read some of
# them between the steps of yours. ``epochs`` is the number of epochs that your loop will have.

epochs = 30
learner = covary.EvidenceLearner(network, (x, y), epochs=epochs)
optimizer = AdamW(network.parameters(), lr=0.01, weight_decay=0.0)
scheduler = OneCycleLR(optimizer, max_lr=0.01, total_steps=epochs * len(loader))

widths, evidences = [], []
for _ in range(epochs):
    for images, labels in loader:
        loss = learner.loss(network(images, seed=learner.seed), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        learner.step(len(labels))
    widths.append(learner.widths["rotation"])
    evidences.append(learner.log_evidence)

# %%
# - ``learner.loss`` is the negative log-likelihood of the batch, a mean, plus ``learner.prior_penalty()``. Add the
#   latter to a loss of your own, and leave out weight decay: the prior is one whose strength is learned.
# - Between hyper steps the hyperparameters do not require a gradient, so an optimizer over ``network.parameters()``
#   leaves them alone. ``learner.release()`` ends that.
# - ``learner.seed`` is another one for each step, so that every batch sees other samples of the augmentation.
# - With gradient accumulation call ``learner.step`` after ``optimizer.step()``, with the data of all its batches; with
#   several processes, with the data of all of them.
#
# The rotation is learned after a burn-in, once the network predicts better than a constant.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot([math.degrees(width) for width in widths])
left.axhline(90, color="gray", ls=":")
left.set(xlabel="epoch", ylabel="rotation in degrees (±)")
right.plot([math.nan if evidence is None else evidence for evidence in evidences])
right.set(xlabel="epoch", ylabel="log evidence (estimate)")

# %%
# What the learner has learned is saved beside network and optimizer, and a loop that is loaded goes on bit for bit.

with tempfile.TemporaryDirectory() as folder:
    torch.save({"network": network.state_dict(), "learner": learner.state_dict()}, f"{folder}/training.pt")
    learner.load_state_dict(torch.load(f"{folder}/training.pt")["learner"])

# %%
# The estimate of a hyper step is noisy. To compare states or networks, evaluate the evidence of all data.

evidence = learner.evaluate()
print(f"log evidence {evidence.log_evidence:.1f}, rotation ±{math.degrees(learner.widths['rotation']):.0f}°")
