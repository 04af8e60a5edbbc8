"""Does a learned augmentation help most where data are few?

Paper 1, Sec. 5.4, Fig. 5 and App. E: test accuracy against the number of training images, by a plain network, Augerino
and a learned augmentation.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import NamedTuple

from ...config.settings import check_choice
from ...records import Claim, Study
from ...training import versions as library_versions
from ..cells import compute_cells, wall_time
from ..study import Request, above
from .comparison import METHODS, Cell, Group, Job, config_of, sizes_of
from .recover import VERSIONS
from .table1 import NETWORKS

SHOWN = ("fully rotated", "translated")
# Number of images -> epochs: fewer images are read more often, for about as many weight steps.
EPOCHS = {
    "smoke": {60: 2, 100: 2},
    "cpu": {312: 240, 1250: 90, 5000: 30},
    "paper": {312: 1000, 1250: 1000, 5000: 1000, 20_000: 1000},
}


class Point(NamedTuple):
    """One point of the figure: network, version, number of images and method."""

    network: str
    version: str
    num_train: int
    method: str


Points = dict[Point, Group]


def figure5(request: Request) -> Study:
    """Test accuracy of three methods against the number of training images."""
    data, epochs = request.options.data or "mnist", EPOCHS[request.scale]
    check_choice("data", data, NETWORKS)
    networks = (request.options.network,) if request.options.network else NETWORKS[data][:2]
    for network in networks:
        check_choice("network", network, NETWORKS[data])
    numbers = tuple(epochs) if request.options.num_train is None else (request.options.num_train,)
    chosen = request.chosen_versions(VERSIONS) if request.options.versions else SHOWN
    sizes = sizes_of(request.scale, networks[0])
    jobs = {}
    for seed in request.seeds(sizes.num_seeds):
        for point in map(Point._make, product(networks, chosen, numbers, METHODS)):
            own = request._replace(seed=seed)
            config = config_of(data, point.network, point.version, own, point.num_train)
            config = config.replace(epochs=_epochs(epochs, point.num_train))
            jobs[point, seed] = Job(point.version, point.method, config, sizes.test_samples)
    specs = {_name(*key): job.spec(_name(*key)) for key, job in jobs.items()}
    processes = request.options.processes or sizes.processes
    found = compute_cells(list(specs.values()), request.folder, request.progress, processes)
    cells = {key: found[_name(*key)] for key in jobs}
    points = _points(cells)
    return Study(
        name="figure5",
        scale=request.scale,
        title=f"{data}: test accuracy against the number of images",
        config=next(iter(jobs.values())).config.as_dict() | {"data": data, "test_samples": sizes.test_samples},
        versions=library_versions(),
        rows=[point._asdict() | group.row() for point, group in points.items()],
        series={"cells": [asdict(cell) | {"network": key[0].network} for key, cell in cells.items()]},
        claims=_claims(points),
        seconds=wall_time((cell.seconds for cell in cells.values()), processes),
    )


def _epochs(epochs: dict[int, int], num_train: int) -> int:
    """The epochs of the largest number of images of the scale that is not above this one."""
    return epochs[max((number for number in epochs if number <= num_train), default=min(epochs))]


def _name(point: Point, seed: int) -> str:
    return f"{point.network}, {point.version}, {point.num_train} images, {point.method}, seed {seed}"


def _points(cells: dict[tuple[Point, int], Cell]) -> Points:
    """The cells of each point, one per seed."""
    grouped: dict[Point, list[Cell]] = {}
    for (point, _), cell in cells.items():
        grouped.setdefault(point, []).append(cell)
    return {point: Group(found) for point, found in grouped.items()}


def _claims(points: Points) -> list[Claim]:
    """Whether learned is best at every size, and by the widest margin over plain at the smallest."""
    claims = []
    for network, version in dict.fromkeys((point.network, point.version) for point in points):
        numbers = sorted({point.num_train for point in points if (point.network, point.version) == (network, version)})
        gains = []
        for number in numbers:
            plain, augerino, learned = (points[Point(network, version, number, method)].accuracy for method in METHODS)
            sentence = f"{network}, {version}, {number:,} images: learned above both"
            claims.append(above(sentence, learned, max(plain, augerino)))
            gains.append(learned - plain)
        if len(numbers) > 1:
            claims.append(_widest(f"{network}, {version}: widest margin over plain", numbers, gains))
    return claims


def _widest(sentence: str, numbers: Sequence[int], gains: Sequence[float]) -> Claim:
    found = ", ".join(f"{100 * gain:+.1f}" for gain in gains)
    return Claim(sentence, f"with {numbers[0]:,} images", f"{found} points", gains[0] == max(gains))
