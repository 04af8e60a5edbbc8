r"""
Keep the Hugging Face Trainer
=============================

The ``Trainer`` trains the weights; a callback learns widths and prior by the evidence. It needs
``pip install "covary[huggingface]"``.
"""

import math
import tempfile

import torch
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainingArguments

import covary
from covary.integrations.huggingface import EvidenceCallback

digits = covary.data.limited(covary.data.load("mnist-mini"), 400, seed=0)
x, y = covary.data.resized(covary.data.symmetrize(digits, "rotate:90", seed=0), 14).train
rows = [{"pixel_values": image, "labels": label} for image, label in zip(x, y, strict=True)]

network = covary.Averaged(covary.networks.mlp(196, 50, 10), covary.augment.Affine2d(["rotation"]), num_samples=8)
learner = covary.EvidenceLearner(network, (x, y), epochs=20)

# %%
# The model answers with its loss and logits, as the trainer expects. The network inside of it maps a tensor of inputs
# to a tensor of outputs, as the learner expects.


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network

    def forward(self, pixel_values, labels=None):
        logits = self.network(pixel_values, seed=learner.seed)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=20,
        per_device_train_batch_size=50,
        learning_rate=3e-3,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    callback = EvidenceCallback(learner)
    trainer = Trainer(Classifier(), arguments, train_dataset=rows, callbacks=[callback])
    callback.log = trainer.log  # for TensorBoard, Weights & Biases and others in report_to; not needed without them
    trainer.train()

# %%
# What hyper steps found is in the trainer's ``log_history``. The state of the learner is in its checkpoints, as text
# and without pickle: ``trainer.train(resume_from_checkpoint=...)`` goes on bit for bit.

print([entry for entry in trainer.state.log_history if "log_evidence" in entry][-1])
print(f"rotation ±{math.degrees(learner.widths['rotation']):.0f}°, log evidence {learner.evaluate().log_evidence:.0f}")
