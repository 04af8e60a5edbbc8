"""One chart of every kind over six coordinates, and random ones for properties."""

import torch
from torch import Tensor, nn

from covary.geometry import (
    CARTESIAN,
    Chart,
    Metric,
    affine,
    cube,
    diagonal_metric,
    elementwise,
    euclidean_metric,
    exponential,
    flow,
    inverse_softplus,
    logarithm,
    polar_of,
    scaling,
    side_by_side,
    softplus,
)
from covary.linalg import Dense

SIZE = 6


class Coupling(nn.Module):
    """A flow that shifts and scales one half by functions of the other."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.mixing = nn.Parameter(0.3 * torch.randn(SIZE, SIZE // 2, generator=generator, dtype=torch.float64))

    def _shift_and_scale(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(kept @ self.mixing.mT).chunk(2, dim=-1)

    def forward(self, theta: Tensor) -> Tensor:
        kept, moved = theta.chunk(2, dim=-1)
        shift, scale = self._shift_and_scale(kept)
        return torch.cat([kept, moved * scale.exp() + shift], dim=-1)

    def inverse(self, psi: Tensor) -> Tensor:
        kept, moved = psi.chunk(2, dim=-1)
        shift, scale = self._shift_and_scale(kept)
        return torch.cat([kept, (moved - shift) * (-scale).exp()], dim=-1)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def start(seed: int, *batch: int) -> Tensor:
    """Points with coordinates between 0.3 and 2, inside the domain of every chart here."""
    noise = torch.rand(*batch, SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return 0.3 + 1.7 * noise


def regular_matrix(seed: int) -> Tensor:
    """A matrix with singular values between ½ and 2."""
    left, _, right = torch.linalg.svd(normal(seed, SIZE, SIZE))
    return left @ torch.diag(torch.linspace(0.5, 2.0, SIZE, dtype=torch.float64)) @ right


def make_charts(seed: int) -> dict[str, Chart]:
    """One chart of every kind, defined at every point of `start`."""
    rows = start(seed).view(2, 3)
    return {
        "scaling": scaling(3.0),
        "scaling each": scaling(start(seed + 1)),
        "affine": affine(regular_matrix(seed), normal(seed, SIZE)),
        "exponential": exponential(),
        "logarithm": logarithm(),
        "softplus": softplus(),
        "inverse softplus": inverse_softplus(),
        "cube": cube(),
        "monotone": elementwise(torch.sinh, torch.asinh),
        "polar": polar_of(rows),
        "flow": flow(Coupling(torch.Generator().manual_seed(seed))),
        "side by side": side_by_side([logarithm(), CARTESIAN, cube()], [2, 1, 3]),
        "polar, then affine": affine(regular_matrix(seed + 2)) @ polar_of(rows),
        "inverse": affine(regular_matrix(seed)).inverted(),
    }


NAMES = tuple(make_charts(0))
CURVED = tuple(name for name in NAMES if name not in ("scaling", "scaling each", "affine", "inverse"))


def make_metric(kind: str, seed: int) -> Metric:
    """A metric of each kind over six coordinates."""
    root = normal(seed, SIZE, SIZE)
    return {
        "euclidean": euclidean_metric(),
        "diagonal": diagonal_metric(start(seed)),
        "dense": Metric("dense", lambda theta: Dense(root @ root.T + torch.eye(SIZE))),
        "varying": Metric("varying", lambda theta: Dense(root @ root.T + torch.diag(theta.square() + 0.1))),
        "of a chart": euclidean_metric(make_charts(seed + 7)["flow"]),  # no chart of this seed: it would be flat there
    }[kind]


METRICS = ("euclidean", "diagonal", "dense", "varying", "of a chart")


def quartic(seed: int):
    """A loss that is convex with its minimum at a point of `start(seed)`."""
    center, root = start(seed), normal(seed, SIZE, SIZE)

    def loss(theta: Tensor) -> Tensor:
        gap = theta - center
        return 0.5 * (root @ gap).square().sum() + 0.5 * gap.square().sum() + 0.25 * (gap**4).sum()

    return loss, center
