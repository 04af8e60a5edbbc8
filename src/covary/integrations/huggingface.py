"""A callback for the Hugging Face `Trainer`: it trains the weights, the evidence the hyperparameters.

The `Trainer` keeps the state of callbacks as JSON. That of the learner is a text there: a safetensors file in base64.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from safetensors.torch import load, save
from torch import nn
from torch.optim import Optimizer

from ..errors import MissingLibraryError, StructureError
from ..training import EvidenceLearner
from ._trainers import check_trainer

try:
    from transformers.trainer_callback import ExportableState, TrainerCallback, TrainerControl, TrainerState
    from transformers.training_args import TrainingArguments
except ModuleNotFoundError as error:
    raise MissingLibraryError("transformers", "huggingface") from error

LEARNER = "evidence_learner"  # the attribute of the model by which a restored callback finds the learner
TENSORS = ("hyperparameters", "optimizer", "running")


class EvidenceCallback(TrainerCallback, ExportableState):
    """Learn widths, prior precisions and noise by the evidence while a `Trainer` trains the weights.

    The loss of the model is a mean of negative log-likelihoods, such as `cross_entropy`. The callback adds the gradient
    of the prior before each step of the optimizer, in the place of weight decay, and takes hyper steps after it. Their
    `log_evidence` and `width/NAME` are entries of the trainer's `log_history`; with `callback.log = trainer.log` the
    trackers of `report_to` have them too. Its state is part of the trainer's checkpoints, without pickle, and is
    restored by `resume_from_checkpoint`.

    Arguments:
        learner: The learner of a network that is part of the trainer's model, with as many `epochs` as the trainer;
            None where the `Trainer` makes the callback anew while it restores a checkpoint.

    Example:
        >>> from covary.integrations.huggingface import EvidenceCallback
        >>> data = torch.randn(20, 4), torch.arange(20) % 3
        >>> callback = EvidenceCallback(covary.EvidenceLearner(torch.nn.Linear(4, 3), data, epochs=10))
        >>> sorted(callback.state())
        ['args', 'attributes']
    """

    def __init__(self, learner: EvidenceLearner | None = None) -> None:
        self.learner = learner
        self.saved = ""
        self.log: Callable[[dict[str, float]], None] | None = None  # a callback does not know its trainer

    def state(self) -> dict[str, Any]:
        """The state as JSON can hold it: `args` to make the callback, and `attributes` to set."""
        saved = self.saved if self.learner is None else _as_text(self.learner.state_dict())
        return {"args": {}, "attributes": {"saved": saved}}

    def on_init_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: nn.Module, **_: Any
    ) -> None:
        """Leave the learner with the model, where a restored callback finds it."""
        del args, state, control
        if self.learner is not None:
            setattr(model, LEARNER, self.learner)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        **_: Any,
    ) -> None:
        """Set the learner to the state of the checkpoint that is resumed from; check that trainer and learner agree."""
        del args, control
        self.learner = getattr(model, LEARNER, None) if self.learner is None else self.learner
        if self.learner is None:
            raise StructureError(
                "Expected a learner, got none. Pass callbacks=[EvidenceCallback(learner)] when the Trainer is made."
            )
        optimizers = [] if optimizer is None else [optimizer]
        check_trainer(self.learner, model, optimizers, ("num_train_epochs", state.num_train_epochs))
        entry = state.stateful_callbacks.get(type(self).__name__, {})
        saved = entry.get("attributes", {}).get("saved", "") if isinstance(entry, dict) else ""
        if saved:
            self.learner.load_state_dict(_from_text(saved))

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, optimizer: Optimizer, **_: Any
    ) -> None:
        """Add the gradient of the prior to that of the loss."""
        del args, state, control
        if self.learner is not None:
            self.learner.add_prior_gradient(optimizer)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Take the hyper steps that are due after a step of the optimizer, and log what they found."""
        del args, control
        if self.learner is None or not self.learner.step_to(state.epoch):
            return
        if self.log is not None:
            self.log(self.learner.metrics)
        else:
            state.log_history.append({**self.learner.metrics, "epoch": state.epoch, "step": state.global_step})


def _as_text(state_dict: Mapping[str, Any]) -> str:
    """The state of a learner as text: a safetensors file, with all that is no tensor in its header, in base64."""
    tensors = {f"{part}/{name}": tensor for part in TENSORS for name, tensor in state_dict[part].items()}
    plain = {name: value for name, value in state_dict.items() if name not in TENSORS}
    moved = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    return base64.b64encode(save(moved, {"learner": json.dumps(plain)})).decode()


def _from_text(text: str) -> dict[str, Any]:
    """The state of a learner from what `_as_text` returned."""
    content = base64.b64decode(text)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    found: dict[str, Any] = {part: {} for part in TENSORS}
    for key, tensor in load(content).items():
        part, name = key.split("/", 1)
        found[part][name] = tensor
    return found | json.loads(header["__metadata__"]["learner"])
