"""Which rotations do the labels ignore? The evidence of the training data knows, without a validation set.

1,200 MNIST digits are turned by up to ±90°. First the width of the augmentation is fixed by hand, a network is trained
for each, and the evidence of its training data is compared with its accuracy on test digits it never saw. Then the
width is learned while one network trains, by gradient ascent on the same evidence.

    python examples/evidence_of_rotation.py [--out runs/rotation]
"""

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import covary

TRUE_WIDTH = math.pi / 2
FIXED_WIDTHS = [0.0, math.pi / 4, math.pi / 2, 3 * math.pi / 4, 0.999 * math.pi]
CONFIG = covary.FitConfig(epochs=45, burn_in=5, hyper_steps=2, prior_rate=0.3, judgements=1)


def train(images: covary.data.Dataset, width: float, learned: bool) -> covary.Run:
    augment = covary.augment.Affine2d(["rotation"], initial_width=width).requires_grad_(learned)
    network = covary.networks.mlp(784, 100, 10, generator=torch.Generator().manual_seed(0))
    return covary.fit(covary.Averaged(network, augment, 8), images.train, config=CONFIG, test=images.test)


def draw(fixed: list[covary.Run], learned: covary.Run, out: Path) -> Path:
    """Evidence and accuracy against the width, and the way of the learned width."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    other = left.twinx()
    for axes, label, color, value in (
        (left, "log evidence per training image", "C0", lambda run: run.evidence.log_evidence / run.evidence.num_data),
        (other, "test accuracy in %", "C1", lambda run: 100 * run.record.test.accuracy),
    ):
        degrees = [math.degrees(run.symmetries[0].width) for run in fixed]
        axes.plot(degrees, [value(run) for run in fixed], "o-", color=color)
        axes.plot(math.degrees(learned.symmetries[0].width), value(learned), "*", color=color, ms=17, mec="black")
        axes.set_ylabel(label, color=color)
    left.set(xlabel="width of the rotation in degrees (±)", xticks=range(0, 181, 45), title="fixed widths; ★ learned")
    right.plot([math.degrees(epoch.widths["rotation"]) for epoch in learned.record.history], color="C3")
    right.axhline(math.degrees(TRUE_WIDTH), color="0.6", ls=":", label="true width")
    right.set(xlabel="epoch", ylabel="learned width in degrees", ylim=(0, None))
    right.legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "evidence.png", dpi=130)
    return out / "evidence.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/rotation"))
    digits = covary.data.limited(covary.data.load("mnist-mini"), 1200, seed=0)
    images = covary.data.symmetrize(digits, "rotate:90", seed=0)
    fixed = [train(images, width, learned=False) for width in FIXED_WIDTHS]
    learned = train(images, 0.05, learned=True)
    for run in [*fixed, learned]:
        width, evidence = math.degrees(run.symmetries[0].width), run.evidence.log_evidence
        print(f"±{width:4.0f}°  log evidence {evidence:8.0f}  test accuracy {run.record.test.accuracy:.1%}")
    print(f"The last one was learned. The picture lies in {draw(fixed, learned, parser.parse_args().out)}.")


if __name__ == "__main__":
    main()
