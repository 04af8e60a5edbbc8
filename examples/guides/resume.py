r"""
Resume a killed run
===================

Long runs are interrupted. With ``checkpoints`` the state is written every few epochs, and when the process is asked
to end (SIGTERM, Ctrl-C), in the middle of an epoch too. A resumed run ends bit for bit where the uninterrupted one
would have.
"""

import tempfile
from pathlib import Path

import torch

import covary

digits = covary.data.limited(covary.data.load("mnist-mini"), 300, seed=0)


def model():
    network = covary.networks.mlp(784, 30, 10, generator=torch.Generator().manual_seed(0))
    return covary.Averaged(network, covary.augment.Affine2d(), num_samples=4)


settings = {"epochs": 8, "seed": 0}
whole = covary.fit(model(), digits.train, callbacks=(), **settings)

# %%
# Here a callback plays the part of whatever kills the process after five epochs.


class Killed(Exception):
    pass


def kill(epoch):
    if epoch.epoch == 5:
        raise Killed


folder = Path(tempfile.mkdtemp())
try:
    covary.fit(model(), digits.train, checkpoints=covary.Checkpoints(folder, every=2), callbacks=[kill], **settings)
except Killed:
    print("killed; there are", sorted(path.name for path in folder.iterdir()))

# %%
# The same call with ``resume=True`` continues from the newest checkpoint. Everything random is a function of (seed,
# epoch, index), so there is no random state to restore. Other settings or other data are refused.

checkpoints = covary.Checkpoints(folder, every=2, resume=True)
resumed = covary.fit(model(), digits.train, checkpoints=checkpoints, callbacks=(), **settings)
same = all(torch.equal(a, b) for a, b in zip(whole.network.parameters(), resumed.network.parameters(), strict=True))
print("bit for bit the same:", same)

# %%
# A checkpoint is a safetensors file with a JSON header and a checksum, written to a temporary file and then renamed;
# two are kept. A damaged one is skipped with a warning. On the command line it is one flag:
#
# .. code-block:: sh
#
#    covary discover --data photos/ --out runs/long
#    covary discover --data photos/ --out runs/long --resume
