r"""The hyperparameter half of training, for any loop: `fit` uses it, and so can a loop of one's own.

Weight steps are the loop's. Their loss is minus the log joint per datum, up to a constant,

.. math:: -\tfrac1B \log p(D_B|\theta,\eta) + \tfrac1{2N} \sum_p \delta_p \theta_p^2,

and hyper steps, which climb the evidence in η and δ, follow by the number of data that weight steps have read.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..batches import Batches, Data, as_batches, read_through
from ..config import FitConfig
from ..curvature.passes import check_model
from ..distributed import require_alike
from ..errors import StructureError
from ..hypergrad import RunningStatistics
from ..models import Model, as_model
from ..records import Evidence, from_plain
from .constant import beats_constant, constant_of
from .devices import device_of, move_model
from .hyper import check_learning, data_per_step, hyper_step, mean_log_likelihood
from .hyper_state import HyperState, initial_hyper_state, optimizer_tensors, set_optimizer_tensors
from .modes import evaluation
from .presets import settings_of
from .schedule import WEIGHTS, filled_in, hyper_progress, hyper_steps_due, seed_for
from .steps import evaluate
from .widths import WidthLearning, augmentation_of

RARELY = 3  # hyper steps that are due for each one on the prior alone
NUMBERS = ("num_data", "num_seen", "log_likelihood", "constant")  # of the state


class EvidenceLearner:
    r"""A learner of widths, prior precisions and noise that runs inside your own training loop.

    It has the optimizer of the hyperparameters, the running statistics of the curvature and the schedule. Your loop has
    the weights and their optimizer. Train the weights on `loss`, or on your own loss plus `prior_penalty`, and call
    `step` after each step of their optimizer. Between hyper steps the hyperparameters do not require a gradient, so an
    optimizer over all parameters of the network does not change them.

    With an initialized `torch.distributed` process group, all processes construct the learner with the same data, of
    which each reads its shard, and call `step` with the same number.

    Arguments:
        model: A network, `Averaged` or plain, or a `Model` with likelihood and prior of your choice.
        data: The training data as they are, without random augmentation, as for `fit`.
        config: The settings; by default the preset that suits the model, as in `fit`. Hyper steps follow `epochs`,
            `seed`, `curvature`, `hyper` and `evaluation`. Of `weights` only `batch_size` is used, for the burn-in.
        settings: Top-level settings that differ from `config`: `epochs`, `seed`, `curvature`.

    Example:
        >>> x = torch.randn(20, 2)
        >>> y = (x.norm(dim=1) > 1).long()
        >>> network = covary.Averaged(covary.networks.mlp(2, 4, 2), covary.augment.Rotation2d(), num_samples=2)
        >>> learner = covary.EvidenceLearner(network, (x, y), epochs=6)
        >>> optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        >>> for epoch in range(6):
        ...     learner.loss(network(x, seed=learner.seed), y).backward()
        ...     optimizer.step()
        ...     optimizer.zero_grad()
        ...     _ = learner.step(len(x))
        >>> sorted(learner.widths), learner.log_evidence < 0
        (['rotation'], True)
    """

    def __init__(self, model: nn.Module | Model, data: Data, config: FitConfig | None = None, **settings: Any) -> None:
        model = as_model(model)
        config = settings_of(model, config, settings)
        if config.hyper.estimator == "augerino":
            raise StructureError(
                "The estimator 'augerino' learns widths in weight steps, which are yours here. Use covary.fit, or "
                "another estimator."
            )
        move_model(model, device_of(model.network))
        plain = as_batches(data, config.weights.batch_size)
        batches = plain.matching(model.network)
        check_learning(model, batches, config)
        with evaluation(model.network):
            check_model(model, batches)
        state = initial_hyper_state(model, config)
        state.num_data = batches.num_data or read_through(batches).num_data
        state.log_likelihood = None
        held = list(state.hyperparameters().values())
        self._set(state, plain, filled_in(config, state.num_data), held)
        self._require_grad(False)

    @classmethod
    def of_state(cls, state: HyperState, batches: Batches, config: FitConfig) -> "EvidenceLearner":
        """The learner of a state that has been checked, with its settings filled in; nothing is held."""
        learner = cls.__new__(cls)
        learner._set(state, batches, config, [])
        return learner

    def _set(self, state: HyperState, batches: Batches, config: FitConfig, held: list[nn.Parameter]) -> None:
        self.config = config
        self._state, self._batches, self._device = state, batches, device_of(state.network)
        self._held, self._agreed = held, False
        self._constant: Callable[[], float] | None = None

    @property
    def model(self) -> Model:
        """Network, likelihood and prior."""
        return self._state.model

    @property
    def widths(self) -> dict[str, float]:
        """The widths of the augmentation by name; empty where the network has none."""
        augment = augmentation_of(self.model.network)
        return {} if augment is None else dict(zip(augment.names, augment.widths.tolist(), strict=True))

    @property
    def log_evidence(self) -> float | None:
        """The log evidence of all data as the last hyper step has estimated it; None before the first."""
        evidence = self._state.evidence
        return None if evidence is None else evidence.log_evidence

    @property
    def metrics(self) -> dict[str, float]:
        """What to log after a hyper step: `log_evidence` where there is one, and `width/NAME` of each width."""
        evidence = {} if self.log_evidence is None else {"log_evidence": self.log_evidence}
        return evidence | {f"width/{name}": width for name, width in self.widths.items()}

    @property
    def num_data(self) -> int:
        """N, the number of training data."""
        return self._state.num_data

    @property
    def epochs(self) -> float:
        """The epochs done so far: the data seen, as a multiple of N."""
        return self._state.progress

    @property
    def seed(self) -> int:
        """A seed for the noise of the next weight step, another one after each `step`."""
        return seed_for(self.config.seed, WEIGHTS, self._state.num_seen)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Minus the log joint of a batch per datum, up to a constant: a mean, to be minimized in the weights.

        Arguments:
            outputs: The outputs of the network, (B, C, ...).
            targets: The targets, (B, ...).
        """
        self.model.likelihood.check(outputs, targets)
        return self.prior_penalty() - self.model.likelihood.log_prob(outputs, targets) / len(targets)

    def prior_penalty(self) -> Tensor:
        r"""The penalty :math:`\frac1{2N} \sum_p \delta_p \theta_p^2`, for a loss that is a mean over data.

        It takes the place of weight decay. Its gradient is in the weights alone.
        """
        self._follow_device()
        shifts = self.model.prior.trained_shifts()
        weights = self.model.trained_weights.items()
        energies = [(shifts[name].detach() * weight.flatten().square()).sum() for name, weight in weights]
        return torch.stack(energies).sum() / (2 * self._state.num_data)

    @torch.no_grad()
    def add_prior_gradient(self, optimizer: Optimizer) -> None:
        """Add the gradient of `prior_penalty` to that of the loss, as weight decay does, for a loss without it.

        Arguments:
            optimizer: The optimizer that is about to take a step; of its weights, those that have a gradient.
        """
        self._follow_device()
        shifts = self.model.prior.trained_shifts()
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for name, weight in self.model.trained_weights.items():
            if weight.grad is not None and id(weight) in own:
                weight.grad += (shifts[name] * weight.flatten()).reshape(weight.shape) / self._state.num_data

    def step_to(self, epochs: float | int) -> bool:
        """Do as `step`, for a trainer that counts (fractional) epochs instead of data."""
        return self.step(max(round(epochs * self.num_data) - self._state.num_seen, 0))

    def step(self, num_data: int) -> bool:
        """Count the data of a weight step, take the hyper steps that are due then, and return whether there were any.

        Call it after each step of the weights' optimizer.

        Arguments:
            num_data: The number of data in the step, over all processes and all batches whose gradients it added up.
        """
        state, config = self._state, self.config
        state.num_seen += num_data
        if state.optimizer is None:
            return False
        due = hyper_steps_due(state.progress, data_per_step(config, state.num_data), state.num_data, config)
        learning, rarely, taken = state.learning, config.hyper.estimator == "running", False
        while learning.num_steps < due:
            if learning.begun is None and self._may_begin():
                learning.begin(state.network, state.progress)
            if learning.active and hyper_progress(state.progress, config, learning.begun) > 1:
                learning.ended = state.progress  # the rest of the epochs is for the weights
            if not learning.active and rarely and learning.num_steps % RARELY:
                learning.num_steps += 1  # the prior alone needs fewer steps than widths do
                continue
            self.hyper_step()
            taken = True
        return taken

    def hyper_step(self) -> Evidence:
        """Take one hyper step now, whatever the schedule says, and return the estimate of the evidence before it."""
        state = self._state
        if state.optimizer is None:
            raise StructureError("The model has no hyperparameters to learn: none of them requires a gradient.")
        with self._computing():
            state.evidence = hyper_step(state, self._matched(), self.config)
        return state.evidence

    def evaluate(self) -> Evidence:
        """The evidence of all data in its terms, under the same noise and probes every time: states are compared by it.

        A pass over all data.
        """
        with self._computing():
            return evaluate(self._state, self._matched(), self.config)

    def state_dict(self) -> dict[str, Any]:
        """Everything that hyper steps change, as tensors and plain values; the weights are not part of it."""
        state = self._state
        running = {} if state.running is None else state.running.to_tensors()
        return {
            "hyperparameters": {name: p.detach().clone() for name, p in self._hyperparameters().items()},
            "optimizer": {name: tensor.clone() for name, tensor in optimizer_tensors(state.optimizer).items()},
            "running": {name: tensor.clone() for name, tensor in running.items()},
            "learning": dataclasses.asdict(state.learning),
            "evidence": None if state.evidence is None else dataclasses.asdict(state.evidence),
            **{name: getattr(state, name) for name in NUMBERS},
        }

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the learner to what `state_dict` returned, for the same model and data; training goes on bit for bit.

        Arguments:
            state_dict: The state; the weights have to be restored by the loop.
        """
        state, own = self._state, self._hyperparameters()
        self._check_state(state_dict, own)
        for name, parameter in own.items():
            parameter.copy_(state_dict["hyperparameters"][name])
        set_optimizer_tensors(state.optimizer, state_dict["optimizer"])
        moved = {name: tensor.to(self._device) for name, tensor in state_dict["running"].items()}
        state.running = RunningStatistics.from_tensors(moved, list(self.model.weights)) if moved else None
        state.learning = from_plain(state_dict["learning"], WidthLearning, "learning")
        evidence = state_dict["evidence"]
        state.evidence = None if evidence is None else from_plain(evidence, Evidence, "evidence")
        for name in NUMBERS:
            setattr(state, name, state_dict[name])

    def release(self) -> None:
        """Let the hyperparameters require gradients again, as before the learner was made; its steps go on to work."""
        self._require_grad(True)
        self._held = []

    def _may_begin(self) -> bool:
        """Whether the widths may be learned from now on: at once, or when the network knows something of its inputs."""
        state = self._state
        if augmentation_of(state.network) is None:
            return False
        if self.config.hyper.width_optimizer == "adam":  # as in paper 1
            return True
        if state.log_likelihood is not None:
            return beats_constant(state.log_likelihood, state.constant)
        with self._computing():
            batches = self._matched()
            self._constant = self._constant or constant_of(state.model, batches)
            state.constant = self._constant()
            return beats_constant(mean_log_likelihood(state, batches, self.config), state.constant)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Evaluation mode, gradients and full precision, whatever the loop is in; held hyperparameters let go."""
        self._follow_device()
        self._agree()
        kind = self._device.type  # other kinds of devices may have no autocast, and refuse to switch it off
        full = torch.autocast(kind, enabled=False) if kind in ("cpu", "cuda") else nullcontext()
        with torch.inference_mode(False), torch.enable_grad(), full, evaluation(self.model.network):
            self._require_grad(True)
            try:
                yield
            finally:
                self._require_grad(False)

    def _require_grad(self, value: bool) -> None:
        for parameter in self._held:
            parameter.requires_grad_(value)

    def _hyperparameters(self) -> dict[str, nn.Parameter]:
        self._require_grad(True)
        found = self._state.hyperparameters()
        self._require_grad(False)
        return found

    def _matched(self) -> Batches:
        return self._batches.matching(self.model.network)

    def _follow_device(self) -> None:
        """Move everything to the device of the network, if a trainer has moved that."""
        device = device_of(self.model.network)
        if device != self._device:
            move_model(self.model, device)
            self._device = device
            self.load_state_dict(self.state_dict())

    def _agree(self) -> None:
        """Raise `StructureError` once if processes differ, which would wait for one another in vain later."""
        if self._held and not self._agreed:
            state = self._state
            widths = [parameter.tolist() for parameter in self._held]
            require_alike((state.num_seen, state.num_data, widths), "progress, data and hyperparameters")
            self._agreed = True

    def _check_state(self, state_dict: Mapping[str, Any], own: Mapping[str, nn.Parameter]) -> None:
        """Raise `StructureError` for the state of another model or of other data."""
        shapes = {name: tuple(parameter.shape) for name, parameter in own.items()}
        found = {name: tuple(tensor.shape) for name, tensor in state_dict["hyperparameters"].items()}
        if shapes != found:
            raise StructureError(
                f"Expected the state of a learner of {shapes}, got that of {found}. Make the learner with the same "
                "network, likelihood and prior."
            )
        if state_dict["num_data"] != self._state.num_data:
            raise StructureError(
                f"Expected the state of a learner of {self._state.num_data} data, got that of "
                f"{state_dict['num_data']}. Make the learner with the same data."
            )
