"""Small versions of networks that users bring: a Vision Transformer, a ResNet-18, a 1-D CNN, an LSTM, a U-Net."""

import torch
from torch import Tensor, nn

NUM_CLASSES = 3


class StochasticDepth(nn.Module):
    """A residual branch that is left out for a random part of the data, in training mode."""

    def __init__(self, branch: nn.Module, p: float) -> None:
        super().__init__()
        self.branch, self.keep = branch, 1 - p

    def forward(self, x: Tensor) -> Tensor:
        update = self.branch(x)
        if self.training:
            kept = torch.rand(len(x), *([1] * (x.dim() - 1)), dtype=x.dtype) < self.keep
            update = update * kept / self.keep
        return x + update


class SelfAttention(nn.Module):
    """Attention of tokens to one another, after a norm."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(size), nn.MultiheadAttention(size, 2, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return self.attention(h, h, h, need_weights=False)[0]


class VisionTransformer(nn.Module):
    """Patches with positions after a class token, blocks with the norm first, GELU, dropout and stochastic depth."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, size, 4, stride=4)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, size)), nn.Parameter(0.02 * torch.randn(1, 5, size))
        self.dropout = nn.Dropout(0.1)
        mlp = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 12), nn.GELU(), nn.Dropout(0.1), nn.Linear(12, size))
        self.blocks = nn.Sequential(StochasticDepth(SelfAttention(size), 0.2), StochasticDepth(mlp, 0.2))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.positions
        return self.head(self.norm(self.blocks(self.dropout(tokens))[:, 0]))


class BasicBlock(nn.Module):
    """Two convolutions with norms beside a shortcut, as in ResNet-18."""

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2, self.relu = nn.BatchNorm2d(fan_out), nn.BatchNorm2d(fan_out), nn.ReLU(inplace=True)
        down = nn.Sequential(nn.Conv2d(fan_in, fan_out, 1, stride, bias=False), nn.BatchNorm2d(fan_out))
        self.shortcut = down if stride > 1 or fan_in != fan_out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm_2(self.second(self.relu(self.norm_1(self.first(x)))))
        return self.relu(h + self.shortcut(x))


def resnet18(width: int = 4) -> nn.Module:
    """The eight blocks of ResNet-18 for small images, with BatchNorm."""
    layers = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    fan_in = width
    for stage in range(4):
        for block in range(2):
            layers.append(BasicBlock(fan_in, width * 2**stage, 2 if stage and not block else 1))
            fan_in = width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, NUM_CLASSES))


def cnn_1d() -> nn.Module:
    """Convolutions over time, with a norm, a learned activation and a pool."""
    body = nn.Conv1d(2, 6, 5, stride=2), nn.BatchNorm1d(6), nn.PReLU(6), nn.Conv1d(6, 6, 3, groups=2), nn.GELU()
    return nn.Sequential(*body, nn.AdaptiveMaxPool1d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(12, NUM_CLASSES))


class Lstm(nn.Module):
    """A bidirectional LSTM of two layers over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.recurrent = nn.LSTM(4, 3, num_layers=2, bidirectional=True, dropout=0.1, batch_first=True)
        self.head = nn.Linear(6, NUM_CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.recurrent(self.embedding(tokens))[0].mean(1))


class UNet(nn.Module):
    """Down, up, and a connection across; its map of outputs is pooled to 2×2 and flattened."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(1, width), nn.ReLU(inplace=True))
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(inplace=True))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        kept = self.enter(x)
        pixels = self.leave(torch.cat([kept, self.up(self.down(kept))], 1))
        return nn.functional.adaptive_avg_pool2d(pixels, 2).flatten(1)
