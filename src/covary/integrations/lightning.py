"""A callback for PyTorch Lightning: the weights are trained by your module, the hyperparameters by the evidence."""

import math
from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

from ..errors import MissingLibraryError, StructureError
from ..training import EvidenceLearner
from ._trainers import check_trainer

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    raise MissingLibraryError("lightning", "lightning") from error


class EvidenceCallback(Callback):
    """Learn widths, prior precisions and noise by the evidence while a `LightningModule` trains its weights.

    The loss of the module is a mean of negative log-likelihoods, such as `cross_entropy`. The callback adds the
    gradient of the prior before each step of the optimizer, in the place of weight decay, and takes hyper steps after
    it: with gradient accumulation too, since both follow steps of the optimizer. It logs `log_evidence` and
    `width/NAME` after each hyper step, whatever `log_every_n_steps` is. Its state is part of Lightning's checkpoints,
    so that a run resumed by `ckpt_path` goes on bit for bit.

    Arguments:
        learner: The learner of a model whose network is part of the module, with as many `epochs` as the trainer.

    Example:
        >>> from covary.integrations.lightning import EvidenceCallback
        >>> data = torch.randn(20, 4), torch.arange(20) % 3
        >>> callback = EvidenceCallback(covary.EvidenceLearner(torch.nn.Linear(4, 3), data, epochs=10))
        >>> callback.learner.config.epochs
        10
    """

    def __init__(self, learner: EvidenceLearner) -> None:
        self.learner = learner
        self._num_steps = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note how many steps were taken before, and check that trainer, module and learner belong together."""
        check_trainer(self.learner, pl_module, trainer.optimizers, ("max_epochs", trainer.max_epochs))
        self._num_steps = trainer.global_step
        if not math.isfinite(trainer.num_training_batches):
            raise StructureError(
                "Expected a training data loader with a length, got one without. Set limit_train_batches to the number "
                "of batches in an epoch."
            )

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Add the gradient of the prior to that of the loss."""
        del trainer, pl_module
        self.learner.add_prior_gradient(optimizer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Take the hyper steps that are due after a step of the optimizer, and log what they found."""
        del outputs, batch
        if trainer.global_step == self._num_steps:  # gradients are being accumulated
            return
        self._num_steps = trainer.global_step
        epochs = trainer.current_epoch + (batch_idx + 1) / trainer.num_training_batches
        if self.learner.step_to(epochs):
            metrics = self.learner.metrics
            pl_module.log_dict(metrics, on_step=True, on_epoch=False, logger=False)
            for logger in trainer.loggers:  # here, as Lightning would keep every 50th step only
                logger.log_metrics(metrics, step=trainer.global_step - 1)

    def state_dict(self) -> dict[str, Any]:
        """The state of the learner, for Lightning's checkpoint."""
        return {"learner": self.learner.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the learner to the state of a checkpoint."""
        self.learner.load_state_dict(state_dict["learner"])
