r"""
Log a run to TensorBoard, Weights & Biases or MLflow
====================================================

:mod:`covary.integrations.tracking` logs a fit through one small protocol: settings, the log-likelihood and the log
evidence in its terms, widths, precisions, learning rates, and images under the augmentation as it is learned. All three
libraries write to a folder; nothing is sent. ``pip install covary[tensorboard]``, ``covary[wandb]`` or
``covary[mlflow]`` installs what is needed.
"""

import tempfile

import matplotlib.pyplot as plt
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import covary
from covary.integrations.tracking import Tracking, tracker_of

digits = covary.data.limited(covary.data.load("mnist-mini"), 300, seed=0)
network = covary.Averaged(covary.networks.mlp(784, 50, 10), covary.augment.Affine2d(("rotation", "shift_x")), 4)

# %%
# ``tracker_of("wandb", folder)`` and ``tracker_of("mlflow", folder)`` take its place.

folder = tempfile.mkdtemp()
tracking = Tracking(tracker_of("tensorboard", folder), augment=network.augment, images=digits.x_train[:6])
run = covary.fit(network, digits.train, epochs=10, callbacks=[tracking])

# %%
# ``tensorboard --logdir FOLDER`` shows it in a browser; here the files are read back.

events = EventAccumulator(folder).Reload()
for name in ("rotation", "shift_x"):
    plt.plot(*zip(*[(e.step, e.value) for e in events.Scalars(f"widths/{name}")], strict=True), label=name)
plt.xlabel("epoch")
plt.ylabel("width")
plt.legend(frameon=False)
