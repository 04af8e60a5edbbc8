"""Do correlated coefficients help on images that are scaled alike along both axes?

Paper 1, Sec. 5.5: independent widths of horizontal and vertical scale cannot describe such data. Here the same networks
learn independent and correlated coefficients, by evidence and test accuracy.
"""

from dataclasses import asdict
from typing import Any

from ...records import Claim, Study
from ...training import versions as library_versions
from ..cells import compute_cells, wall_time
from ..study import Request, above
from .comparison import Cell, Group, Job, config_of, sizes_of
from .table1 import data_and_network

VERSION = "scaled"
KINDS = {"independent": "affine", "correlated": "correlated"}  # coefficients -> the augmentation


def correlated(request: Request) -> Study:
    """Evidence and test accuracy with independent and with correlated coefficients, on the scaled version."""
    data, network = data_and_network(request)
    sizes = sizes_of(request.scale, network)
    num_train, processes = request.options.num_train or sizes.num_train, request.options.processes or sizes.processes
    jobs = {}
    for seed in request.seeds(sizes.num_seeds):
        for kind, augment in KINDS.items():
            config = config_of(data, network, VERSION, request._replace(seed=seed), num_train)
            jobs[f"{kind}, seed {seed}"] = Job(kind, "learned", config.replace(augment=augment), sizes.test_samples)
    specs = [job.spec(name) for name, job in jobs.items()]
    cells = list(compute_cells(specs, request.folder, request.progress, processes).values())
    return Study(
        name="correlated",
        scale=request.scale,
        title=f"{data}, {network}, scaled: independent and correlated coefficients",
        config=next(iter(jobs.values())).config.as_dict() | {"data": data, "network": network},
        versions=library_versions(),
        rows=[_row(cell) for cell in cells],
        series={"cells": [asdict(cell) for cell in cells]},
        claims=_claims(cells),
        seconds=wall_time((cell.seconds for cell in cells), processes),
    )


def _row(cell: Cell) -> dict[str, Any]:
    """The line of one network, with its scales and their correlation."""
    both = [list(cell.learned).index(name) for name in ("scale_x", "scale_y")]
    known = None if cell.correlation is None else cell.correlation[both[0]][both[1]]
    return {
        "coefficients": cell.version,
        "seed": cell.seed,
        "accuracy %": 100 * (cell.test.accuracy or 0.0),
        "nll": cell.test.nll,
        "evidence per datum": Group([cell]).evidence,
        "scale_x": cell.learned["scale_x"],
        "scale_y": cell.learned["scale_y"],
        "true scale": cell.true_widths["scale_x"],
        "correlation of scales": known,
        "seconds": cell.seconds,
    }


def _claims(cells: list[Cell]) -> list[Claim]:
    alone, joint = (Group([cell for cell in cells if cell.version == kind]) for kind in KINDS)
    assert alone.evidence is not None, "it is evaluated"
    assert joint.evidence is not None, "it is evaluated"
    bar, found = f"> {alone.evidence:.4f} per datum", f"{joint.evidence:.4f}"
    return [
        Claim("correlated coefficients: evidence above independent", bar, found, joint.evidence > alone.evidence),
        above("correlated coefficients: accuracy above independent", joint.accuracy, alone.accuracy),
    ]
