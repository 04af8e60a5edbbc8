"""Curvature of random networks: random layers, options, shapes, likelihoods and averages against brute force.

Each test is made for every layer in turn, so that none depends on luck to be drawn; what stands before and after it,
its options and the data are drawn. The oracle of KFAC is its definition: ``a`` is what a layer answers when its weight
is a one-hot vector, ``g`` the derivative of the outputs by a probe that is added to the layer's output. Nothing is
unfolded, padded or split into groups by hand.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

import covary
from cases import diagonal_blocks
from covary.curvature import diag, full, kfac, tkfac
from covary.linalg import Kron
from fuzz.random_networks import (
    CONVOLUTIONS,
    KRON_LAYERS,
    LAYERS,
    TRANSPOSED,
    Jitter,
    Problem,
    Shape,
    assert_same,
    problems,
)
from oracles.curvature import ggn, matrix_root, output_hessian

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
    pytest.mark.filterwarnings("ignore:Weights without a rule"),
]


def examples(divisor: int) -> settings:
    """A fraction of the examples of the profile: the tests are repeated for every layer."""
    return settings(
        max_examples=max(1, settings().max_examples // divisor),
        suppress_health_check=[HealthCheck.too_slow],
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),  # to explain a failure takes minutes
    )


# KFAC by its definition.


@dataclass(frozen=True)
class Rows:
    """One datum's a (R, Q, D) and g (C, R, Q, G) of one weight, over positions and calls, samples averaged."""

    a: Tensor
    g: Tensor

    def weights_of_a(self, traced: bool) -> Tensor:
        """The weight of each row a, (R, Q)."""
        return self.g.square().sum((0, 3)) if traced else torch.ones(self.a.shape[:2])

    def weights_of_g(self, traced: bool) -> Tensor:
        """The weight of each row g, (R, Q)."""
        return self.a.square().sum(2) if traced else torch.ones(self.a.shape[:2])

    def reduced(self) -> "Rows":
        return Rows(self.a.mean(0, keepdim=True), self.g.sum(1, keepdim=True))


def kfac_by_definition(
    problem: Problem, approx: str, index: Tensor, seed: int, traced: bool = False
) -> dict[str, Tensor]:
    """The Kronecker product of every weight matrix, dense; plain or traced."""
    layers = {f"{name}.weight": layer for name, layer in problem.network.named_modules() if multiplies(layer)}
    products: dict[str, Tensor] = {}
    data = [rows_of_datum(problem, n, layers, index, seed) for n in range(problem.num_data)]
    for name, layer in layers.items():
        rows = [datum[name].reduced() if approx == "reduce" else datum[name] for datum in data]
        a_factor = sum(torch.einsum("rq,rqd,rqe->qde", r.weights_of_a(traced), r.a, r.a) for r in rows)
        g_factor = sum(torch.einsum("rq,crqg,crqh->qgh", r.weights_of_g(traced), r.g, r.g) for r in rows)
        factors = (a_factor, g_factor) if rows_are_inputs(layer) else (g_factor, a_factor)
        counts = [a.trace() for a in a_factor] if traced else [sum(len(r.a) for r in rows)] * len(a_factor)
        # without curvature, such as behind inactive units, the product is zero for any count
        pairs = zip(*(factor.contiguous() for factor in factors), counts, strict=True)
        blocks = [torch.kron(left, right) / (count or 1) for left, right, count in pairs]
        products[name] = torch.block_diag(*blocks)
    return products


def multiplies(layer: nn.Module) -> bool:
    return isinstance(layer, (nn.Linear, nn.Embedding, *CONVOLUTIONS.values(), *TRANSPOSED.values()))


def rows_are_inputs(layer: nn.Module) -> bool:
    return isinstance(layer, (nn.Embedding, *TRANSPOSED.values()))


def rows_of_datum(problem: Problem, n: int, layers: dict[str, nn.Module], index: Tensor, seed: int) -> dict[str, Rows]:
    """The rows of datum n, which is passed through the network alone, independent of other data."""
    calls: list[tuple[str, Tensor, Tensor]] = []

    def note(name: str) -> Callable:
        def hook(module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
            probe = torch.zeros_like(output, requires_grad=True)
            calls.append((name, args[0].detach().clone(), probe))
            return output + probe

        return hook

    handles = [layer.register_forward_hook(note(name)) for name, layer in layers.items()]
    datum = slice(n, n + 1)
    outputs = problem.outputs(datum, index, seed)
    for handle in handles:
        handle.remove()
    root = matrix_root(output_hessian(problem.loss(datum), outputs.detach()).squeeze(0, 2))
    probes = [probe for _, _, probe in calls]
    pulled = [torch.autograd.grad(root_row @ outputs[0], probes, retain_graph=True) for root_row in root]
    gradients = [torch.stack(calls) for calls in zip(*pulled, strict=True)]  # for each call (C, S, ...)
    found = [(name, rows_of_call(layers[name], x, g)) for (name, x, _), g in zip(calls, gradients, strict=True)]
    return {name: joined([rows for called, rows in found if called == name]) for name in layers}


def joined(calls: list[Rows]) -> Rows:
    return Rows(torch.cat([rows.a for rows in calls]), torch.cat([rows.g for rows in calls], 1))


def rows_of_call(layer: nn.Module, x: Tensor, gradient: Tensor) -> Rows:
    """The rows of one call: x has its samples (S, ...), gradient its outputs and samples (C, S, ...)."""
    groups = getattr(layer, "groups", 1)
    g = gradient.sum(1)  # the mean over samples is part of the network: each gradient contains 1/S
    if isinstance(layer, tuple(TRANSPOSED.values())):
        return Rows(by_group(x.mean(0, keepdim=True), groups)[0], transposed_gradients(layer, x.shape[1:], g))
    answers = weight_answers(layer, x, groups).mean(0)
    return Rows(answers, by_group(channels_first(layer, g), groups))


def channels_first(layer: nn.Module, outputs: Tensor) -> Tensor:
    return outputs.movedim(-1, 1) if isinstance(layer, nn.Linear | nn.Embedding) else outputs


def by_group(x: Tensor, groups: int) -> Tensor:
    """Channels (B, QG, *space) as (B, R, Q, G)."""
    return x.reshape(len(x), groups, x.shape[1] // groups, -1).permute(0, 3, 1, 2)


def one_hot_layer(layer: nn.Module, groups: int, column: int) -> Callable[[Tensor], Tensor]:
    """The layer without bias whose weight is zero but for one column in the first row of each group."""
    weight = torch.zeros_like(layer.weight)
    if isinstance(layer, nn.Embedding):
        weight[column, 0] = 1.0
    else:
        weight.view(groups, len(weight) // groups, -1)[:, 0, column] = 1.0
    state = {"weight": weight}
    if getattr(layer, "bias", None) is not None:
        state["bias"] = torch.zeros_like(layer.bias)
    return lambda x: functional_call(layer, state, (x,))


def weight_answers(layer: nn.Module, x: Tensor, groups: int) -> Tensor:
    """a (S, R, Q, D): the outputs of the layer for weights that select one entry of a."""
    num_columns = len(layer.weight) if isinstance(layer, nn.Embedding) else layer.weight[0].numel()
    answers = [channels_first(layer, one_hot_layer(layer, groups, d)(x)) for d in range(num_columns)]
    return torch.stack([by_group(answer, groups)[..., 0] for answer in answers], -1)


def transposed_gradients(layer: nn.Module, shape: Shape, gradient: Tensor) -> Tensor:
    """g (C, R, Q, G): the gradient with respect to one entry of a row, for an input of one at position r."""
    channels, space = shape[0], shape[1:]
    positions = torch.eye(math.prod(space)).view(-1, 1, *space).expand(-1, channels, *space)
    columns = []
    for column in range(layer.weight[0].numel()):
        reached = by_group(one_hot_layer(layer, layer.groups, column)(positions), layer.groups)
        columns.append(torch.einsum("rpqo,cpqo->crq", reached, by_group(gradient, layer.groups)))
    return torch.stack(columns, -1)


def assert_positive(block: Kron, exact: Tensor, name: str) -> None:
    """No negative eigenvalue, and a positive diagonal wherever the exact block has one."""
    values = torch.linalg.eigvalsh(block.to_dense())
    assert values[0] >= -1e-9 * values[-1].abs(), name
    reached = exact.diagonal() > 1e-12 * exact.diagonal().max()
    assert (block.diagonal()[reached] > 0).all(), name


@pytest.mark.parametrize("layer", LAYERS)
@examples(divisor=6)
@given(data=st.data())
@torch.no_grad()
def test_exact_blocks_are_those_of_the_brute_force_ggn(layer, data):
    problem = data.draw(problems(layer))
    batch = problem.x, problem.y
    expected = ggn(problem.network, problem.x, problem.loss(), problem.weights)
    largest = expected.max()
    assert_same(full(covary.Model(problem.network, problem.likelihood), batch).to_dense(), expected, "full", largest)
    assert_same(
        diag(covary.Model(problem.network, problem.likelihood), batch).diagonal(), expected.diagonal(), "diag", largest
    )
    blocks = kfac(covary.Model(problem.network, problem.likelihood), batch).blocks
    exact = diagonal_blocks(expected, [block.size for block in blocks.values()])
    for (name, block), part in zip(blocks.items(), exact, strict=True):
        if isinstance(block, Kron):
            assert_positive(block, part, name)
        else:
            assert_same(block.to_dense(), part, name, largest)


@pytest.mark.parametrize("layer", KRON_LAYERS)
@examples(divisor=4)
@given(data=st.data(), approx=st.sampled_from(("expand", "reduce")), seed=st.integers(0, 9), traced=st.booleans())
def test_kfac_is_its_definition(layer, data, approx, seed, traced):
    problem = data.draw(problems(layer))
    assume(not any(isinstance(module, nn.MultiheadAttention) for module in problem.network.modules()))
    index = torch.tensor(data.draw(st.permutations(range(problem.num_data))))
    batch = problem.x, problem.y
    with torch.no_grad():
        curvature = tkfac if traced else kfac
        model = covary.Model(problem.network, problem.likelihood)
        ours = curvature(model, (*batch, index), kfac_approx=approx, seed=seed)
    expected = kfac_by_definition(problem, approx, index, seed, traced)
    assert {name for name, block in ours.blocks.items() if isinstance(block, Kron)} == set(expected)
    largest = max(product.max() for product in expected.values())
    for name, product in expected.items():
        assert_same(ours[name].to_dense(), product, name, largest)


@pytest.mark.parametrize("layer", LAYERS)
@examples(divisor=8)
@given(data=st.data(), curvature=st.sampled_from((full, diag, kfac, tkfac)))
@torch.no_grad()
def test_chunks_of_the_data_in_any_order_add_up(layer, data, curvature):
    problem = data.draw(problems(layer, min_data=2))
    order = torch.tensor(data.draw(st.permutations(range(problem.num_data))))
    cut = data.draw(st.integers(1, problem.num_data - 1))
    model = covary.Model(problem.network, problem.likelihood)
    whole = curvature(model, (problem.x, problem.y)).to_dense()
    first, second = (curvature(model, (problem.x[rows], problem.y[rows], rows)) for rows in (order[:cut], order[cut:]))
    assert_same(first.accumulate(second).to_dense(), whole, curvature.__name__, whole.max())
    # the control: the bias of the last layer has an exact block, to which every datum contributes
    assert first.to_dense()[-1, -1] < whole[-1, -1]


class FourLinear(nn.Module):
    """Attention of a query to a memory, with its projections as layers of their own."""

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        size, self.heads = attention.embed_dim, attention.num_heads
        self.query = nn.Linear(size, size)
        self.key, self.value = nn.Linear(attention.kdim, size), nn.Linear(attention.vdim, size)
        self.output = nn.Linear(size, size)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, None]:
        projected = self.query(query), self.key(key), self.value(value)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in projected)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2)), None


class CrossAttention(nn.Module):
    """Tokens that attend to the remaining tokens; `attention` is replaced by the test."""

    def __init__(self, attention: nn.Module, num_queries: int, key_size: int, num_outputs: int) -> None:
        super().__init__()
        self.attention, self.num_queries, self.key_size = attention, num_queries, key_size
        self.head = nn.Linear(4 * num_queries, num_outputs)

    def forward(self, x: Tensor) -> Tensor:
        memory = x[:, self.num_queries :, : self.key_size]
        return self.head(self.attention(x[:, : self.num_queries], memory, memory)[0].flatten(1))


def write_out(fused: CrossAttention) -> CrossAttention:
    """The same function with attention written out as four linear layers."""
    attention, head = fused.attention, fused.head
    written = CrossAttention(FourLinear(attention), fused.num_queries, fused.key_size, head.out_features)
    separate = (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
    weights = separate if attention.in_proj_weight is None else attention.in_proj_weight.chunk(3)
    layers = written.attention.query, written.attention.key, written.attention.value
    with torch.no_grad():
        for layer, weight, offset in zip(layers, weights, attention.in_proj_bias.chunk(3), strict=True):
            layer.weight.copy_(weight)
            layer.bias.copy_(offset)
    written.attention.output.load_state_dict(attention.out_proj.state_dict())
    written.head.load_state_dict(head.state_dict())
    return written


@examples(divisor=3)
@given(
    heads=st.sampled_from((1, 2, 4)),
    num_queries=st.integers(1, 3),
    num_keys=st.integers(1, 3),
    key_size=st.sampled_from((4, 3)),
    num_samples=st.integers(1, 3),
    approx=st.sampled_from(("expand", "reduce")),
    seed=st.integers(0, 99),
)
@torch.no_grad()
def test_attention_has_the_factors_of_its_four_linear_layers(
    heads, num_queries, num_keys, key_size, num_samples, approx, seed
):
    torch.manual_seed(seed)
    attention = nn.MultiheadAttention(4, heads, kdim=key_size, vdim=key_size, batch_first=True)
    nn.init.normal_(attention.in_proj_bias)
    fused = CrossAttention(attention, num_queries, key_size, 2)
    x, y = torch.randn(3, num_queries + num_keys, 4), torch.randint(0, 2, (3,))
    jitter = Jitter(tuple(x.shape[1:]))
    ours, expected = (
        kfac(covary.Averaged(network, jitter, num_samples), (x, y), kfac_approx=approx)
        for network in (fused, write_out(fused))
    )
    query, key, value, output = (
        expected[f"network.attention.{name}.weight"].to_dense() for name in ("query", "key", "value", "output")
    )
    stacked = {"in_proj_weight": torch.block_diag(query, key, value)}
    separate = {"q_proj_weight": query, "k_proj_weight": key, "v_proj_weight": value}
    projections = separate if attention.in_proj_weight is None else stacked
    for name, product in (projections | {"out_proj.weight": output}).items():
        assert_same(ours[f"network.attention.{name}"].to_dense(), product, name, output.max())
