"""A callback for PyTorch Lightning: the weights are trained by your module, the hyperparameters by the evidence."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

from ..errors import MissingLibraryError, StructureError
from ..training import EvidenceLearner

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    raise MissingLibraryError("lightning", "lightning") from error


class EvidenceCallback(Callback):
    """Learn widths, prior precisions and noise by the evidence while a `LightningModule` trains its weights.

    The loss of the module is a mean of negative log-likelihoods, such as `cross_entropy`. The callback adds the
    gradient of the prior before each step of the optimizer, in the place of weight decay, and takes hyper steps after
    it: with gradient accumulation too, since both follow steps of the optimizer. It logs `log_evidence` and
    `width/NAME` when a hyper step was taken. Its state is part of Lightning's checkpoints, so that a run resumed by
    `ckpt_path` goes on bit for bit.

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

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise `StructureError` for the learner of another network; warn of another number of epochs."""
        own = {id(parameter) for parameter in pl_module.parameters()}
        if not all(id(weight) in own for weight in self.learner.model.trained_weights.values()):
            raise StructureError(
                f"Expected the learner's network to be part of {type(pl_module).__name__}, got another one. Make the "
                "learner with the network that the module trains."
            )
        if trainer.max_epochs != self.learner.config.epochs:
            warnings.warn(
                f"The trainer has max_epochs={trainer.max_epochs}, the learner epochs={self.learner.config.epochs}: "
                "its schedule ends with another epoch. Make the learner with epochs=max_epochs.",
                stacklevel=2,
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note how many steps were taken before; raise `StructureError` for an epoch without a length."""
        del pl_module
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
            pl_module.log_dict(self.learner.metrics, on_step=True, on_epoch=False)

    def state_dict(self) -> dict[str, Any]:
        """The state of the learner, for Lightning's checkpoint."""
        return {"learner": self.learner.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the learner to the state of a checkpoint."""
        self.learner.load_state_dict(state_dict["learner"])
