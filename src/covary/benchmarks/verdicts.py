r"""How often verdicts are right, on data of which it is known whether they have a symmetry.

Data with a symmetry have transformed versions of what they show under the same label; data without have another label
for them. Ten questions, each on several data sets (one per repeat):

- points of the plane: the label is the radius (all rotations), or the half-plane (none);
- points in space: the label is the side along x, the other two coordinates are symmetric (mirrors along x: no, y and
  z: yes);
- digits: a 0 or a 1, mirrored at random (yes); a 6 or its mirror image, which is no 6 (no); a 0 or a 1, upside down at
  random (yes); a 6 or a 9, which is a 6 upside down (no); a 0 or a 1, turned by any angle (rotation: yes).

The networks are small, as are the data sets: the rows say how verdicts do where they are hard.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import data
from .._types import Progress
from ..augment import Affine2d, Augmentation, FiniteGroup, Mirror3d, Rotation2d
from ..config import FitConfig
from ..data.dataset import Dataset
from ..groups import act
from ..networks import Averaged, mlp
from ..training import fit, verdict

NUM_DATA, SIDE = 160, 10
Data = tuple[Tensor, Tensor]


class Question(NamedTuple):
    """Data, an augmentation, and whether the data have each of its symmetries."""

    title: str
    make: Callable[[int], Data]  # from a seed to inputs and labels
    augment: Callable[[], Augmentation]  # the augmentation at the start
    truth: dict[str, str]  # the right answer for each symmetry


def measure_verdicts(repeats: int, progress: Progress) -> list[dict[str, Any]]:
    """A row per question and symmetry: how many answers are right, undecided and wrong, and the quotes."""
    rows = []
    for number, question in enumerate(QUESTIONS):
        found: dict[str, list[Any]] = {name: [] for name in question.truth}
        for seed in range(repeats):
            progress(f"{question.title}: data set {seed + 1}", (number + seed / repeats) / len(QUESTIONS))
            for each in answered(question, seed):
                found[each.name].append(each)
        for name, truth in question.truth.items():
            answers = [each.answer for each in found[name]]
            undecided = answers.count("undecided")
            rows.append(
                {
                    "question": question.title,
                    "symmetry": name,
                    "truth": truth,
                    "right": answers.count(truth),
                    "undecided": undecided,
                    "wrong": len(answers) - answers.count(truth) - undecided,
                    "verdicts": "; ".join(each.quote for each in found[name]),
                }
            )
    return rows


def answered(question: Question, seed: int) -> list[Any]:
    """The verdicts on one data set, from a fit with the settings of small data."""
    x, y = question.make(seed)
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Flatten(), mlp(math.prod(x.shape[1:]), 12, 2))
    averaged = Averaged(network, question.augment(), num_samples=8)
    hyper = {"num_moves": 1, "num_samples": 8}
    config = FitConfig().replace(epochs=12, seed=seed, weights={"lr": 0.02, "batch_size": 20}, hyper=hyper)
    run = fit(averaged, (x, y), config.replace(evaluation={"num_error_data": 0}), callbacks=())
    return verdict(run, (x, y), epochs=6)


def _noise(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _plane(seed: int) -> tuple[Tensor, Tensor]:
    """Points (N, 2) at all angles, and whether they are far from the origin."""
    drawn = torch.rand(2, NUM_DATA, generator=_noise(seed))
    far = torch.arange(NUM_DATA) % 2
    angles, radii = 2 * math.pi * drawn[0], 0.5 + 0.5 * drawn[1] + 1.5 * far
    return torch.stack([radii * angles.cos(), radii * angles.sin()], 1), far


def _half_plane(seed: int) -> Data:
    x, _ = _plane(seed)
    return x, (x[:, 0] > 0).long()


def _side(seed: int) -> Data:
    """Two points per datum, of the first of which the side along x is the label; mirrors along y and z change none."""
    x = torch.randn(NUM_DATA, 2, 3, generator=_noise(seed))
    x[:, 0, 0] += 0.5 * x[:, 0, 0].sign()
    return x, (x[:, 0, 0] > 0).long()


def _digits(classes: tuple[int, int], seed: int) -> tuple[Tensor, Tensor]:
    """Digits of two classes, small, with labels 0 and 1."""
    whole: Dataset = data.load("mnist-mini")
    chosen = torch.isin(whole.y_train, torch.tensor(classes)).nonzero().flatten()
    rows = chosen[torch.randperm(len(chosen), generator=_noise(seed))[:NUM_DATA]]
    small = nn.functional.interpolate(whole.x_train[rows], (SIDE, SIDE), mode="area")
    return small, (whole.y_train[rows] == classes[1]).long()


def _some(x: Tensor, element: str, seed: int) -> tuple[Tensor, Tensor]:
    """Images of which half, at random, are transformed, and which."""
    moved = torch.rand(len(x), generator=_noise(seed + 1000)) < 0.5
    return torch.where(moved[:, None, None, None], act(x, element), x), moved


def _either_way(element: str, seed: int) -> Data:
    x, y = _digits((0, 1), seed)
    return _some(x, element, seed)[0], y


def _mirrored_six(seed: int) -> Data:
    x, moved = _some(_digits((6, 6), seed)[0], "flip_x", seed)
    return x, moved.long()


def _turned(seed: int) -> Data:
    x, y = _digits((0, 1), seed)
    turns = Affine2d(("rotation",), initial_width=3.1, sampler="random")
    with torch.no_grad():
        return turns.transform(x, turns.sample_noise(torch.arange(len(x)), 1, seed=seed))[:, 0], y


def _flip() -> FiniteGroup:
    return FiniteGroup(("identity", "flip_x"), 0.2)


def _half_turn() -> FiniteGroup:
    return FiniteGroup(("identity", "half_turn"), 0.2)


QUESTIONS = (
    Question("points, label by radius", _plane, lambda: Rotation2d(0.3), {"rotation": "yes"}),
    Question("points, label by half-plane", _half_plane, lambda: Rotation2d(0.3), {"rotation": "no"}),
    Question(
        "points in space, label by the side along x",
        _side,
        lambda: Mirror3d(initial_probability=0.2),
        {"mirror_x": "no", "mirror_y": "yes", "mirror_z": "yes"},
    ),
    Question("0 or 1, mirrored at random", lambda seed: _either_way("flip_x", seed), _flip, {"flip_x": "yes"}),
    Question("6 or mirrored 6", _mirrored_six, _flip, {"flip_x": "no"}),
    Question(
        "0 or 1, upside down at random", lambda seed: _either_way("half_turn", seed), _half_turn, {"half_turn": "yes"}
    ),
    Question("6 or 9", lambda seed: _digits((6, 9), seed), _half_turn, {"half_turn": "no"}),
    Question(
        "0 or 1, turned at random", _turned, lambda: Affine2d(("rotation",), initial_width=0.3), {"rotation": "yes"}
    ),
)
