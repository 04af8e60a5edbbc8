"""A run as a fit of rotated digits might leave it, and the same with parts missing."""

import base64
import dataclasses
import math
from functools import cache

import torch

from covary.data import load
from covary.groups import affine_generators, exponential
from covary.groups.affine import warp_normalized
from covary.records import (
    Baseline,
    Coverage,
    Epoch,
    Evidence,
    Layer,
    LayerPath,
    Metrics,
    Pictures,
    Pruning,
    RunRecord,
    Symmetry,
    Verdict,
)
from covary.records.words import meaning
from covary.report import page

UNITS = {
    "shift_x": "half-widths",
    "shift_y": "half-heights",
    "rotation": "radians",
    "scale_x": "log-scale",
    "scale_y": "log-scale",
    "shear": "log-scale",
    "flip_x": "probability",
    "brightness": "of full brightness",
}
WIDTHS = {"shift_x": 0.021, "shift_y": 0.017, "rotation": 1.518, "scale_x": 0.094, "scale_y": 0.03, "shear": 0.012}
HOSTILE = r"<script>alert(1)</script> $\frac{"


def symmetry(name: str, width: float) -> Symmetry:
    return Symmetry(name, width, UNITS[name], meaning(name, width, UNITS[name], (1, 28, 28)))


def evidence(fit: float, num_data: int = 5000) -> Evidence:
    terms = (fit * num_data, -163.1 * num_data, 161.9 * num_data)
    return Evidence(*terms, sum(terms), num_data, "kron", "exact", 12.5)


def epoch(number: int, burn_in: int, last: int) -> Epoch:
    progress = max(0.0, (number - burn_in) / (last - burn_in))
    widths = {name: 0.05 + (width - 0.05) * math.sin(math.pi / 2 * progress) for name, width in WIDTHS.items()}
    precisions = {
        f"module.{layer}.{part}": 10.0 ** (layer * progress) for layer in (1, 3) for part in ("weight", "bias")
    }
    estimate = evidence(-0.3 - 0.9 * math.exp(-number / 12)) if number > burn_in else None
    evaluated = evidence(-0.31 - 0.9 * math.exp(-number / 12)) if number in (last // 2, last) else None
    return Epoch(number, -0.3, widths, precisions, estimate, evaluated, 2.1 * number, evaluated is not None)


@cache
def pictures(num_images: int = 4, num_versions: int = 6) -> Pictures:
    """Digits of the embedded set under transforms of the run's widths."""
    digits = load("mnist-mini")
    images = digits.x_train[:num_images].to(torch.float64)
    generator = torch.Generator().manual_seed(0)
    noise = 2 * torch.rand(num_images, num_versions, 6, generator=generator, dtype=images.dtype) - 1
    coefficients = noise * torch.tensor(list(WIDTHS.values()), dtype=images.dtype)
    generators = affine_generators(tuple(WIDTHS), dtype=torch.float64)
    matrices = exponential(torch.einsum("nsk,kij->nsij", coefficients, generators))
    shown = torch.cat([images[:, None], warp_normalized(images, matrices)], 1)
    pixels = (255 * shown).round().clamp(0, 255).to(torch.uint8).numpy().tobytes()
    labels = [digits.class_names[int(label)] for label in digits.y_train[:num_images]]
    flat = [matrix.flatten().tolist() for matrix in matrices[0]]
    return Pictures(list(shown.shape), base64.b64encode(pixels).decode(), labels, flat)


def layer_path(name: str, share: float, num_params: int, inactive: bool = False) -> LayerPath:
    precisions = {"weight": 3.6e6 if inactive else 0.075, "bias": 2.1e6 if inactive else 14.5}
    norm = 1e-5 if inactive else 10.7
    return LayerPath(name, num_params, precisions, norm, 0.8 * share * num_params, 0.8 * share, share, inactive)


def layers() -> list[Layer]:
    """A network that became convolutional, but for its end."""
    shares = [1e-4, 2e-3, 0.04, 0.93]
    return [
        Layer(
            f"network.blocks.{number}",
            "conv" if share < 0.5 else "f-fc",
            [layer_path("f-fc", share, 20_480, share < 0.01), layer_path("conv", 1 - share, 360)],
            1.2e-6 if number < 3 else None,
            None,
        )
        for number, share in enumerate(shares)
    ]


def pruning() -> Pruning:
    removed = ["network.blocks.0.f-fc", "network.blocks.1.f-fc"]
    test = Metrics(0.9091, 0.292, 0.013, 2000, 16)
    return Pruning(0.01, removed, [], 42_400, 83_360, evidence(-0.3), evidence(-0.31), 2.5e-4, 3.1e-5, test)


@cache
def full_run() -> RunRecord:
    """A run with every field filled."""
    scores = ((0.9096, 0.291, 0.012), (0.813, 0.702, 0.061), (0.9081, 0.301, 0.031), (0.9002, 0.334, 0.022))
    copies = (16, 1, 16, 16)  # a network without transforms is its own mean
    tested = [Metrics(*score, 2000, number) for score, number in zip(scores, copies, strict=True)]
    return RunRecord(
        title="Symmetries of mnist-mini, rotated by up to 90°",
        config={
            "data": "mnist-mini",
            "symmetrize": "rotate:90",
            "num_train": None,
            "epochs": 60,
            "learning_rate": 5e-3,
        },
        versions={"covary": "0.1.0", "torch": "2.6.0", "python": "3.11.7", "threads": "2"},
        symmetries=[
            dataclasses.replace(
                symmetry(name, width), error=error, interval=[width - 0.06, width + 0.06] if error else None
            )
            for (name, width), error in zip(WIDTHS.items(), (None, None, 0.04, 0.04, None, None), strict=True)
        ],
        evidence=evidence(-0.31),
        test=tested[0],
        baselines=[
            Baseline("plain", [], evidence(-0.52), tested[1], 61.0),
            Baseline("fixed", [symmetry("rotation", 1.571)], evidence(-0.33), tested[2], 93.4),
            Baseline("augerino", [symmetry("rotation", 0.9)], None, tested[3], 95.0),
        ],
        layers=layers(),
        history=[epoch(number, 10, 60) for number in range(1, 61)],
        samples=pictures(),
        coverage=[
            Coverage(f"module.{layer}.{part}", [1000, 784] if part == "weight" else [1000], "linear", structure)
            for layer in (1, 3)
            for part, structure in (("weight", "kron"), ("bias", "dense"))
        ],
        correlation=[[1.0 if i == j else round(math.cos(2 * (i + j)) * 0.6, 2) for j in range(6)] for i in range(6)],
        true_widths={"rotation": 1.571},
        seconds=127.3,
        notes=["The widths were learned on all 5,000 training images."],
        pruned=pruning(),
        verdicts=[
            Verdict("rotation", "yes", 412.3, 35.1, 1.518, 412.3, 6.2, 35.1, 4.4),
            Verdict("shear", "undecided", -1.2, 2.0, 0.012, 1.2, 800.5, 2.0, 60.3),
        ],
        timings={"weights": 41.2, "hyper": 60.0, "evaluation": 12.3},
    )


def bare_run() -> RunRecord:
    """A run with nothing that may be left out."""
    return RunRecord("Nothing yet", {}, {}, [], None, None, [], [], [], None, [], None, {}, 0.0, False, [])


def eight_widths() -> RunRecord:
    names = [*WIDTHS, "flip_x", "brightness"]
    widths = WIDTHS | {"flip_x": 0.42, "brightness": 0.3}
    history = [dataclasses.replace(epoch(number, 10, 60), widths=widths) for number in range(1, 61)]
    return dataclasses.replace(
        full_run(), symmetries=[symmetry(name, widths[name]) for name in names], history=history,
        correlation=[[1.0 if i == j else -0.25 for j in range(8)] for i in range(8)],
    )  # fmt: skip


def hostile_run() -> RunRecord:
    """A run whose every text tries to be markup, or to be too long."""
    run = full_run()
    long = f"{HOSTILE} {'unbroken' * 20}"
    names = [f"{HOSTILE}{number}" for number in range(len(run.symmetries))]
    widths = {name: 0.1 for name in names}
    return dataclasses.replace(
        run,
        title=long,
        config={HOSTILE: long},
        versions={HOSTILE: long},
        symmetries=[Symmetry(name, 0.1, HOSTILE, long) for name in names],
        history=[dataclasses.replace(e, widths=widths, precisions={long: 1.0}) for e in run.history],
        samples=dataclasses.replace(run.samples, labels=[HOSTILE] * len(run.samples.labels)),
        coverage=[Coverage(long, [], HOSTILE, HOSTILE)],
        layers=[
            dataclasses.replace(
                layer,
                name=f"{long}{number}",
                learned=long,
                paths=[dataclasses.replace(path, name=long) for path in layer.paths],
            )
            for number, layer in enumerate(run.layers)
        ],
        pruned=dataclasses.replace(run.pruned, removed=[long] * 2, replaced=[long]),
        true_widths={names[0]: 0.2},
        notes=[long],
    )


def layers_run() -> RunRecord:
    """A run of `covary layers`: no transforms, and eight layers of three paths over a group."""
    shares = [(0.001, 0.2, 0.799), (0.002, 0.098, 0.9), (0.1, 0.6, 0.3), (0.9, 0.05, 0.05)] * 2
    eight = [
        Layer(
            f"network.blocks.{number}",
            ("f-fc", "conv", "gconv")[parts.index(max(parts))],
            [layer_path(name, part, 1000) for name, part in zip(("f-fc", "conv", "gconv"), parts, strict=True)],
            0.02 * number,
            0.1 * number,
        )
        for number, parts in enumerate(shares)
    ]
    history = [dataclasses.replace(e, widths={}) for e in full_run().history]
    tests = [dataclasses.replace(full_run().test, num_samples=1) for _ in range(3)]
    tested = zip(("map", "conv"), tests[1:], strict=True)
    return dataclasses.replace(
        full_run(),
        title="mnist-mini, 32×32: 5,000 images, relaxed:f-fc+conv+gconv:2",
        symmetries=[],
        history=history,
        samples=None,
        correlation=None,
        true_widths={},
        layers=eight,
        test=tests[0],
        baselines=[Baseline(name, [], evidence(-0.5), test, 61.0) for name, test in tested],
        notes=["The network takes the training images' mean (0.1) out."],
        pruned=None,
    )


RUNS = {
    "full": full_run,
    "layers": layers_run,
    "plain layers": lambda: dataclasses.replace(
        layers_run(), layers=[dataclasses.replace(x, paths=x.paths[1:2], learned="conv") for x in layers_run().layers]
    ),
    "bare": bare_run,
    "no history": lambda: dataclasses.replace(full_run(), history=[]),
    "no samples": lambda: dataclasses.replace(full_run(), samples=None),
    "no matrices": lambda: dataclasses.replace(full_run(), samples=dataclasses.replace(pictures(1, 1), matrices=[])),
    "images alone": lambda: dataclasses.replace(full_run(), samples=dataclasses.replace(pictures(2, 0), matrices=[])),
    "no test": lambda: dataclasses.replace(full_run(), test=None, baselines=[]),
    "regression": lambda: dataclasses.replace(full_run(), test=Metrics(None, 1.2, None, 10, 1), baselines=[]),
    "one symmetry": lambda: dataclasses.replace(full_run(), symmetries=[symmetry("rotation", 1.5)], correlation=None),
    "zero widths": lambda: dataclasses.replace(
        full_run(), symmetries=[symmetry(name, 0.0) for name in WIDTHS], true_widths={}
    ),
    "eight symmetries": eight_widths,
    "one epoch": lambda: dataclasses.replace(full_run(), history=[epoch(1, 0, 1)]),
    "no evidence": lambda: dataclasses.replace(
        full_run(),
        evidence=None,
        history=[dataclasses.replace(e, evidence=None, evaluated=None, best=False) for e in full_run().history],
    ),
    "nothing evaluated": lambda: dataclasses.replace(
        full_run(), history=[dataclasses.replace(e, evaluated=None, best=False) for e in full_run().history]
    ),
    "hostile": hostile_run,
}
SPARSE = {name: make for name, make in RUNS.items() if name != "full"}


@cache
def page_of(name: str) -> str:
    """The page of a run by name: drawing one takes seconds."""
    return page(RUNS[name]())
