r"""
Compare models by evidence
==========================

Which of several models is best? The usual answer needs a validation set. The evidence answers from the training data.
Here we train one network for each of five fixed amounts of rotation, compare their evidences, and check the answer
with test data that no model has seen.
"""

import math

import matplotlib.pyplot as plt
import torch

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 800, seed=0)
digits = covary.data.symmetrize(digits, "rotate:90", seed=0)

# %%
# One model per width
# -------------------
# Rotations of up to ±width are averaged over; the width is fixed, so that only the weights and the prior are learned.
# All networks start from the same weights.


def train(width):
    augment = covary.augment.Affine2d(["rotation"], initial_width=width).requires_grad_(False)
    network = covary.networks.mlp(784, 50, 10, generator=torch.Generator().manual_seed(0))
    averaged = covary.Averaged(network, augment, num_samples=8)
    return covary.fit(averaged, digits.train, epochs=20, test=digits.test, callbacks=())


degrees = [0.5, 45, 90, 135, 179]
runs = [train(math.radians(angle)) for angle in degrees]

# %%
# The three terms
# ---------------
# Every evidence is reported with its terms: the log-likelihood falls as the augmentation widens, since the task
# becomes harder; the prior and the volume of weights, together the complexity terms, rise. Their sum has a maximum.

per_image = 1 / len(digits.y_train)
terms = [run.record.evidence for run in runs]
fit = [t.log_likelihood * per_image for t in terms]
complexity = [(t.log_prior + t.log_volume) * per_image for t in terms]
total = [t.log_evidence * per_image for t in terms]
accuracy = [run.record.test.accuracy for run in runs]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(degrees, fit, "o--", color="C0", label="log-likelihood")
left.plot(degrees, complexity, "s--", color="C2", label="log-prior + log-volume")
left.plot(degrees, total, "o-", color="C3", lw=2.5, label="log evidence")
left.axvline(90, color="gray", ls=":")
left.set(xlabel="width of the rotation in degrees (±)", ylabel="nats per training image", xticks=range(0, 181, 45))
left.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
right.plot(degrees, accuracy, "o-", color="C1")
right.axvline(90, color="gray", ls=":")
right.set(xlabel="width of the rotation in degrees (±)", ylabel="test accuracy", xticks=range(0, 181, 45))

# %%
for angle, run in zip(degrees, runs, strict=True):
    evidence = run.record.evidence.log_evidence
    print(f"±{angle:5.1f}°   log evidence {evidence:9.1f}   test accuracy {run.record.test.accuracy:.1%}")

# %%
# The log Bayes factor between two models is the difference of their log evidences. On the command line ``covary
# compare A B`` prints it for saved runs, and says so when two runs cannot be compared.
#
# Any model and data can be compared in this way: :func:`covary.log_evidence` takes a :class:`covary.Model` and data.

terms = covary.log_evidence(runs[2].model, digits.train, curvature="kron")
print(
    f"log evidence {terms.log_evidence:.1f} = {terms.log_likelihood:.1f} {terms.log_prior:+.1f} {terms.log_volume:+.1f}"
)

# %%
# Instead of training one network per width, :doc:`the width can be learned </tutorials/01_rotated_digits>` by
# gradient ascent on this curve. When not to trust the number: :doc:`/explanation/limits`.
