r"""
Learn the symmetry of rotated digits
====================================

Handwritten digits are rotated by unknown angles of up to ±90°. You train a small network on them, and the network
learns by how much rotation its labels do not change: from the training data alone, without a validation set.
"""

# %%
# The data
# --------
# ``mnist-mini`` is part of the package: 5,000 training and 2,000 test digits of MNIST. :func:`covary.data.symmetrize`
# rotates each image once, by an angle of its own. To be quick we use 1,000 of them.

import matplotlib.pyplot as plt

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 1000, seed=0)
digits = covary.data.symmetrize(digits, "rotate:90", seed=0)

figure, axes = plt.subplots(1, 8, figsize=(8, 1.2))
for image, panel in zip(digits.x_train, axes, strict=False):
    panel.imshow(image[0], cmap="gray_r")
    panel.axis("off")

# %%
# The model
# ---------
# :class:`covary.augment.Affine2d` is a distribution of affine transforms with six learnable *widths*: horizontal and
# vertical shift, rotation, two scales and shear. :class:`covary.Averaged` evaluates any network on ``num_samples``
# random transforms of each image and averages the outputs:
#
# .. math:: \hat f(x) = \frac1S \sum_{s=1}^S f(T(\eta, \varepsilon_s)\, x; \theta)
#
# All widths :math:`\eta` start at 0.05: practically no transform.

augment = covary.augment.Affine2d()
network = covary.Averaged(covary.networks.mlp(784, 100, 10), augment, num_samples=8)
print({name: round(width, 2) for name, width in zip(augment.names, augment.widths.tolist(), strict=True)})

# %%
# Train
# -----
# :func:`covary.fit` trains the weights on the data and, between the weight steps, takes steps of the widths and of the
# prior precisions on the *evidence*. It returns a :class:`covary.Run`.

run = covary.fit(network, digits.train, epochs=24, test=digits.test, callbacks=())
print(run)

# %%
# What was learned
# ----------------
# The rotation is close to the ±1.57 radians that we put in, and the others are small. Here is how the widths moved
# during training; the dotted line is the rotation in the data.

history = run.record.history
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name in augment.names:
    axes.plot([epoch.epoch for epoch in history], [epoch.widths[name] for epoch in history], label=name)
axes.axhline(covary.data.true_widths("rotate:90", 28, 28)["rotation"], color="gray", ls=":")
axes.set(xlabel="epoch", ylabel="width")
axes.legend(frameon=False, ncols=2)

# %%
# Was it worth it? A network without augmentation, trained in the same way:

plain = covary.fit(covary.networks.mlp(784, 100, 10), digits.train, epochs=24, test=digits.test, callbacks=())
for name, result in {"learned": run, "plain": plain}.items():
    evidence = result.record.evidence.log_evidence / len(digits.y_train)
    print(f"{name:8} test accuracy {result.record.test.accuracy:.1%}   log evidence per image {evidence:.2f}")

# %%
# The evidence prefers the learned augmentation, and the test accuracy agrees. Only the first was used to choose.
#
# Next
# ----
# * Save the run and use it elsewhere: :doc:`/examples/save_load_predict`.
# * Use your own images: :doc:`/tutorials/02_own_images`.
# * Why does this work? :doc:`/explanation/objective`.
