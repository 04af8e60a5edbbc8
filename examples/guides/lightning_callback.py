r"""
Keep PyTorch Lightning
======================

Your ``LightningModule`` trains the weights; a callback learns widths and prior by the evidence. It needs
``pip install "covary[lightning]"``.
"""

import math

import lightning.pytorch as pl
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import covary
from covary.integrations.lightning import EvidenceCallback

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)
train = covary.data.resized(covary.data.symmetrize(digits, "rotate:90", seed=0), 14).train
network = covary.Averaged(covary.networks.mlp(196, 50, 10), covary.augment.Affine2d(["rotation"]), num_samples=8)

# %%
# The learner has as many epochs as the trainer. The module is as you would write it without covary, but for the seed of
# the augmentation's noise, another one for each step. Leave out weight decay: the callback adds that of the prior.

learner = covary.EvidenceLearner(network, train, epochs=20)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network

    def training_step(self, batch, _):
        images, labels = batch
        return cross_entropy(self.network(images, seed=learner.seed), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


trainer = pl.Trainer(
    max_epochs=20,
    callbacks=[EvidenceCallback(learner)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    accelerator="cpu",
)
trainer.fit(Classifier(), DataLoader(TensorDataset(*train), batch_size=50, shuffle=True))

# %%
# ``log_evidence`` and ``width/rotation`` are logged after hyper steps, for whatever logger the trainer has. With
# ``accumulate_grad_batches`` hyper steps follow the steps of the optimizer. The state of the learner is in Lightning's
# checkpoints: ``trainer.fit(..., ckpt_path="last")`` goes on bit for bit, if batches come in the same order.
#
# The estimates of hyper steps are noisy, and there is none in the burn-in. For ``ModelCheckpoint(monitor="evidence",
# mode="max")`` evaluate all data: ``self.log("evidence", learner.evaluate().log_evidence)`` in
# ``on_validation_epoch_end``.

print({name: round(float(value), 2) for name, value in trainer.callback_metrics.items()})
print(f"rotation ±{math.degrees(learner.widths['rotation']):.0f}°, log evidence {learner.evaluate().log_evidence:.0f}")
