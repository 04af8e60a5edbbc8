r"""
Use the evidence in your own training loop
==========================================

:func:`covary.fit` is a loop over two kinds of steps. Both are a few lines of plain PyTorch, so a loop of your own can
do the same: weight steps on the log joint, and every few epochs a step of the hyperparameters along the gradient of
the evidence.
"""

import math

import matplotlib.pyplot as plt
import torch
from torch.utils.data import DataLoader, TensorDataset

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)
x, y = covary.data.resized(covary.data.symmetrize(digits, "rotate:90", seed=0), 14).train
index = torch.arange(len(x))  # the identity of each datum: noise is a function of it

augment = covary.augment.Affine2d(["rotation"])
network = covary.networks.mlp(196, 50, 10, generator=torch.Generator().manual_seed(0))
averaged = covary.Averaged(network, augment, num_samples=8)
model = covary.Model(averaged, covary.Categorical(), covary.Prior(averaged, "scalar"))

# %%
# Weights are what the prior covers; everything else that requires a gradient is a hyperparameter.
# ``hypergrad.two_pass`` returns its ascent directions by name and leaves ``.grad`` alone.

weights = torch.optim.Adam(model.weights.values(), lr=3e-3)
hyper = {"augment.raw_widths": augment.raw_widths, "prior.log_precision": model.prior.log_precision}
hyper_optimizer = torch.optim.Adam(hyper.values(), lr=0.15, betas=(0.9, 0.95), maximize=True)
loader = DataLoader(TensorDataset(x, y, index), batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(0))

widths, evidences = [], []
for epoch in range(20):
    for images, labels, identity in loader:
        outputs = averaged(images, index=identity)
        log_joint = model.likelihood.log_prob(outputs, labels) / len(labels) + model.prior.log_density(
            model.weights
        ) / len(x)
        weights.zero_grad()
        (-log_joint).backward()
        weights.step()
    if epoch >= 4:
        for step in range(2):
            gradient = covary.hypergrad.two_pass(model, (x, y), num_data=200, seed=10 * epoch + step)
            for name, parameter in hyper.items():
                parameter.grad = gradient[name]
            hyper_optimizer.step()
        evidences.append(gradient.terms.log_evidence)
    widths.append(augment.widths.item())

# %%
# The rotation is learned, and the estimate of the evidence rises.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot([math.degrees(width) for width in widths])
left.axhline(90, color="gray", ls=":")
left.set(xlabel="epoch", ylabel="rotation in degrees (±)")
right.plot(range(4, 20), evidences)
right.set(xlabel="epoch", ylabel="log evidence (one probe)")

# %%
terms = covary.log_evidence(model, (x, y))
print(
    f"log evidence {terms.log_evidence:.1f} = {terms.log_likelihood:.1f} {terms.log_prior:+.1f} {terms.log_volume:+.1f}"
)
