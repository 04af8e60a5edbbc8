r"""
Learn the architecture
======================

Should a layer be convolutional or fully connected? A *relaxed* layer is the sum of both, and the evidence decides
which of the two paths it needs. This tutorial trains a narrow network of eight relaxed layers on small images and
prunes what it does not need.
"""

# %%
# The task
# --------
# A digit is placed in a random quadrant of the image, and the label is the digit: where it is must be ignored, so
# that convolutions are the right choice.

import matplotlib.pyplot as plt

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 800, seed=0)
placed = covary.data.in_quadrants(digits, "digit", seed=0, side=16)
figure, axes = plt.subplots(1, 8, figsize=(8, 1.2))
for image, panel in zip(placed.x_train, axes, strict=False):
    panel.imshow(image[0], cmap="gray_r")
    panel.axis("off")

# %%
# The network
# -----------
# Each layer is F-FC + CONV, a factored fully connected path and a convolution:
#
# .. math:: \mathrm{layer}(x) = \mathrm{FC}(x) + \mathrm{CONV}(x)
#
# Each tensor of each path has its own prior precision, learned by the evidence. With as few images as here a fully
# connected path memorizes them before the convolution has learned anything. So each layer is initialized as its
# convolution, with the other path at 0.3 of its usual size and a narrow prior; the evidence widens the prior where the
# path is needed. ``FitConfig.preset("layers-equivariant")`` has the learning rates for this start.

network = covary.networks.relaxed_network("f-fc+conv", 2, (1, 16, 16), 10)
precision = covary.layers.initialize_equivariant(network, 0.3) | {"*": 1.0}
model = covary.Model(network, covary.Categorical(), covary.Prior(network, precision=precision))
config = covary.FitConfig.preset("layers-equivariant").replace(epochs=24)
run = covary.fit(model, placed.train, config, test=placed.test, callbacks=())

# %%
# What each layer became
# ----------------------
# A row per path. *share* is its part of the layer's effective parameters; the largest is marked.

print(run)

# %%
# All layers remain convolutional: the data determine hardly any of the weights of the other path. Try the task
# ``"quadrant"``, whose labels depend on the position, and the free paths grow.

summaries = run.record.layers
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
left = [0.0] * len(summaries)
for name in ("conv", "f-fc"):
    share = [next(path.relative for path in layer.paths if path.name == name) for layer in summaries]
    axes.bar(range(1, len(summaries) + 1), share, bottom=left, label=name)
    left = [low + high for low, high in zip(left, share, strict=True)]
axes.set(xlabel="layer", ylabel="share of effective parameters")
axes.legend(frameon=False)

# %%
# Prune
# -----
# :func:`covary.prune` returns a plain network without the paths whose tensors all have a share below the threshold, and
# records what changed.

pruned = covary.prune(run.model, placed.train, threshold=0.05)
print("removed:", ", ".join(pruned.removed) or "nothing")
print(f"{pruned.num_params} weights remain")

# %%
# The command for this is ``covary layers``: :doc:`/guides/commands`. Results at the size of two CPU cores:
# :doc:`/results/paper2`. How it works: :doc:`/explanation/relaxed_layers`.
