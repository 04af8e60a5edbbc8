"""Does learning the augmentation improve accuracy and evidence, on the networks and data of paper 1?

Tables 1 and 2: five versions of a data set, by a plain network, Augerino and a learned augmentation, beside the
figures that the paper prints. The same records give the trajectories and learned invariances of App. C and D.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...config.settings import check_choice
from ...records import Claim, Study
from ...training import versions as library_versions
from ..cells import compute_cells, wall_time
from ..study import Request, above
from . import published
from .comparison import METHODS, Cell, Group, Job, config_of, group, sizes_of
from .recover import VERSIONS

# Data -> the networks that the paper trains on them, the first by default.
NETWORKS = {
    "mnist": ("mlp", "cnn"),
    "fashion-mnist": ("mlp", "cnn"),
    "cifar-10": ("resnet-8-8", "resnet-8-16", "resnet-14-16"),
}
TITLES = {"plain": "plain", "augerino": "Augerino", "learned": "learned"}
MIN_GAIN = 0.05  # of learned over plain on fully rotated Fashion-MNIST; the paper has 0.10
ORDERED = ("fully rotated", "partially rotated", "original")  # of CIFAR-10: learned above Augerino above plain
MAX_MINUTES = 60  # of a row of the table: one method on all versions


def table1(request: Request) -> Study:
    """Test accuracy and evidence of the plain, Augerino's and the learned network on five versions of a data set."""
    data, network = data_and_network(request)
    return _compared("table1", data, network, request, request.chosen_versions(VERSIONS))


def data_and_network(request: Request) -> tuple[str, str]:
    """The names of the data and of the network that were asked for, by default MNIST and the first network."""
    data = request.options.data or "mnist"
    check_choice("data", data, NETWORKS)
    network = request.options.network or NETWORKS[data][0]
    check_choice("network", network, NETWORKS[data])
    return data, network


def table2(request: Request) -> Study:
    """The same of a deeper residual network, on CIFAR-10 as it is."""
    return _compared("table2", "cifar-10", "resnet-14-16", request, ("original",))


def _compared(name: str, data: str, network: str, request: Request, chosen: tuple[str, ...]) -> Study:
    """The study of one network on versions of one data set."""
    sizes = sizes_of(request.scale, network)
    num_train, processes = request.options.num_train or sizes.num_train, request.options.processes or sizes.processes
    methods = request.chosen_methods(METHODS)
    given = {"epochs": request.options.epochs, "num_samples": request.options.num_samples}
    changed = {name: value for name, value in given.items() if value is not None}
    jobs = [
        Job(version, method, config.replace(**changed), sizes.test_samples)
        for seed in request.seeds(sizes.num_seeds)
        for version in chosen
        for config in [config_of(data, network, version, request._replace(seed=seed), num_train)]
        for method in methods
    ]
    specs = [job.spec(f"{job.version}, {job.method}, seed {job.config.fit.seed}") for job in jobs]
    cells = list(compute_cells(specs, request.folder, request.progress, processes).values())
    return Study(
        name=name,
        scale=request.scale,
        title=f"{data}, {network}, {cells[0].num_train:,} images: {', '.join(TITLES[method] for method in methods)}",
        config=jobs[0].config.as_dict() | {"data": data, "network": network, "test_samples": sizes.test_samples},
        versions=library_versions(),
        rows=[_row(version, method, cells, (data, network)) for version in chosen for method in methods],
        series={"cells": [asdict(cell) for cell in cells]},
        claims=_claims(cells, data) + ([] if num_train else _printed(cells, data, network, processes)),
        seconds=wall_time((cell.seconds for cell in cells), processes),
    )


def _row(version: str, method: str, cells: Sequence[Cell], names: tuple[str, str]) -> dict[str, Any]:
    """A line of the table: means over seeds, and what the paper prints."""
    found = group(cells, version, method).row()
    return {
        "version": version,
        "method": method,
        "accuracy %": found["accuracy %"],
        "± standard error": found["± standard error"],
        "paper's accuracy %": published.accuracy(*names, method, version),
        "nll": found["nll"],
        "ece": found["ece"],
        "evidence per datum": found["evidence per datum"],
        "paper's evidence per datum": published.evidence(*names, method, version),
        "seconds": found["seconds"],
        "problems": found["problems"],
    }


def _versions(cells: Sequence[Cell]) -> dict[str, dict[str, Group]]:
    """Version -> method -> its cells."""
    found: dict[str, dict[str, Group]] = {}
    for cell in cells:
        found.setdefault(cell.version, {}).setdefault(cell.method, group(cells, cell.version, cell.method))
    return found


def _claims(cells: Sequence[Cell], data: str) -> list[Claim]:
    """What the paper claims of every network, and of some; only of methods that were trained."""
    found, claims = _versions(cells), []
    for version, methods in found.items():
        ordered = data == "cifar-10" and version in ORDERED
        if {"learned", "plain"} <= methods.keys():
            learned, plain = methods["learned"].accuracy, methods["plain"].accuracy
            claims.append(above(f"{version}: learned above plain", learned, plain))
            if data == "fashion-mnist" and version == "fully rotated":
                claims.append(above(f"{version}: learned 5 points above plain", learned, plain + MIN_GAIN))
            claims.append(_evidence(version, methods))
        if ordered and {"learned", "augerino"} <= methods.keys():
            learned, augerino = methods["learned"].accuracy, methods["augerino"].accuracy
            claims.append(above(f"{version}: learned above Augerino", learned, augerino))
        if ordered and {"augerino", "plain"} <= methods.keys():
            augerino, plain = methods["augerino"].accuracy, methods["plain"].accuracy
            claims.append(above(f"{version}: Augerino above plain", augerino, plain))
    compared = {name: methods for name, methods in found.items() if {"learned", "augerino"} <= methods.keys()}
    return [*claims, _mostly(compared)] if compared else claims


def _evidence(version: str, methods: dict[str, Group]) -> Claim:
    """Whether the evidence of the learned network is above that of the plain one."""
    ours, theirs = methods["learned"].evidence, methods["plain"].evidence
    assert ours is not None, "it is evaluated"
    assert theirs is not None, "it is evaluated"
    found = f"{ours:.4f} against {theirs:.4f}"
    return Claim(f"{version}: evidence above plain", f"> {theirs:.4f} per datum", found, ours > theirs)


def _mostly(found: dict[str, dict[str, Group]]) -> Claim:
    """Whether learned is at or above Augerino on all versions but one."""
    held = [
        version for version, methods in found.items() if methods["learned"].accuracy >= methods["augerino"].accuracy
    ]
    least = max(len(found) - 1, 1)
    words = f"{len(held)}: {', '.join(held)}" if held else "none"
    return Claim("learned at or above Augerino", f"on {least} of {len(found)} versions", words, len(held) >= least)


def _printed(cells: Sequence[Cell], data: str, network: str, processes: int) -> list[Claim]:
    """With all images: whether the learned network is at or above what the paper prints, and in which time."""
    claims, learned = [], [cell for cell in cells if cell.method == "learned"]
    for version, methods in _versions(learned).items():
        bar = published.accuracy(data, network, "learned", version)
        if bar is not None:
            value = 100 * methods["learned"].accuracy
            claims.append(
                Claim(f"{version}: learned at or above the paper", f"≥ {bar:.2f} %", f"{value:.2f} %", value >= bar)
            )
    if learned:
        spent = wall_time((cell.seconds for cell in learned), processes) / 60
        claims.append(
            Claim("learned on all versions", f"≤ {MAX_MINUTES} minutes", f"{spent:.0f} minutes", spent <= MAX_MINUTES)
        )
    return claims
