r"""
Export the augmentation
=======================

A learned augmentation is useful without covary: as numbers, as JSON, or as a step of any other image pipeline.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import covary

augment = covary.augment.Affine2d(("rotation", "shift_x"), initial_width={"rotation": 0.8, "shift_x": 0.15})

# %%
# As numbers
# ----------
# After a fit this is ``run.augment``.

for name, width, unit in zip(augment.names, augment.widths.tolist(), augment.units, strict=True):
    print(f"{name:10} ±{width:.2f} {unit}")

# %%
# As JSON
# -------
# Kind, names, widths, units, signs, padding and sampler. ``load`` checks every field and executes nothing. A
# distribution of your own is written as kind "custom": its widths can be read, not loaded.

path = Path(tempfile.mkdtemp()) / "augment.json"
covary.augment.save(augment, path)
print(path.read_text()[:400], "...")
again = covary.augment.load(path)

# %%
# As a step of a pipeline
# -----------------------
# :class:`covary.augment.RandomTransform` is a plain module that draws one transform per image: one image or a batch,
# bytes, floats or pictures of Pillow. It keeps a frozen copy, takes no gradient, and works as an element of
# ``torchvision.transforms.v2.Compose`` and of ``kornia.augmentation.AugmentationSequential``.

step = covary.augment.RandomTransform(again, torch.Generator().manual_seed(0))
image = (255 * covary.data.load("mnist-mini").x_train[0]).to(torch.uint8)

figure, axes = plt.subplots(1, 8, figsize=(8, 1.2))
axes[0].imshow(image[0], cmap="gray_r")
for panel in axes[1:]:
    panel.imshow(step(image)[0], cmap="gray_r")
for panel in axes:
    panel.axis("off")
