"""What `covary export` writes of a saved run: its augmentation as text, its network as a file or a folder."""

import json
from pathlib import Path

from torch import Size

from ..augment import Augmentation, to_text
from ..augment.export import from_json
from ..errors import DataError, StructureError
from ..records import RunRecord, Symmetry, Verdict, read_run
from ..records.checksums import read_checked
from ..records.words import interval, strength
from ..training import Run
from ..training.inputs import trained_shape
from .predict import saved_run
from .resources import require_sample_memory

NUM_TRIED = 5  # data that an exported network is tried with
UNSETTLED = {
    "not learned yet": "not learned by this run, so as it was at its start",
    "still moving": "still moving when training ended; more epochs may change it",
}


def run_to_export(run: Path, network: str | None, trust_code: bool, num_samples: int | None = None) -> Run:
    """A saved run whose network is to be exported.

    Arguments:
        run: The folder of the run.
        network: "package.module:function" that makes the network, for a run with a network of the user's own.
        trust_code: Whether the function that the record names may make it, where none is passed.
        num_samples: The augmentation samples of what is exported; None for those of the run.
    """
    shape = trained_shape(read_run(run))
    if not shape:
        raise StructureError("The record is without the shape of the inputs. Export it in Python, with an example.")
    found = saved_run(run, shape, network, trust_code)
    require_sample_memory(found.network, Size((NUM_TRIED, *shape)), num_samples)
    return found


def saved_augmentation(run: Path) -> Augmentation:
    """The learned augmentation of a saved run; its network is not needed."""
    folder = run if run.is_dir() else run.parent
    record = read_run(run)
    if not record.symmetries:
        raise StructureError(f"The run in '{folder}' has no augmentation that could be exported.")
    content = read_checked(folder, "augment.json", record.files)
    try:
        return from_json(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{folder / 'augment.json'}' is no augmentation of covary: {error}") from error


def exported_text(run: Path, target: str, *, sure: bool = False) -> str:
    """The ranges of a saved run as text for another library; a comment on each says how well it is known.

    Arguments:
        run: The folder of the run.
        target: The library.
        sure: Whether to leave out what is negligible or unsettled, may be 0, or has a verdict other than yes.
    """
    record, augment = read_run(run), saved_augmentation(run)
    doubts = {symmetry.name: _doubt(symmetry, record) for symmetry in record.symmetries} if sure else {}
    names = [name for name in augment.names if doubts.get(name) is None]
    left_out = [f"{name} ({doubt})" for name, doubt in doubts.items() if doubt is not None]
    if not names:
        raise StructureError(
            f"No transform of the run is sure: {', '.join(left_out)}. Export without --sure, or train for longer."
        )
    header, text = to_text(augment, target, names=names).split("\n", 1)
    kept = [symmetry for symmetry in record.symmetries if symmetry.name in names]
    comments = [f"# {symmetry.name}: {_known(symmetry, record)}." for symmetry in kept]
    comments += [f"# Left out: {', '.join(left_out)}."] if left_out else []
    return "\n".join([header, *comments, text])


def _known(symmetry: Symmetry, record: RunRecord) -> str:
    """How well a width is known: its state where it has not settled, its interval, and its verdict."""
    said = [UNSETTLED[symmetry.state]] if symmetry.state in UNSETTLED else []
    if symmetry.interval is None:
        said.append("no error bar" if symmetry.no_error is None else f"no error bar ({symmetry.no_error})")
    else:
        said.append(f"90 % interval {interval(symmetry, _shape(record))}")
    return "; ".join([*said, *(f"verdict {found.quote}" for found in _verdicts(symmetry, record))])


def _doubt(symmetry: Symmetry, record: RunRecord) -> str | None:
    """Why a transform is left out of what is sure; None where it is not."""
    if doubted := [found.answer for found in _verdicts(symmetry, record) if found.answer != "yes"]:
        return f"verdict {doubted[0]}"
    if symmetry.state in UNSETTLED:
        return symmetry.state
    if strength(symmetry, _shape(record)) == "negligible":
        return "negligible"
    if symmetry.interval is None:
        return None if symmetry.state == "fixed" else "no error bar"
    return "may be 0" if symmetry.interval[0] == 0 else None


def _verdicts(symmetry: Symmetry, record: RunRecord) -> list[Verdict]:
    return [verdict for verdict in record.verdicts if verdict.name == symmetry.name]


def _shape(record: RunRecord) -> list[int] | None:
    return None if record.samples is None else record.samples.shape
