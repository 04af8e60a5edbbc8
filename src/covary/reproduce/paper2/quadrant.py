"""Do layers learn to be convolutional where the task allows it, and not where it does not?

Paper 2, Sec. 6.1, Table 1. A digit is in one of four quadrants. The class of the digit does not depend on the quadrant;
the class of digit and quadrant does, and a strictly invariant network can only guess the quadrant.
"""

from dataclasses import replace

from ...config import FitConfig
from ...config.experiment import TaskName
from ...records import Claim, Study
from ..study import Request, above
from .layer_study import EVIDENCE, METHODS, PAPER, SMOKE, Cells, Job, Scale, Version, train_all

DIGIT, BOTH = "digit", "digit and quadrant"
TASKS: dict[str, TaskName] = {DIGIT: "digit", BOTH: "quadrant"}
NETWORKS = {"FC": "fc", "CONV": "conv", "F-FC+CONV": "f-fc+conv"}
LEARNED = "F-FC+CONV"
QUARTER = (0.2, 0.3)  # the fractions of its digit accuracy that count as about a quarter
CLOSE = 0.02
MAX_MINUTES = 40

SCALES = {
    "smoke": Scale(1, 400, 8, SMOKE),  # all forty classes must occur
    "cpu": Scale(4, 4000, 32, FitConfig.preset("layers"), processes=2),
    "paper": Scale(10, None, 32, PAPER.replace(epochs=1000)),
}
# At the common width, 20.6 M weights, FC alone would take longer than the limit of the study.
NARROWER = {"cpu": {"FC": 2}}


def quadrant(request: Request) -> Study:
    """Test accuracy of FC, CONV and F-FC+CONV, by MAP and by the evidence, with and without a symmetry."""
    chosen, data = SCALES[request.scale].with_options(request), "mnist-mini" if request.scale == "smoke" else "mnist"
    narrower = NARROWER.get(request.scale, {})
    scales = {network: replace(chosen, alpha=narrower.get(network, chosen.alpha)) for network in NETWORKS}
    jobs = [
        Job(name, network, method, scales[network].config(variant, Version(data, task=task), seeded))
        for seeded in chosen.requests(request)
        for name, task in TASKS.items()
        for network, variant in NETWORKS.items()
        for method in METHODS
    ]
    cells = train_all(jobs, chosen, request)
    return cells.study(
        "quadrant",
        "A task with a symmetry and one without: strict, free and learned layers",
        [*_claims(cells), *([_speed(cells.seconds)] if request.scale == "cpu" and not request.options.given else [])],
        {"data": data, "narrower": narrower},
    )


def _claims(cells: Cells) -> list[Claim]:
    learned = {task: cells.accuracy(task, LEARNED, EVIDENCE) for task in TASKS}
    return [
        *(_quarter(cells, method) for method in METHODS),
        above(f"{BOTH}: learned beats FC", learned[BOTH], cells.best_accuracy(BOTH, "FC")),
        above(f"{DIGIT}: learned within 2 points of CONV", learned[DIGIT], cells.best_accuracy(DIGIT, "CONV") - CLOSE),
    ]


def _quarter(cells: Cells, method: str) -> Claim:
    alone, both = (cells.accuracy(task, "CONV", method) for task in (DIGIT, BOTH))
    low, high = (fraction * alone for fraction in QUARTER)
    sentence = f"{BOTH}: CONV fails, with about a quarter of its digit accuracy ({method})"
    bar = f"{100 * alone / 4:.1f} %, from {100 * low:.1f} to {100 * high:.1f}"
    return Claim(sentence, bar, f"{100 * both:.2f} %", low <= both <= high)


def _speed(seconds: float) -> Claim:
    bar, found = f"≤ {MAX_MINUTES} minutes", f"{seconds / 60:.0f} minutes"
    return Claim("all networks on both tasks", bar, found, seconds <= 60 * MAX_MINUTES)
