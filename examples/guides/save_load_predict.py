r"""
Save, load, predict
===================

What can be saved can be loaded: :meth:`covary.Run.save` writes the network, the augmentation, the likelihood, the
prior and the record to a folder, :func:`covary.load` reads them back in a new process, bit for bit.
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)
averaged = covary.Averaged(covary.networks.mlp(784, 50, 10), covary.augment.Affine2d(), num_samples=8)
run = covary.fit(averaged, digits, epochs=10, test=digits.test, callbacks=())

folder = Path(tempfile.mkdtemp()) / "first"
run.save(folder)
print(sorted(path.name for path in folder.iterdir()))

# %%
# Files are JSON and safetensors, never pickle. Every network of :mod:`covary.networks`, also inside ``Averaged`` or
# ``Standardized``, is built again from its record:

again = covary.load(folder)
x = digits.x_test[:5]
assert torch.equal(run.predict_proba(x), again.predict_proba(x))

# %%
# The code of a network of your own is not saved. Pass an instance or a function that builds one, without the wrappers
# around it or with them; names and shapes are checked, and the numbers are replaced.


def my_network():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 30), nn.Tanh(), nn.Linear(30, 10))


mine = covary.fit(my_network(), digits.train, epochs=10, callbacks=())
mine.save(folder.parent / "mine")
loaded = covary.load(folder.parent / "mine", my_network)
assert torch.equal(mine.predict_proba(x), loaded.predict_proba(x))

# %%
# ``predict`` returns classes, ``predict_proba`` probabilities. Both work in batches and average over augmentation
# samples, as many as in training unless ``num_samples`` says otherwise.

print([again.class_names[label] for label in again.predict(x)])  # the names of a data set that ``fit`` was given
print(again.predict_proba(x, num_samples=32).max(1).values)

# %%
# New images without labels are read by :func:`covary.data.load_images`, from a folder of PNG and JPEG files, an
# ``.npz`` archive or a data set by name, here the test images of the digits. ``names`` are the files or numbers.

new = covary.data.load_images("mnist-mini")
print(dict(zip(new.names[:5], again.predict(new.x[:5]).tolist(), strict=True)))

# %%
# ``evaluate`` measures accuracy, negative log-likelihood and calibration error; ``posterior`` adds the uncertainty of
# the weights.

print(again.evaluate(digits.test))
posterior = again.posterior(digits.train)
print(posterior.predict(x).max(1).values)

# %%
# More epochs for the same run:

longer = again.fit_more(digits.train, epochs=5, callbacks=())
print(longer.evaluate(digits.test))

# %%
# On the command line, ``covary predict RUN --data new_photos/`` writes class, probability and uncertainty per image
# as CSV, or as JSON with ``--json``; for a network of your own add ``--network package.module:function``.
# ``covary report RUN`` draws the report of a saved run.
