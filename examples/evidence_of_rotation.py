"""Which rotations do the labels ignore? The evidence of the training data knows, without a validation set.

1,200 MNIST digits are turned by up to ±90°. First the width of the augmentation is fixed by hand, a network is trained
for each, and the evidence of its training data is compared with its accuracy on test digits it never saw. Then the
width is learned while one network trains, by gradient ascent on the same evidence.

    python examples/evidence_of_rotation.py [--out runs/rotation]
"""

import argparse
import math
import time
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import covary

TRUE_WIDTH = math.pi / 2
FIXED_WIDTHS = [0.0, math.pi / 4, math.pi / 2, 3 * math.pi / 4, math.pi]
NUM_DATA, NUM_SAMPLES, EPOCHS, BURN_IN = 1200, 8, 45, 5


def turned(images: Tensor, seed: int) -> Tensor:
    """Every image turned by its own angle, uniform within the true width."""
    turn = covary.augment.Affine2d(["rotation"], initial_width=TRUE_WIDTH)
    with torch.no_grad():
        return turn.apply(images, turn.sample_noise(torch.arange(len(images)), 1, seed=seed))[:, 0]


def build(width: float) -> tuple[covary.Averaged, covary.Prior]:
    augment = covary.augment.Affine2d(["rotation"], initial_width=min(width, 0.999 * math.pi))
    network = covary.networks.mlp(784, 100, 10, generator=torch.Generator().manual_seed(0))
    averaged = covary.Averaged(network, augment, NUM_SAMPLES)
    return averaged, covary.Prior(averaged, precision=1.0)


def train(averaged: covary.Averaged, prior: covary.Prior, x: Tensor, y: Tensor, learn_width: bool) -> list[float]:
    """Weights by Adam on the log joint; prior, and width where it is learned, by Adam on the evidence once an epoch."""
    averaged.augment.requires_grad_(learn_width)  # a fixed width is a constant: its gradient is not computed
    likelihood = covary.Categorical()
    weights = torch.optim.Adam(averaged.network.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(weights, EPOCHS)
    hyper = torch.optim.Adam(
        [{"params": prior.parameters(), "lr": 0.3}, {"params": averaged.augment.parameters(), "lr": 0.15}]
    )
    widths = []
    for epoch in range(EPOCHS):
        for part in torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).split(250):
            weights.zero_grad()
            log_likelihood = likelihood.log_prob(averaged(x[part], part, seed=epoch), y[part])
            log_prior = prior.log_density(dict(prior.weights(averaged)))
            (-(log_likelihood / len(part) + log_prior / len(x))).backward()
            weights.step()
        schedule.step()
        if epoch >= BURN_IN:
            gradient = covary.hypergrad.two_pass(averaged, likelihood, prior, (x, y), "kron", 1, seed=epoch)
            prior.log_precision.grad = -gradient["prior.log_precision"]
            if learn_width:
                averaged.augment.raw_widths.grad = -gradient["augment.raw_widths"]
            hyper.step()
        widths.append(averaged.augment.widths[0].item())
    return widths


def judge(averaged: covary.Averaged, prior: covary.Prior, x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor):
    terms = covary.log_evidence(averaged, covary.Categorical(), prior, (x, y))
    with torch.no_grad():
        predicted = averaged.with_samples(32)(x_test).argmax(-1)
    return terms, float((predicted == y_test).double().mean())


def draw(fixed: list, learned: tuple, path: list[float], out: Path) -> Path:
    """Evidence and accuracy against the width, and the way of the learned width."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    degrees = [math.degrees(width) for width, _, _ in fixed]
    left.plot(degrees, [float(t.log_evidence) / t.num_data for _, t, _ in fixed], "o-", color="C0")
    star = {"marker": "*", "markersize": 17, "markeredgecolor": "black", "linestyle": "none"}
    evidence = float(learned[1].log_evidence) / learned[1].num_data
    left.plot(math.degrees(learned[0]), evidence, color="C0", label="learned width", **star)
    left.set(xlabel="width of the rotation in degrees (±)", xticks=range(0, 181, 45))
    left.set_ylabel("log evidence per training image", color="C0")
    left.axvline(math.degrees(TRUE_WIDTH), color="0.6", ls=":")
    left.legend(frameon=False)
    other = left.twinx()
    other.plot(degrees, [100 * accuracy for _, _, accuracy in fixed], "s--", color="C1")
    other.plot(math.degrees(learned[0]), 100 * learned[2], color="C1", **star)
    other.set_ylabel("test accuracy in %", color="C1")
    right.plot([math.degrees(width) for width in path], color="C3")
    right.axhline(math.degrees(TRUE_WIDTH), color="0.6", ls=":", label="true width")
    right.axvspan(0, BURN_IN, color="0.95")
    right.set(xlabel="epoch", ylabel="learned width in degrees", ylim=(0, None))
    right.legend(frameon=False)
    for axes in (left, right, other):
        axes.spines["top"].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "evidence.svg")
    figure.savefig(out / "evidence.png", dpi=130)
    return out / "evidence.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/rotation"))
    out, start = parser.parse_args().out, time.perf_counter()
    images = covary.data.load("mnist-mini")
    x, y = turned(images.x_train[:NUM_DATA], seed=1), images.y_train[:NUM_DATA]
    x_test, y_test = turned(images.x_test, seed=2), images.y_test

    fixed = []
    for width in track(FIXED_WIDTHS, "training with fixed widths"):
        averaged, prior = build(width)
        train(averaged, prior, x, y, learn_width=False)
        fixed.append((width, *judge(averaged, prior, x, y, x_test, y_test)))
    averaged, prior = build(0.05)
    for _ in track(range(1), "training while the width is learned"):
        path = train(averaged, prior, x, y, learn_width=True)
    learned = (path[-1], *judge(averaged, prior, x, y, x_test, y_test))

    table = Table(title=f"{NUM_DATA} digits turned by up to ±90°")
    for column in ("width", "log evidence", "log-likelihood", "log-prior + volume", "test accuracy"):
        table.add_column(column, justify="right")
    for name, (width, terms, accuracy) in [("", row) for row in fixed] + [("learned ", learned)]:
        values = (terms.log_evidence, terms.log_likelihood, terms.log_prior + terms.log_volume)
        cells = [f"{float(value):,.0f}" for value in values]
        table.add_row(f"{name}±{math.degrees(width):.0f}°", *cells, f"{100 * accuracy:.1f} %")
    Console().print(table)
    picture = draw(fixed, learned, path, out)
    print(f"The picture lies in {picture} ({time.perf_counter() - start:.0f} s).")


if __name__ == "__main__":
    main()
