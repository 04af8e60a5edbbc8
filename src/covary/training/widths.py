r"""How the widths of an augmentation are learned: from when, how far at once, until when.

*From when.* A network that predicts no better than a constant has no opinion on transforms: to it, wider is always
better. So hyper steps on the augmentation begin when the network's log-likelihood and its evidence are above those of
the best constant prediction.

*How far.* One hyper step moves no width by more than a bound Δ. After it, the change of the evidence is measured on
other data, under common noise and probes, with the log-determinant linearized at the statistics T with cotangents C:

.. math:: g = \frac NM \big( \Delta \log p(D_M|\theta, \eta) - \langle C, \Delta T_M \rangle \big).

The log-determinant is concave in the curvature, so the evidence of these data changes by at least g (with Kronecker
factors, whose product is not linear in both, up to the second order). Where g is below zero by more than twice its
standard error, the widths are set back and Δ is halved; else Δ grows, up to its first value.

*Until when.* Widths are learned in the first part of the epochs; then they are held, and the weights finish with them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from ..augment import Augmentation
from ..augment.limits import free_widths, project_
from ..batches import Batches
from ..curvature.passes import captured_chunks, draw_probes
from ..distributed import all_sum
from ..hypergrad.two_pass import Cotangents, inner_product
from ..models import Model
from ..noise import Stream

MOMENTUM = 0.8  # of the steps: weights follow the widths, and move their optimum further along
MEMORY = 0.8  # of the Fisher information, from one hyper step to the next
LEAST_FISHER = 0.02  # per datum, of a width in its unit: with less, a width has hardly any effect
WIDE = 0.3  # from this width on
GROWTH = 1.5  # of the bound after a hyper step that is kept


def augmentation_of(network: nn.Module) -> Augmentation | None:
    """The augmentation of a network; None where it has none."""
    augment = getattr(network, "augment", None)
    return augment if isinstance(augment, Augmentation) else None


@dataclass
class WidthLearning:
    """How far the learning of the widths has come; part of the state of a fit."""

    max_change: float  # the bound Δ of the next hyper step
    num_steps: int = 0  # the hyper steps taken so far, on whatever was to be learned
    begun: float | None = None  # the epochs after which the widths began to be learned; None before
    ended: float | None = None  # the epochs after which that ended; None before
    num_undone: int = 0  # hyper steps that were undone because the evidence fell
    # the widths before the first and after each hyper step that learned them
    widths: list[list[float]] = field(default_factory=list)
    # the Fisher information in each parameter, from the variance between minibatches
    fisher: list[list[float]] = field(default_factory=list)
    # the last step of each parameter; empty after one that was undone
    velocity: list[list[float]] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether hyper steps move the widths now."""
        return self.begun is not None and self.ended is None

    def begin(self, network: nn.Module, epochs: float) -> None:
        """Let hyper steps move the widths from now on, if there are any, after this (fractional) number of epochs."""
        augment = augmentation_of(network)
        if augment is not None:
            self.begun, self.widths = float(epochs), [augment.widths.tolist()]

    def end_step(self, network: nn.Module) -> None:
        """Count a hyper step, and note the widths after it."""
        self.num_steps += 1
        augment = augmentation_of(network)
        if augment is not None and self.active:
            self.widths.append(augment.widths.tolist())

    @torch.no_grad()
    def climb(self, move: "Move", gradients: Sequence[Sequence[Tensor]], sizes: tuple[int, int], part: float) -> None:
        """Move the parameters of the augmentation by a part of a natural-gradient step.

        Arguments:
            move: The move, begun at the present parameters.
            gradients: For each of several minibatches, the gradient in each parameter, scaled to all data.
            sizes: (M, N): the data in a minibatch, and all data.
            part: The part of the step that is taken.
        """
        fraction, num_data = sizes[0] / sizes[1], sizes[1]
        stacked = [torch.stack(parts).double() for parts in zip(*gradients, strict=True)]
        now = [fraction * entry.var(0).flatten() for entry in stacked]
        before = [entry.new_tensor(past) for entry, past in zip(now, self.fisher, strict=False)] or now
        fishers = [MEMORY * b + (1 - MEMORY) * n for b, n in zip(before, now, strict=True)]
        self.fisher = [entry.tolist() for entry in fishers]
        num_read = fraction * len(gradients)  # of all data
        past = self.velocity or [[0.0] * len(entry) for entry in now]
        self.velocity = []
        for parameter, entry, fisher, last in zip(move.parameters, stacked, fishers, past, strict=True):
            mean = entry.mean(0).flatten()
            signal = mean.square() * num_read  # over the variance of the mean, which is fisher / num_read
            shrunk = torch.where(signal > 0, mean * signal / (signal + fisher), 0.0)
            # log Z is even in a width, so gradient and information vanish with it: so does the damping
            least = LEAST_FISHER * num_data * (parameter.detach().double().flatten() / WIDE).square().clamp_max(1.0)
            step = torch.where(signal > 0, shrunk / (fisher + least), 0.0)
            velocity = MOMENTUM * step.new_tensor(last) + part * step
            self.velocity.append(velocity.tolist())
            parameter.add_(velocity.view_as(parameter).to(parameter))
        move.bound()

    def accept(self, kept: bool, first: float) -> None:
        """Adapt the bound to a hyper step that was kept, or undone; `first` is its largest value."""
        self.max_change = min(GROWTH * self.max_change, first) if kept else self.max_change / 2
        self.num_undone += not kept
        self.velocity = self.velocity if kept else []


@contextmanager
def held_fixed(network: nn.Module, fixed: bool) -> Iterator[None]:
    """Keep the augmentation out of what is learned while the context is open, if it is to be held fixed."""
    parameters = _learned(augmentation_of(network))
    for parameter in parameters if fixed else []:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


class Move:
    """The move of an augmentation during one hyper step: bounded, and undone if need be.

    Arguments:
        network: The network, with an augmentation or without.
        max_change: The bound Δ.
    """

    def __init__(self, network: nn.Module, max_change: float) -> None:
        augment = augmentation_of(network)
        learned = _learned(augment)
        self.augment, self.max_change, self.parameters = augment, max_change, learned
        self.before = [parameter.detach().clone() for parameter in learned]
        self.widths = free_widths(augment).detach().clone() if augment is not None else torch.zeros(0, device="cpu")

    def moves(self, parameter: nn.Parameter) -> bool:
        """Whether a parameter is one of those that move."""
        return any(parameter is own for own in self.parameters)

    def own(self, parameters: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> list[Tensor]:
        """The values by name of those parameters that move, in their order."""
        names = {id(parameter): name for name, parameter in parameters.items()}
        return [values[names[id(parameter)]] for parameter in self.parameters]

    @torch.no_grad()
    def bound(self) -> None:
        """Scale the move down, in all parameters alike, so that no width changes by more than the bound.

        Then set parameters back whose widths are held at a limit; moves are measured as if there were none.
        """
        if not self.parameters or self.augment is None:
            return
        after, scale = [parameter.detach().clone() for parameter in self.parameters], 1.0
        while (largest := float((free_widths(self.augment) - self.widths).abs().max())) > self.max_change * (1 + 1e-5):
            scale *= self.max_change / largest  # of the whole move: scaled again and again, it could round to itself
            for parameter, before, value in zip(self.parameters, self.before, after, strict=True):
                parameter.copy_(before + scale * (value - before))
        project_(self.augment)

    @torch.no_grad()
    def undo(self, optimizer: Optimizer) -> None:
        """Set the parameters back, and forget the direction in which the optimizer was moving them."""
        for parameter, before in zip(self.parameters, self.before, strict=True):
            parameter.copy_(before)
            if "exp_avg" in optimizer.state.get(parameter, {}):
                optimizer.state[parameter]["exp_avg"].zero_()

    @contextmanager
    def reverted(self) -> Iterator[None]:
        """The parameters as they were before the move, while the context is open."""
        after = [parameter.detach().clone() for parameter in self.parameters]
        with torch.no_grad():
            for parameter, before in zip(self.parameters, self.before, strict=True):
                parameter.copy_(before)
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value in zip(self.parameters, after, strict=True):
                    parameter.copy_(value)


def _learned(augment: Augmentation | None) -> list[nn.Parameter]:
    """The parameters of an augmentation that are learned."""
    return [p for p in augment.parameters() if p.requires_grad] if isinstance(augment, nn.Module) else []


class EvidenceChange(NamedTuple):
    """The change g of the evidence by a move, and its standard error."""

    value: float
    error: float


@torch.no_grad()
def evidence_change(
    model: Model, batches: Batches, cotangents: Cotangents, move: Move, seed: int = 0
) -> EvidenceChange:
    """The change of the evidence by a move, from M data under common noise and probes; a lower bound on them.

    Arguments:
        model: The model after the move.
        batches: The M data (of each process).
        cotangents: The cotangents before the move.
        move: The move.
        seed: The seed of noise and probes.
    """
    after = objective_each(model, batches, cotangents, seed)
    with move.reverted():
        change = after - objective_each(model, batches, cotangents, seed)
    return scaled_to_all(change, cotangents.num_data)


def scaled_to_all(change: Float[Tensor, " M"], num_data: int) -> EvidenceChange:
    """The change for N data, from that of each of M (of each process)."""
    total, squares, number = all_sum(torch.stack([change.sum(), change.square().sum(), change.new_tensor(len(change))]))
    scale = num_data / float(number)
    variance = max(float(squares - total**2 / number), 0.0)
    return EvidenceChange(scale * float(total), scale * math.sqrt(variance))


def objective_each(model: Model, batches: Batches, cotangents: Cotangents, seed: int) -> Float[Tensor, " M"]:
    """The log-likelihood of each datum, less an equal part of the linearized log-determinant of all M.

    Equal parts, so that the spread over data depends neither on how they are divided into chunks nor among processes.
    """
    found, products = [], []
    for captured, batch in captured_chunks(model, batches, seed):
        probes = draw_probes(model, captured, batch, cotangents.curvature.probes, seed, Stream.CURVATURE_SECOND)
        products.append(inner_product(cotangents.tensors, cotangents.curvature.blocks(captured, probes)).double())
        found.append(model.likelihood.log_prob_each(captured.outputs, batch.y).double())
    each, product = torch.cat(found), torch.stack(products).sum()
    total, number = all_sum(torch.stack([product, product.new_tensor(len(each))]))
    return each - total / number
