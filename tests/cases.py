"""Small networks that between them use every layer with a curvature rule, in every way a layer can be used."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from covary.groups import P4
from covary.layers import (
    Bias,
    Conv,
    Dense,
    FactoredDense,
    FrozenBatchNorm,
    GroupConv,
    GroupPool,
    PolyphasePool,
    Relaxed,
    Scale,
    SparseConv,
    SparseDense,
)

NUM_OUTPUTS = 3


class Residual(nn.Module):
    """A functional residual around a layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, NUM_OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        h = x + torch.tanh(self.inner(x))
        return self.head(h + torch.tanh(self.inner(h)))


class TiedEmbedding(nn.Module):
    """A table that is also the output layer, each with its own module around one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(NUM_OUTPUTS, 4), nn.Linear(4, NUM_OUTPUTS)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(torch.tanh(self.embedding(tokens)).sum(1))


class Attention(nn.Module):
    """Self- or cross-attention between layers; key and value may have sizes of their own."""

    def __init__(self, batch_first: bool, cross: bool = False, key_size: int | None = None) -> None:
        super().__init__()
        self.batch_first, self.cross = batch_first, cross
        self.attention = nn.MultiheadAttention(4, 2, batch_first=batch_first, kdim=key_size, vdim=key_size)
        self.other = nn.Linear(4, key_size or 4)
        self.head = nn.Linear(4, NUM_OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        memory = self.other(x[:, :2]) if self.cross else x
        streams = [x, memory, memory]
        if not self.batch_first:
            streams = [s.transpose(0, 1) for s in streams]
        mixed, _ = self.attention(*streams)
        mixed = mixed if self.batch_first else mixed.transpose(0, 1)
        return self.head(mixed.mean(1))


class Folded(nn.Module):
    """A network whose inner module sees two patches of each datum as rows of the batch."""

    class Inner(nn.Module):
        folded_batch = 2

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.linear(x.reshape(-1, 2))).reshape(-1, 6)

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = Folded.Inner(), nn.Linear(6, NUM_OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x))


class Unused(nn.Module):
    """A network with a layer that is never called and one whose output is thrown away."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.wasted, self.never = nn.Linear(4, NUM_OUTPUTS), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.wasted(x)
        return self.used(x)


class ClassToken(nn.Module):
    """A class token and positions, parameters of a module that has no rule, before attention with learned tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(torch.zeros(4, 4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)
        self.head = nn.Linear(4, NUM_OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.attention(x, x, x, need_weights=False)[0][:, 0])


class Recurrent(nn.Module):
    """A recurrent layer, read at its last step."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(layer.hidden_size * (1 + layer.bidirectional), NUM_OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class Pairs(nn.Module):
    """A bilinear form of two streams."""

    def __init__(self) -> None:
        super().__init__()
        self.stream, self.form = nn.Linear(3, 2), nn.Bilinear(3, 2, NUM_OUTPUTS)

    def forward(self, x: Tensor) -> Tensor:
        return self.form(x, torch.tanh(self.stream(x)))


class SharedPositions(nn.Module):
    """A table that is looked up once for the whole batch, and a weight that is used functionally for some data."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(3, 2), nn.Linear(6, NUM_OUTPUTS)
        self.table.by_autograd = self.head.by_autograd = True

    def forward(self, x: Tensor) -> Tensor:
        h = (x + torch.tanh(self.table(torch.arange(3, device=x.device)))).flatten(1)
        return self.head(h) + nn.functional.linear(h, self.head.weight) * (h[:, :1] > 0)


def weight_norm(layer: nn.Module) -> nn.Module:
    return nn.utils.parametrizations.weight_norm(layer)


def sequential(*layers: nn.Module, flat: int) -> nn.Sequential:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, NUM_OUTPUTS))


def batch_norm(flat: int) -> nn.Module:
    norm = nn.BatchNorm2d(2)
    norm.running_mean, norm.running_var = torch.tensor([0.3, -0.2]), torch.tensor([0.5, 2.0])
    return sequential(nn.Conv2d(1, 2, 3), norm, nn.ReLU(inplace=True), flat=flat).eval()


def encoder_layer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
    return sequential(layer, flat=12).eval()


@dataclass(frozen=True)
class Case:
    """A network and the shape of one datum; `tokens` inputs are indices below `tokens`."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tokens: int = 0

    def make(self, num_data: int, seed: int = 0) -> tuple[nn.Module, Tensor]:
        """The network with random weights, and inputs."""
        torch.manual_seed(seed)
        network = self.build()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(std=0.7)  # norms start at constants, zero gradients hide mistakes
        if self.tokens:
            return network, torch.randint(0, self.tokens, (num_data, *self.shape))
        return network, torch.randn(num_data, *self.shape)


CASES: dict[str, Case] = {
    "linear": Case(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, NUM_OUTPUTS)), (4,)),
    "linear without bias": Case(lambda: nn.Linear(4, NUM_OUTPUTS, bias=False), (4,)),
    "tokens": Case(lambda: sequential(nn.Linear(2, 3), nn.Tanh(), flat=12), (2, 2, 2)),
    "inplace relu": Case(
        lambda: sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 4), nn.ReLU(inplace=True), flat=4), (4,)
    ),
    "tokens, inplace relu": Case(lambda: sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), flat=6), (2, 2)),
    "conv1d": Case(lambda: sequential(nn.Conv1d(2, 3, 3, stride=2, padding=2, dilation=2), nn.Tanh(), flat=9), (2, 5)),
    "conv2d": Case(
        lambda: sequential(nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0)), nn.ReLU(inplace=True), flat=18),
        (2, 4, 4),
    ),
    "conv2d same": Case(lambda: sequential(nn.Conv2d(1, 2, 2, padding="same"), nn.Tanh(), flat=18), (1, 3, 3)),
    "conv2d circular": Case(
        lambda: sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.Tanh(), flat=18), (1, 3, 3)
    ),
    "conv2d reflect": Case(
        lambda: sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), nn.Tanh(), flat=18), (1, 3, 3)
    ),
    "conv2d grouped": Case(lambda: sequential(nn.Conv2d(4, 6, 2, groups=2), nn.Tanh(), flat=24), (4, 3, 3)),
    "conv2d depthwise": Case(lambda: sequential(nn.Conv2d(3, 3, 2, groups=3), nn.Tanh(), flat=12), (3, 3, 3)),
    "conv3d": Case(
        lambda: sequential(
            nn.Conv3d(2, 2, 2, stride=(1, 2, 1), padding=(1, 0, 0), dilation=(2, 1, 1), groups=2), nn.Tanh(), flat=12
        ),
        (2, 3, 2, 3),
    ),
    "conv transpose": Case(
        lambda: sequential(nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), nn.Tanh(), flat=48),
        (2, 2, 2),
    ),
    "conv transpose grouped": Case(
        lambda: sequential(nn.ConvTranspose2d(4, 2, 2, stride=1, dilation=2, groups=2), nn.Tanh(), flat=32), (4, 2, 2)
    ),
    "embedding": Case(lambda: sequential(nn.Embedding(5, 2), nn.Tanh(), flat=6), (3,), tokens=5),
    "embedding with padding": Case(
        lambda: sequential(nn.Embedding(5, 2, padding_idx=1), nn.Tanh(), flat=6), (3,), tokens=5
    ),
    "tied embedding": Case(TiedEmbedding, (2,), tokens=NUM_OUTPUTS),
    "layer norm": Case(lambda: sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), flat=8), (2, 3)),
    "layer norm 2d": Case(lambda: sequential(nn.LayerNorm((2, 3)), nn.Tanh(), flat=6), (2, 3)),
    "rms norm": Case(lambda: sequential(nn.Linear(3, 4), nn.RMSNorm(4), nn.Tanh(), flat=8), (2, 3)),
    "group norm": Case(
        lambda: sequential(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.ReLU(inplace=True), flat=16), (1, 3, 3)
    ),
    "batch norm": Case(lambda: batch_norm(8), (1, 4, 4)),
    "frozen batch norm": Case(
        lambda: sequential(
            nn.Conv2d(1, 2, 3), FrozenBatchNorm(torch.tensor([0.3, -0.2]), torch.tensor([0.5, 2.0])), nn.Tanh(), flat=8
        ),
        (1, 4, 4),
    ),
    "scalars": Case(
        lambda: sequential(Bias(), nn.Conv2d(1, 2, 2), Scale(), Bias(), nn.ReLU(inplace=True), flat=8), (1, 3, 3)
    ),
    "residual, tied module": Case(Residual, (4,)),
    "attention batch first": Case(lambda: Attention(True), (3, 4)),
    "attention sequence first": Case(lambda: Attention(False), (3, 4)),
    "cross attention": Case(lambda: Attention(True, cross=True), (3, 4)),
    "cross attention of other sizes": Case(lambda: Attention(False, cross=True, key_size=3), (3, 4)),
    "encoder layer": Case(encoder_layer, (3, 4)),
    "folded batch": Case(Folded, (2, 2)),
    "unused layers": Case(Unused, (4,)),
    "dense": Case(lambda: sequential(Dense((2, 2, 2), (1, 2, 1)), nn.Tanh(), flat=2), (2, 2, 2)),
    "circular convolution": Case(lambda: sequential(Conv(1, 2), nn.Tanh(), flat=18), (1, 3, 3)),
    "factored dense": Case(lambda: sequential(FactoredDense((2, 2, 2), (3, 2, 1)), nn.Tanh(), flat=6), (2, 2, 2)),
    "factored dense over a group": Case(
        lambda: sequential(FactoredDense((1, 2, 2), (2, 1, 1), group=P4), nn.Tanh(), flat=8), (4, 2, 2)
    ),
    "sparse convolution": Case(
        lambda: sequential(SparseConv(1, 2, length_scale="weight"), nn.Tanh(), flat=18), (1, 3, 3)
    ),
    "sparse dense": Case(
        lambda: sequential(SparseDense((1, 2, 2), (2, 2, 1), length_scale="weight"), nn.Tanh(), flat=4), (1, 2, 2)
    ),
    "sparse dense over a group": Case(
        lambda: sequential(SparseDense((1, 2, 1), (2, 1, 1), length_scale="weight", group=P4), nn.Tanh(), flat=8),
        (4, 2, 1),
    ),
    "group convolution": Case(
        lambda: sequential(GroupConv(1, 2, 2, group=P4, lift=True), nn.Tanh(), GroupPool(P4), flat=18), (1, 3, 3)
    ),
    "separable group convolution": Case(
        lambda: sequential(GroupConv(2, 1, 2, group=P4, factorization="separable"), nn.Tanh(), flat=16), (8, 2, 2)
    ),
    "class token": Case(ClassToken, (3, 4)),
    "lstm": Case(lambda: Recurrent(nn.LSTM(2, 2, batch_first=True)), (3, 2)),
    "bilinear": Case(Pairs, (3,)),
    "prelu, instance norm": Case(
        lambda: sequential(
            nn.Conv2d(1, 2, 2), nn.InstanceNorm2d(2, affine=True), nn.PReLU(2), nn.ReLU(inplace=True), flat=18
        ),
        (1, 4, 4),
    ),
    "weight norm": Case(
        lambda: nn.Sequential(
            weight_norm(nn.Conv2d(1, 2, 2)), nn.Tanh(), nn.Flatten(), weight_norm(nn.Linear(8, NUM_OUTPUTS))
        ),
        (1, 3, 3),
    ),
    "shared positions": Case(SharedPositions, (3, 2)),
    "relaxed": Case(
        lambda: sequential(
            Relaxed({"f-fc": FactoredDense((1, 4, 4), (2, 2, 2)), "conv": Conv(1, 2)}, PolyphasePool(2)),
            nn.Tanh(),
            flat=8,
        ),
        (1, 4, 4),
    ),
}


# layers that see one row per datum (R = 1), where KFAC with one datum is exact block by block
SINGLE_ROW_CASES: dict[str, Case] = {
    "linear": CASES["linear"],
    "one token": Case(lambda: sequential(nn.Linear(2, 3), nn.Tanh(), flat=3), (1, 2)),
    "conv1d": Case(lambda: sequential(nn.Conv1d(2, 3, 3), nn.Tanh(), flat=3), (2, 3)),
    "conv2d": Case(lambda: sequential(nn.Conv2d(2, 3, (3, 2)), nn.Tanh(), flat=3), (2, 3, 2)),
    "conv2d grouped": Case(lambda: sequential(nn.Conv2d(4, 6, 2, groups=2), nn.Tanh(), flat=6), (4, 2, 2)),
    "conv2d depthwise": Case(lambda: sequential(nn.Conv2d(3, 6, 2, groups=3), nn.Tanh(), flat=6), (3, 2, 2)),
    "conv3d": Case(lambda: sequential(nn.Conv3d(1, 2, 2), nn.Tanh(), flat=2), (1, 2, 2, 2)),
    "conv transpose": Case(lambda: sequential(nn.ConvTranspose2d(2, 3, 2), nn.Tanh(), flat=12), (2, 1, 1)),
    "conv transpose grouped": Case(
        lambda: sequential(nn.ConvTranspose2d(4, 4, 2, groups=2), nn.Tanh(), flat=16), (4, 1, 1)
    ),
    "embedding": Case(lambda: sequential(nn.Embedding(5, 2), nn.Tanh(), flat=2), (1,), tokens=5),
    "layer norm": Case(lambda: sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), flat=4), (3,)),
    "group norm": Case(lambda: sequential(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.Tanh(), flat=4), (1, 2, 2)),
    "batch norm": Case(lambda: batch_norm(2), (1, 3, 3)),
    "scalars": Case(lambda: sequential(Scale(), nn.Linear(3, 2), Bias(), nn.Tanh(), flat=2), (3,)),
    "attention": Case(lambda: Attention(True), (1, 4)),
}


def targets(likelihood: str, num_data: int, num_outputs: int = NUM_OUTPUTS) -> Tensor:
    """Random targets of a likelihood."""
    if likelihood == "categorical":
        return torch.randint(0, num_outputs, (num_data,))
    if likelihood == "bernoulli":
        return torch.randint(0, 2, (num_data, num_outputs)).to(torch.get_default_dtype())
    return torch.randn(num_data, num_outputs)


def diagonal_blocks(matrix: Tensor, sizes: list[int]) -> list[Tensor]:
    """The diagonal blocks of a matrix."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [matrix[end - size : end, end - size : end] for size, end in zip(sizes, ends, strict=True)]


__all__ = ["CASES", "NUM_OUTPUTS", "SINGLE_ROW_CASES", "Case", "diagonal_blocks", "sequential", "targets"]
