r"""
Learn the ranges of your pipeline
=================================

May I rotate, shift, mirror, and by how much? Start from the ranges of a pipeline in use, learn them, and put them back.
The pipeline here is one of albumentations, as ``albumentations.to_dict`` writes it; for kornia and torchvision there
are ``from_kornia`` and ``from_torchvision``. None of these libraries is needed to run this page.
"""

import warnings

import matplotlib.pyplot as plt
import torch

import covary

pipeline = {
    "transform": {
        "__class_fullname__": "Compose",
        "p": 1.0,
        "transforms": [
            {"__class_fullname__": "Rotate", "limit": [-10.0, 10.0], "crop_border": False, "p": 1.0},
            {"__class_fullname__": "GaussNoise", "std_range": [0.1, 0.2], "p": 0.5},
        ],
    }
}

# %%
# In
# --
# The augmentation starts at these ranges. A warning lists what is not learned, and why. We know that a 6 turned by a
# half is a 9, and limit rotations to a quarter.

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    augment = covary.augment.from_albumentations(pipeline)
print(said[0].message)
augment = covary.augment.bounded(augment, rotation=(0, torch.pi / 2))

# %%
# Learn
# -----
# On digits that are rotated by up to 45°.

digits = covary.data.limited(covary.data.load("mnist-mini"), 600, seed=0)
turned = covary.data.symmetrize(digits, "rotate:45", seed=0)
network = covary.Averaged(covary.networks.mlp(784, 50, 10), augment, num_samples=4)
run = covary.fit(network, turned.train, epochs=20, callbacks=())
print(run)

# %%
# Out
# ---
# The same pipeline with the learned range, and as text for other libraries.

rotate = covary.augment.to_albumentations(run.augment, pipeline)["transform"]["transforms"][0]
print(rotate)
print(covary.augment.to_text(run.augment, "ultralytics"))

# %%
# Ship
# ----
# The averaged network with fixed augmentation samples: one program, for any number of images.

deployed = covary.networks.Deployed(run.network, num_samples=16)
program = deployed.program(turned.x_test[:1])
outputs = program.module()(turned.x_test[:8])

figure, axes = plt.subplots(1, 8, figsize=(8, 1.4))
for panel, image, output in zip(axes, turned.x_test, outputs, strict=False):
    panel.imshow(image[0], cmap="gray_r")
    panel.set_title(int(output.argmax()), fontsize=9)
    panel.axis("off")
