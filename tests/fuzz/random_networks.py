"""Random networks for tests against brute force: random layers, options, shapes, likelihoods and averages."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

import covary
from cases import targets
from covary.layers import Bias, Scale
from covary.noise import normal, uniform
from oracles.curvature import loss_of

MAX_WEIGHTS, VOCABULARY = 200, 4
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
BATCH_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
INSTANCE_NORMS = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
POOLS = {1: (nn.MaxPool1d, nn.AvgPool1d), 2: (nn.MaxPool2d, nn.AvgPool2d), 3: (nn.MaxPool3d, nn.AvgPool3d)}

Shape = tuple[int, ...]  # of one datum: (*tokens, features), or (channels, *space)
Layer = Callable[[st.DrawFn, Shape], nn.Module]


class Repeated(nn.Module):
    """A layer that keeps shapes, called twice, with a way around it, or both."""

    def __init__(self, inner: nn.Module, twice: bool, residual: bool) -> None:
        super().__init__()
        self.inner, self.twice, self.residual = inner, twice, residual

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(x))
        h = self.inner(h) if self.twice else h
        return x + h if self.residual else h


class SelfAttention(nn.Module):
    """Attention of tokens to one another."""

    def __init__(self, size: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(size, heads, bias=bias, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class LearnedTokens(nn.Module):
    """A token before all others, positions added to all, and attention to a learned and a zero token."""

    def __init__(self, shape: Shape, heads: int, zero: bool) -> None:
        super().__init__()
        length, size = shape
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, size)), nn.Parameter(torch.zeros(length + 1, size))
        self.attention = nn.MultiheadAttention(size, heads, add_bias_kv=True, add_zero_attn=zero, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.attention(x, x, x, need_weights=False)[0]


class Pairs(nn.Module):
    """A bilinear form of the features with themselves."""

    def __init__(self, size: int, outputs: int, bias: bool) -> None:
        super().__init__()
        self.form = nn.Bilinear(size, size, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.form(x, torch.tanh(x))


class Steps(nn.Module):
    """The outputs of a recurrent layer at all steps."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Functional(nn.Module):
    """A weight that its module uses, and for some data a function, and a table looked up once for the whole batch."""

    by_autograd = True

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.linear, self.table = nn.Linear(shape[-1], shape[-1]), nn.Embedding(shape[0], shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.linear(x) + self.table(torch.arange(x.shape[1])))
        return h + nn.functional.linear(h, self.linear.weight) * (x[:, :1, :1] > 0)


class Readout(nn.Module):
    """Three fixed random mixtures of everything: each position has another weight, without parameters."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.register_buffer("mixture", torch.randn(num_features, 3) / math.sqrt(num_features))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.mixture


class Jitter(nn.Module):
    """Augmentation samples with normal noise on every entry."""

    names, hyperparameters = ("jitter",), ("widths",)

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.widths = shape, nn.Parameter(torch.tensor([0.5]))

    def sample_noise(self, index: Tensor, num_samples: int, *, seed: int) -> Tensor:
        return normal(seed, index, (num_samples, *self.shape), dtype=torch.float64)

    def transform(self, x: Tensor, noise: Tensor) -> Tensor:
        return x.unsqueeze(1) + self.widths * noise


class Indices(nn.Module):
    """Numbers as indices: an averaged network takes floating data."""

    def forward(self, x: Tensor) -> Tensor:
        return x.long()


class Relabel(nn.Module):
    """Augmentation samples of a sequence of indices, each shifted cyclically by a random number."""

    names, widths = ("relabel",), torch.ones(1)

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def sample_noise(self, index: Tensor, num_samples: int, *, seed: int) -> Tensor:
        return uniform(seed, index, (num_samples, *self.shape), dtype=torch.float64)

    def transform(self, x: Tensor, noise: Tensor) -> Tensor:
        return (x.unsqueeze(1) + (VOCABULARY * noise).floor()) % VOCABULARY


# Layers: how to draw one that accepts data of a shape.


def linear(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return nn.Linear(shape[-1], draw(st.integers(1, 4)), bias=draw(st.booleans()))


def layer_norm(draw: st.DrawFn, shape: Shape) -> nn.Module:
    rank = draw(st.integers(1, len(shape)))
    return nn.LayerNorm(shape[-rank:], bias=draw(st.booleans()))


def rms_norm(draw: st.DrawFn, shape: Shape) -> nn.Module:
    rank = draw(st.integers(1, len(shape)))
    return nn.RMSNorm(shape[-rank:], eps=draw(st.sampled_from((None, 0.1))))


def scale(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return Scale()


def bias(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return Bias()


def repeated_linear(draw: st.DrawFn, shape: Shape) -> nn.Module:
    inner = nn.Linear(shape[-1], shape[-1], bias=draw(st.booleans()))
    return Repeated(inner, *draw(st.sampled_from(((True, False), (False, True), (True, True)))))


def attention(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return SelfAttention(shape[-1], draw(divisors(shape[-1])), draw(st.booleans()))


def embedding(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return nn.Sequential(Indices(), nn.Embedding(VOCABULARY, draw(st.integers(1, 3))))


def padded_embedding(draw: st.DrawFn, shape: Shape) -> nn.Module:
    padding = draw(st.integers(0, VOCABULARY - 1))
    return nn.Sequential(Indices(), nn.Embedding(VOCABULARY, draw(st.integers(1, 3)), padding_idx=padding))


def convolution(draw: st.DrawFn, shape: Shape) -> nn.Module:
    channels, *space = shape
    groups, outputs = draw_groups(draw, channels)
    mode = draw(st.sampled_from(("zeros", "circular", "reflect", "replicate")))
    limits = [widest_padding(mode, size) for size in space]
    dilation = [draw(st.integers(1, 2)) for _ in space]
    kernel = [
        draw(st.integers(1, min(largest_kernel(space), (size + 2 * limit - 1) // d + 1)))
        for size, limit, d in zip(space, limits, dilation, strict=True)
    ]
    missing = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    same_is_legal = mode == "zeros" or all((m + 1) // 2 <= limit for m, limit in zip(missing, limits, strict=True))
    if same_is_legal and draw(st.booleans()):
        stride, padding = [1] * len(space), "same"
    else:
        stride = [draw(st.integers(1, 2)) for _ in space]
        padding = [
            draw(st.integers(max(0, (m - size + 2) // 2), limit))
            for m, size, limit in zip(missing, space, limits, strict=True)
        ]
    with_bias = draw(st.booleans())
    make = CONVOLUTIONS[len(space)]
    return make(channels, outputs, kernel, stride, padding, dilation, groups, with_bias, mode)


def transposed_convolution(draw: st.DrawFn, shape: Shape) -> nn.Module:
    channels, *space = shape
    groups, outputs = draw_groups(draw, channels)
    kernel, stride, dilation = ([draw(st.integers(1, limit)) for _ in space] for limit in (largest_kernel(space), 2, 2))
    extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
    reach = [
        s * (size - 1) + d * (k - 1) + e
        for size, k, s, d, e in zip(space, kernel, stride, dilation, extra, strict=True)
    ]
    padding = [draw(st.integers(0, min(2, r // 2))) for r in reach]
    with_bias = draw(st.booleans())
    make = TRANSPOSED[len(space)]
    return make(channels, outputs, kernel, stride, padding, extra, groups, with_bias, dilation)


def repeated_convolution(draw: st.DrawFn, shape: Shape) -> nn.Module:
    channels, *space = shape
    kernel = [draw(st.integers(1, largest_kernel(space))) for _ in space]
    make, groups = CONVOLUTIONS[len(space)], draw(divisors(channels))
    inner = make(channels, channels, kernel, padding="same", groups=groups)
    return Repeated(inner, *draw(st.sampled_from(((True, False), (False, True), (True, True)))))


def group_norm(draw: st.DrawFn, shape: Shape) -> nn.Module:
    assume(math.prod(shape) > 1)  # one number has no variance, which torch does not allow
    groups = draw(divisors(shape[0])) if math.prod(shape[1:]) > 1 else 1
    return nn.GroupNorm(groups, shape[0])


def batch_norm(draw: st.DrawFn, shape: Shape) -> nn.Module:
    norm = BATCH_NORMS[len(shape) - 1](shape[0]).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    return norm


def prelu(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return nn.PReLU(draw(st.sampled_from((1, shape[0]))))


def instance_norm(draw: st.DrawFn, shape: Shape) -> nn.Module:
    assume(math.prod(shape[1:]) > 1)  # one number has no variance
    return INSTANCE_NORMS[len(shape) - 1](shape[0], affine=True)


def bilinear(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return Pairs(shape[-1], draw(st.integers(1, 3)), draw(st.booleans()))


def recurrent(draw: st.DrawFn, shape: Shape) -> nn.Module:
    make, bias, both = draw(st.sampled_from((nn.RNN, nn.LSTM, nn.GRU))), draw(st.booleans()), draw(st.booleans())
    return Steps(make(shape[-1], draw(st.integers(1, 2)), bias=bias, bidirectional=both, batch_first=True))


def parametrized_linear(draw: st.DrawFn, shape: Shape) -> nn.Module:
    parametrize = draw(st.sampled_from((weight_norm, spectral_norm, orthogonal)))
    return parametrize(linear(draw, shape)).eval()


def parametrized_convolution(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return weight_norm(convolution(draw, shape), dim=draw(st.sampled_from((0, 1))))


def learned_tokens(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return LearnedTokens(shape, draw(divisors(shape[-1])), draw(st.booleans()))


def functional(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return Functional(shape)


def pool(draw: st.DrawFn, shape: Shape) -> nn.Module:
    return draw(st.sampled_from(POOLS[len(shape) - 1]))(tuple(min(2, size) for size in shape[1:]))


def divisors(number: int) -> st.SearchStrategy[int]:
    return st.sampled_from([d for d in range(1, number + 1) if number % d == 0])


def draw_groups(draw: st.DrawFn, channels: int) -> tuple[int, int]:
    """A number of groups and of output channels, up to one group for each input channel."""
    groups = draw(divisors(channels))
    return groups, groups * draw(st.integers(1, max(1, 4 // groups)))


def largest_kernel(space: Sequence[int]) -> int:
    return 2 if len(space) == 3 else 3


def widest_padding(mode: str, size: int) -> int:
    """The most that torch allows, or two."""
    return min(2, {"reflect": size - 1, "circular": size}.get(mode, 2))


@dataclass(frozen=True)
class Kind:
    """A kind of data: its shapes, and the layers that may surround the tested one."""

    shapes: st.SearchStrategy[Shape]
    others: tuple[Layer, ...]


def sizes(*bounds: tuple[int, int]) -> st.SearchStrategy[Shape]:
    return st.tuples(*(st.integers(low, high) for low, high in bounds))


ANY_SHAPE = (layer_norm, rms_norm, scale, bias)
ON_FEATURES = (*ANY_SHAPE, linear, repeated_linear)
ON_CHANNELS = (*ANY_SHAPE, convolution, transposed_convolution, repeated_convolution, group_norm, batch_norm, pool)
FEATURES = Kind(sizes((2, 4)) | sizes((1, 3), (2, 4)) | sizes((1, 2), (2, 2), (2, 3)), ON_FEATURES)
TOKENS = Kind(sizes((1, 3), (2, 4)), (*ON_FEATURES, attention))
INDICES = Kind(sizes((1, 3)), (*ON_FEATURES, attention))
SPACES = {
    1: Kind(sizes((1, 4), (2, 5)), ON_CHANNELS),
    2: Kind(sizes((1, 4), (2, 4), (1, 4)), ON_CHANNELS),
    3: Kind(sizes((1, 2), (1, 3), (2, 2), (1, 2)), ON_CHANNELS),
}
ANY_SPACE = Kind(SPACES[1].shapes | SPACES[2].shapes | SPACES[3].shapes, ON_CHANNELS)

KRON_LAYERS: dict[str, tuple[Layer, Kind]] = {
    "linear": (linear, FEATURES),
    "repeated linear": (repeated_linear, FEATURES),
    "embedding": (embedding, INDICES),
    "convolution 1d": (convolution, SPACES[1]),
    "convolution 2d": (convolution, SPACES[2]),
    "convolution 3d": (convolution, SPACES[3]),
    "repeated convolution": (repeated_convolution, ANY_SPACE),
    "transposed convolution 1d": (transposed_convolution, SPACES[1]),
    "transposed convolution 2d": (transposed_convolution, SPACES[2]),
    "transposed convolution 3d": (transposed_convolution, SPACES[3]),
}
LAYERS: dict[str, tuple[Layer, Kind]] = {
    **KRON_LAYERS,
    "padded embedding": (padded_embedding, INDICES),
    "attention": (attention, TOKENS),
    "layer norm": (layer_norm, TOKENS),
    "rms norm": (rms_norm, ANY_SPACE),
    "group norm": (group_norm, ANY_SPACE),
    "batch norm": (batch_norm, ANY_SPACE),
    "scale": (scale, ANY_SPACE),
    "bias": (bias, TOKENS),
    "pool": (pool, ANY_SPACE),
}
# layers without a rule of their own, or with parameters that have none
AUTOGRAD_LAYERS: dict[str, tuple[Layer, Kind]] = {
    "prelu": (prelu, ANY_SPACE),
    "instance norm": (instance_norm, ANY_SPACE),
    "bilinear": (bilinear, FEATURES),
    "recurrent": (recurrent, TOKENS),
    "parametrized linear": (parametrized_linear, FEATURES),
    "parametrized convolution": (parametrized_convolution, SPACES[2]),
    "learned tokens": (learned_tokens, TOKENS),
    "functional": (functional, TOKENS),
}
LAYERS |= AUTOGRAD_LAYERS


# by temperature, by noise; binary targets have neither
LIKELIHOODS = {
    "categorical": covary.Categorical,
    "gaussian": covary.Gaussian,
    "bernoulli": lambda _: covary.Bernoulli(),
}


@dataclass(frozen=True)
class Problem:
    """A network with data and a likelihood."""

    network: nn.Module
    likelihood: nn.Module
    kind: str
    scale: float
    x: Tensor
    y: Tensor

    @property
    def num_data(self) -> int:
        return len(self.x)

    @property
    def weights(self) -> list[str]:
        return [name for name, _ in self.network.named_parameters() if not name.startswith("augment.")]

    def loss(self, rows: slice = slice(None)) -> Callable[[Tensor], Tensor]:
        return loss_of(self.kind, self.y[rows], self.scale)

    def outputs(self, rows: slice, index: Tensor, seed: int) -> Tensor:
        if isinstance(self.network, covary.Averaged):
            return self.network(self.x[rows], index[rows], seed=seed)
        return self.network(self.x[rows])


@st.composite
def problems(draw: st.DrawFn, name: str, min_data: int = 1) -> Problem:
    """A problem whose network holds the layer of that name."""
    layer, kind = LAYERS[name]
    shape = draw(kind.shapes)
    torch.manual_seed(draw(st.integers(0, 999)))
    inputs = torch.randint(0, VOCABULARY, (4, *shape)).to(torch.float64) if kind is INDICES else torch.randn(4, *shape)
    likelihood_kind, strength = draw(st.sampled_from(sorted(LIKELIHOODS))), draw(st.sampled_from((0.5, 1.0, 2.0)))
    num_outputs = draw(st.integers(2 if likelihood_kind == "categorical" else 1, 3))
    network = draw_network(draw, layer, kind, inputs[:1], num_outputs)
    network = draw_average(draw, network, kind, shape)
    x = inputs[: draw(st.integers(min_data, 4))]
    likelihood = LIKELIHOODS[likelihood_kind](strength)
    return Problem(network, likelihood, likelihood_kind, strength, x, targets(likelihood_kind, len(x), num_outputs))


def draw_network(draw: st.DrawFn, layer: Layer, kind: Kind, example: Tensor, num_outputs: int) -> nn.Sequential:
    """The layer, maybe one before and one after it, each with an activation; then the readout and a linear layer."""
    maybe_other = st.none() | st.sampled_from(kind.others)
    order = [None if kind is INDICES else draw(maybe_other), layer, draw(maybe_other)]
    modules: list[nn.Module] = []
    for make in [make for make in order if make is not None]:
        modules += [make(draw, tuple(example.shape[1:])), draw_activation(draw)]
        example = nn.Sequential(*modules[-2:])(example).detach()
    network = nn.Sequential(*modules, Readout(example[0].numel()), nn.Linear(3, num_outputs))
    assume(sum(p.numel() for p in network.parameters()) <= MAX_WEIGHTS)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.7)  # norms start at constants, which hide mistakes
    return network


def draw_activation(draw: st.DrawFn) -> nn.Module:
    activations = (nn.Tanh, nn.GELU, nn.Softplus, lambda: nn.ReLU(inplace=True), nn.Identity)
    return draw(st.sampled_from(activations))()


def draw_average(draw: st.DrawFn, network: nn.Module, kind: Kind, shape: Shape) -> nn.Module:
    num_samples = draw(st.integers(0, 4))
    if num_samples == 0:
        return network
    if shape == (2,) and kind is FEATURES and draw(st.booleans()):
        return covary.Averaged(network, covary.augment.Rotation2d(1.0), num_samples)
    return covary.Averaged(network, (Relabel if kind is INDICES else Jitter)(shape), num_samples)


def assert_same(ours: Tensor, expected: Tensor, label: str, largest: Tensor) -> None:
    """Equality up to rounding, relative to the largest entry of the whole curvature."""
    torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-11 * float(largest), msg=lambda m: f"{label}: {m}")
