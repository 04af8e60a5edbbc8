r"""
Bring your own images and network
=================================

You have a folder with one subfolder per class, and a network that you wrote. This tutorial trains the network on the
images, learns an augmentation, saves the run, and predicts on new files.
"""

# %%
# A folder of images
# ------------------
# So that this page can run anywhere, we write a small folder first: photographs of two kinds of "cells", of which
# only the inner structure differs. Skip this step and use a folder of yours: ``photos/healthy/*.png``,
# ``photos/sick/*.png``.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from torch import nn

import covary

folder = Path(tempfile.mkdtemp()) / "photos"
rng = np.random.default_rng(0)
rows, cols = np.mgrid[-1:1:24j, -1:1:24j]


def photograph(kind):
    angle = rng.uniform(0, 2 * np.pi)
    along = rows * np.cos(angle) + cols * np.sin(angle)
    across = cols * np.cos(angle) - rows * np.sin(angle)
    half = (along > 0) * np.exp(-(((rows**2 + cols**2) ** 0.5 - 0.55) ** 2) / 0.02)
    bar = (along > 0) * np.exp(-(across**2) / 0.02) * (along < 0.7)
    image = (half if kind == "ring" else bar) + rng.normal(0, 0.35, rows.shape)
    return Image.fromarray(np.uint8(255 * np.clip(image / 2 + 0.25, 0, 1)))


for kind in ("ring", "bar"):
    (folder / kind).mkdir(parents=True)
    for number in range(150):
        photograph(kind).save(folder / kind / f"{number:03}.png")

# %%
# :func:`covary.data.load` reads the folder; classes are the names of the subfolders. Images of an ``.npz``, tensors
# or a function of yours work as well: :doc:`/guides/data`.

images = covary.data.load(str(folder))
x, y = images.train
print(images.class_names, tuple(x.shape))

figure, axes = plt.subplots(1, 8, figsize=(8, 1.2))
for panel, image in zip(axes, torch.cat([x[:4], x[-4:]]), strict=True):
    panel.imshow(image[0], cmap="gray")
    panel.axis("off")

# %%
# A network of your own
# ---------------------
# Any ``nn.Module`` that maps (N, channels, H, W) to (N, classes) is fine. All common layers have
# a curvature rule, others are covered by autograd; :func:`covary.curvature.coverage` shows how each weight is treated.


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())
        self.head = nn.Linear(8 * 4 * 4, 2)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


torch.manual_seed(0)
network = Small()
print(covary.curvature.coverage(network))

# %%
# Train
# -----
# Hold out every third image to see how well it works; the training itself uses no validation set.

test = torch.arange(len(x)) % 3 == 0
train_data, test_data = (x[~test], y[~test]), (x[test], y[test])
averaged = covary.Averaged(network, covary.augment.Affine2d(), num_samples=8)
run = covary.fit(averaged, train_data, epochs=24, test=test_data, callbacks=())
print(run)

# %%
# The cells are seen at any angle, and the run finds it: rotation has by far the largest width.
#
# Save, load, predict
# -------------------
# In a new process, pass a network of the same architecture; names and shapes are checked.

run.save(folder.parent / "run")
again = covary.load(folder.parent / "run", network=Small())

# %%
# New files need no class folders: :func:`covary.data.load_images` reads all PNG and JPEG files below a folder, and
# returns the images ``x`` and their ``names``. Here we write six of them, with the right answer in the file's name.

new_folder = folder.parent / "new_photos"
new_folder.mkdir()
for number in range(6):
    kind = ("ring", "bar")[number % 2]
    photograph(kind).save(new_folder / f"{number}_{kind}.png")

new = covary.data.load_images(new_folder)
for name, row in zip(new.names, again.predict_proba(new.x), strict=True):
    print(f"{name}: {images.class_names[int(row.argmax())]} with probability {row.max():.2f}")

# %%
# From the command line the same is
#
# .. code-block:: sh
#
#    covary discover --data photos/ --network mine:network --out runs/mine
#    covary predict runs/mine --network mine:network --data new_photos/
#
# with a function ``network(image_shape, num_outputs)`` in ``mine.py``: :doc:`/guides/commands`. A run does not store
# the code of a network of your own, so ``predict`` needs ``--network`` as well.
