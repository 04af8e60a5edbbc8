"""Captured forward passes: the input of every covered layer, and gradients with respect to its output.

Forward hooks on the modules that hold weights record each call: its input and the gradient edge of its output, taken in
the hook, so that an in-place activation after the layer has no effect. There are no backward hooks; hooks and replaced
forwards are removed before `capture` returns. The inner batch has N·S rows (times the `folded_batch` that a module
declares), batch-major: row n·S + s is sample s of datum n.

As everywhere in torch, results are differentiable unless they are computed under `torch.no_grad()`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.attention import SDPBackend, sdpa_kernel

from .._types import IndependentSets, MovingOutputs, SampleAveraging, SampleWeighting
from ..errors import CaptureError, ShapeError
from ..priors import hyperparameters_of
from .coverage import Structure, Use, find_uses, is_by_autograd, structure_of
from .jacobian_factors import DirectVJP, JacobianFactors
from .per_datum import PerDatumPass, per_datum_pass
from .piecewise_linear import cheap_derivatives
from .rules.attention import attend
from .rules.registry import rule_for
from .rules.user import RuleFunction

CHUNK_ENTRIES = 2**24  # entries of the largest block of vector–Jacobian products in memory


class Call(NamedTuple):
    """One call of one module."""

    name: str
    module: nn.Module
    rule: RuleFunction
    inputs: Tensor  # (N·S·F, ...)
    version: int
    edge: GradientEdge
    shape: torch.Size


class CallFactors(NamedTuple):
    """The factors of one call, and the number of the call, whose output gradient they need."""

    call: int
    factors: JacobianFactors


@dataclass(frozen=True)
class Captured:
    """A forward pass and the factors of the Jacobian of each layer in it."""

    # the network's outputs f̂, shape (N, C), positions behind the channels flattened in their order
    outputs: Float[Tensor, "N C"]
    num_samples: int  # S, the number of augmentation samples of each datum
    num_sets: int  # the number of independent sets in which samples were drawn
    # the weight of each sample in f̂, shape (N, S), rows summing to 1; None if each is 1/S
    sample_weights: Tensor | None
    weights: Mapping[str, nn.Parameter]  # the covered weights, by name
    structures: Mapping[str, Structure]  # the structure of each weight's block in a Kronecker-factored curvature
    factors: Mapping[str, list[CallFactors]]  # the factors of each weight, one entry per call
    edges: list[GradientEdge]  # the gradient edge of each call's output
    shapes: list[torch.Size]  # the shape of each call's output
    folds: list[int]  # the number of rows of the inner batch per datum and sample, for each call
    differentiable: bool  # whether gradients have a graph
    # the pass of the weights without a rule, whose products follow those of the calls; or None
    per_datum: PerDatumPass | None = None
    moving: bool = False  # whether outputs move with the input, so that gradients of different samples are not alike

    def pull_all(self, probes: Iterable[Float[Tensor, "N C"]]) -> Iterator[list[Tensor]]:
        """The gradients of `pull` for one probe after the other; the last one frees the graph of the pass."""
        remaining = iter(probes)
        probe = next(remaining, None)
        while probe is not None:
            following = next(remaining, None)
            yield self.pull(probe, keep=following is not None)
            probe = following

    def pull(self, probe: Float[Tensor, "N C"], *, keep: bool = True) -> list[Tensor]:
        r"""The gradients of :math:`\sum_n v_n^\top \hat f_n` at each call's output, shape (N·F, S, ...).

        Arguments:
            probe: The vectors :math:`v_n`.
            keep: Whether `pull` can be called again; on a differentiable pass it always can.
        """
        found = self._pull_calls(probe, keep) if self.edges else []
        if self.per_datum is None:
            return found
        return found + self.per_datum.pull(probe, keep=keep, differentiable=self.differentiable)

    def _pull_calls(self, probe: Float[Tensor, "N C"], keep: bool) -> list[Tensor]:
        gradients = torch.autograd.grad(
            self.outputs,
            self.edges,
            probe,
            retain_graph=keep or self.differentiable,
            create_graph=self.differentiable,
            allow_unused=True,
        )
        # the outputs may not depend on a call
        filled = [probe.new_zeros(shape) if g is None else g for g, shape in zip(gradients, self.shapes, strict=True)]
        return [_split(g, self.num_samples, fold) for g, fold in zip(filled, self.folds, strict=True)]

    def vjp(self, name: str, gradients: Sequence[Tensor], rows: slice) -> Float[Tensor, "n P"]:
        r"""The products :math:`\hat J_n^\top v` of the data in `rows` for the weight `name`, summed over its calls.

        Arguments:
            gradients: The gradients of one probe at each call, as returned by `pull`.
        """
        products = [factors.vjp(gradients[call], rows) for call, factors in self.factors[name]]
        if not products:
            return self.outputs.new_zeros(rows.stop - rows.start, self.weights[name].numel())
        return reduce(torch.add, products)

    def summed_vjp(self, name: str, gradients: Sequence[Tensor]) -> Float[Tensor, " P"]:
        r"""The sum :math:`\sum_n \hat J_n^\top v_n` of the products of all data; arguments as in `vjp`."""
        products = [factors.summed_vjp(gradients[call]) for call, factors in self.factors[name]]
        return reduce(torch.add, products) if products else self.outputs.new_zeros(self.weights[name].numel())


def capture(
    network: nn.Module,
    x: Tensor,
    weights: Mapping[str, nn.Parameter],
    *,
    index: Int[Tensor, " N"] | None = None,
    seed: int = 0,
    fixed_weights: bool = False,
) -> Captured:
    """Forward pass of a batch with every call of a covered layer captured.

    Arguments:
        network: The network, (N, ...) -> (N, C); an averaged network also takes `index` and `seed`.
        x: The inputs, shape (N, ...).
        index: The identity of each datum, for the noise of an averaged network; its position by default.
        fixed_weights: Whether no gradient with respect to the weights will be asked for: its graph is not recorded.
    """
    if torch.is_inference_mode_enabled():
        raise CaptureError(
            "Expected autograd to be available, got torch.inference_mode(). Compute curvature outside of it "
            "(torch.no_grad() is supported)."
        )
    differentiable = torch.is_grad_enabled()
    uses = find_uses(network, weights)
    without_rule = {name: weights[name] for name, found in uses.items() if is_by_autograd(found)}
    constants = {name: weight.detach() for name, weight in weights.items()} if fixed_weights else {}
    forward = partial(_forward, network, weights, seed, differentiable)
    with torch.enable_grad():
        with _watch(network, uses, fixed_weights) as calls:
            outputs = forward(constants, x, index)
        _check_outputs(outputs, x)
        positions = torch.arange(len(x), device=x.device) if index is None else index
        per_datum = per_datum_pass(forward, without_rule, x, positions) if without_rule else None
    num_samples = network.num_samples if isinstance(network, SampleAveraging) else 1
    num_sets = network.num_sets if isinstance(network, IndependentSets) else 1
    folds = [_fold(network, call, x.shape[0] * num_samples) for call in calls]
    with torch.set_grad_enabled(differentiable):
        factors = _factors(uses, calls, num_samples, folds)
        sample_weights = _sample_weights(network, x, index, seed)
    structures = {name: structure_of(weights[name], found) for name, found in uses.items()}
    edges, shapes = [call.edge for call in calls], [call.shape for call in calls]
    samples = num_samples, num_sets, sample_weights
    found = Captured(outputs, *samples, weights, structures, factors, edges, shapes, folds, differentiable, per_datum)
    return replace(found, moving=isinstance(network, MovingOutputs) and network.moves_outputs)


def outputs_without_capture(
    network: nn.Module, x: Tensor, weights: Mapping[str, nn.Parameter], *, index: Int[Tensor, " N"]
) -> Float[Tensor, "N C"]:
    """The outputs of `capture` alone, without graph and hooks; arguments as there."""
    # with gradients, as a captured pass has them: without, torch may choose fused kernels of other rounding
    with torch.enable_grad():
        return _forward(network, weights, 0, False, {}, x, index).detach()


def row_slices(num_data: int, num_params: int) -> Iterator[slice]:
    """Consecutive slices of the data whose products have a bounded number of entries."""
    step = max(1, CHUNK_ENTRIES // max(1, num_params))
    for start in range(0, num_data, step):
        yield slice(start, min(start + step, num_data))


def _forward(
    network: nn.Module,
    weights: Mapping[str, nn.Parameter],
    seed: int,
    differentiable: bool,
    replaced: Mapping[str, Tensor],
    x: Tensor,
    index: Tensor | None,
) -> Tensor:
    # without a graph, hyperparameters are constants, so that the augmentation builds no graph
    constants = {} if differentiable else {k: p.detach() for k, p in hyperparameters_of(network, weights).items()}
    arguments = {"index": index, "seed": seed} if isinstance(network, SampleAveraging) else {}
    with _twice_differentiable(network) if differentiable else cheap_derivatives():
        outputs: Tensor = torch.func.functional_call(network, {**constants, **replaced}, (x,), arguments)
    return outputs.flatten(1) if outputs.ndim > 2 else outputs


@contextmanager
def _twice_differentiable(network: nn.Module) -> Iterator[None]:
    """Without fused kernels that have no second derivative (attention, recurrent layers), or an expensive one."""
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(cheap_derivatives())
        if any(isinstance(module, nn.RNNBase) for module in network.modules()):
            stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
            torch._C._set_mkldnn_enabled(False)  # torch.backends.mkldnn.flags warns of settings for other devices
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        yield


def _sample_weights(network: nn.Module, x: Tensor, index: Tensor | None, seed: int) -> Tensor | None:
    if not isinstance(network, SampleWeighting):
        return None
    return network.sample_weights(torch.arange(len(x), device=x.device) if index is None else index, seed=seed)


@contextmanager
def _watch(network: nn.Module, uses: Mapping[str, list[Use]], fixed_weights: bool) -> Iterator[list[Call]]:
    """The list to which calls of covered modules are appended while the context is open."""
    calls: list[Call] = []
    names = {module: name for name, module in network.named_modules()}

    def report(module: nn.Module, rule: RuleFunction, inputs: Tensor, output: Tensor) -> Tensor:
        """Record the call, and return the output that the network goes on with."""
        follows = output
        if fixed_weights and torch.is_grad_enabled() and not output.requires_grad:
            follows = output.requires_grad_().clone()  # cloned: an in-place operation may follow
        if output.requires_grad:
            edge = get_gradient_edge(output)
            calls.append(Call(names[module], module, rule, inputs, inputs._version, edge, output.shape))
        return follows

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        rule = rule_for(module)
        assert rule is not None, "a module without one is not watched"
        follows = report(module, rule.function, args[0] if args else kwargs["input"], output)
        # an in-place operation on a view rewrites its history and would remove the edge from the graph
        return follows.clone() if follows._is_view() else follows

    with ExitStack() as stack:
        for module in {use.module for found in uses.values() if not is_by_autograd(found) for use in found}:
            if isinstance(module, nn.MultiheadAttention):
                stack.enter_context(_replaced_forward(module, partial(attend, report, module)))
            else:
                # before the user's own hooks, which may replace the output
                handle = module.register_forward_hook(hook, prepend=True, with_kwargs=True)
                stack.callback(handle.remove)
        yield calls


@contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__["forward"]
        if before is not None:
            module.__dict__["forward"] = before


def _factors(
    uses: Mapping[str, list[Use]], calls: list[Call], num_samples: int, folds: list[int]
) -> dict[str, list[CallFactors]]:
    without_rule = [name for name, found in uses.items() if is_by_autograd(found)]
    found: dict[str, list[CallFactors]] = {name: [] for name in uses}
    for number, name in enumerate(without_rule, start=len(calls)):
        found[name].append(CallFactors(number, DirectVJP(lambda products: products.flatten(1))))
    places = {(use.module, use.parameter): name for name in uses if name not in without_rule for use in uses[name]}
    for number, (call, fold) in enumerate(zip(calls, folds, strict=True)):
        if call.inputs._version != call.version:
            raise CaptureError(
                f"Expected the input of module '{call.name}' ({type(call.module).__name__}) to be unchanged, but it "
                "was modified in place after the call. Use the out-of-place operation (x = x + y instead of x += y)."
            )
        for parameter, factors in call.rule(call.module, _split(call.inputs, num_samples, fold)).items():
            place = places.get((call.module, parameter))
            if place is not None:
                found[place].append(CallFactors(number, replace(factors, fold=fold)))
    return found


def _split(rows: Tensor, num_samples: int, fold: int) -> Tensor:
    """The inner batch (N·S·F, ...) as (N·F, S, ...)."""
    if fold == 1:
        return rows.unflatten(0, (-1, num_samples))
    return rows.unflatten(0, (-1, num_samples, fold)).transpose(1, 2).flatten(0, 1)


def _fold(network: nn.Module, call: Call, rows: int) -> int:
    """Number of rows of the inner batch per datum and sample in this call, as its parents declare."""
    path = call.name.split(".")
    parents = [network.get_submodule(".".join(path[:depth])) for depth in range(len(path))]
    fold = 1
    for parent in parents:
        fold *= getattr(parent, "folded_batch", 1)
    found = call.inputs.shape[0] if call.inputs.dim() else 0
    if found != rows * fold:
        raise ShapeError(
            f"Expected {rows} rows (data × samples){'' if fold == 1 else f' × {fold} folded'} in the input of module "
            f"'{call.name}' ({type(call.module).__name__}), got {found}. Curvature needs separate rows for each datum, "
            "batch-major: expand an input that is shared by the batch (such as position indices), or give the module "
            "an attribute by_autograd = True; if it folds an axis of size F into the batch, folded_batch = F."
        )
    return fold


def _check_outputs(outputs: Tensor, x: Tensor) -> None:
    if outputs.dim() != 2 or outputs.shape[0] != x.shape[0]:
        raise ShapeError(
            f"Expected outputs of shape ({x.shape[0]}, number of outputs) for inputs of shape {tuple(x.shape)}, got "
            f"outputs of shape {tuple(outputs.shape)}. Flatten the outputs of one datum into one axis."
        )
