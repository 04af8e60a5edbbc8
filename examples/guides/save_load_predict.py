r"""
Save, load, predict
===================

What can be saved can be loaded: :meth:`covary.Run.save` writes the network, the augmentation, the likelihood, the
prior and the record to a folder, :func:`covary.load` reads them back in a new process, bit for bit.
"""

import tempfile
from pathlib import Path

import torch

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)


def network():
    return covary.networks.mlp(784, 50, 10)


averaged = covary.Averaged(network(), covary.augment.Affine2d(), num_samples=8)
run = covary.fit(averaged, digits.train, epochs=10, test=digits.test, callbacks=())

folder = Path(tempfile.mkdtemp()) / "first"
run.save(folder)
print(sorted(path.name for path in folder.iterdir()))

# %%
# Files are JSON and safetensors, never pickle. A network that a command has built by name is built again from its
# record; for a network of your own pass an instance or a function that builds one. Names and shapes are checked.

again = covary.load(folder, network)
x = digits.x_test[:5]
assert torch.equal(run.predict_proba(x), again.predict_proba(x))

# %%
# ``predict`` returns classes, ``predict_proba`` probabilities. Both work in batches and average over augmentation
# samples, as many as in training unless ``num_samples`` says otherwise.

print(again.predict(x).tolist())
print(again.predict_proba(x, num_samples=32).max(1).values)

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
# as CSV, or as JSON with ``--json``. ``covary report RUN`` draws the report of a saved run.
