"""Files that are cut, flipped, zeroed or replaced: is every one noticed, and said in one line?"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from torture.cases import OUT, Case, difference
from torture.processes import kill_at, one_line, run

Damage = Callable[[bytes, bytes], bytes]  # of the content and that of the same file of another run


def damages(seed: str) -> dict[str, Damage]:
    """What is done to a file, by name; bits are drawn by the seed."""
    drawn = random.Random(seed)

    def flip(content: bytes, foreign: bytes) -> bytes:
        del foreign
        changed = bytearray(content)
        bit = drawn.randrange(8 * len(content))
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    return {
        "cut": lambda content, foreign: content[: len(content) // 2],
        "cut by two bytes": lambda content, foreign: content[:-2],  # without its last line end, a record is the same
        "emptied": lambda content, foreign: b"",
        "zeros": lambda content, foreign: bytes(len(content)),
        **{f"bit {number}": flip for number in range(1, 6)},
        "foreign": lambda content, foreign: foreign,
    }


def damaged_copies(source: Path, other: Path, name: str, target: Path) -> Iterator[tuple[str, Path]]:
    """Copies of a folder in which one file is damaged, one after another in the same place."""
    content = (source / name).read_bytes()
    foreign = (other / name).read_bytes() if (other / name).exists() else b"something else"
    for kind, damage in damages(name).items():
        damaged = damage(content, foreign)
        if damaged != content:  # some files of two runs are equal
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
            (target / name).write_bytes(damaged)
            yield kind, target


def finished(case: Case, folder: Path, name: str, other: Path) -> list[tuple[str, str]]:
    """Damage a file of a finished run in every way: `verify` must name it, and what reads it must refuse it."""
    found = []
    for kind, place in damaged_copies(case.reference, other, name, folder / OUT):
        problem = one_line(run(["verify", OUT], folder), "is not what was written")
        for command in readers(case, name) if not problem and kind != "foreign" else ():
            problem = problem or one_line(run(command, folder), name)
        found.append((f"{case.name}, {name}, {kind}", problem))
        del place
    return found


def readers(case: Case, name: str) -> list[list[str]]:
    """The commands that read a file of a run."""
    if case.name == "study":
        return []
    data = case.arguments[case.arguments.index("--data") + 1]
    predict = ["predict", OUT, "--data", data]
    every = {"run.json": [["report", OUT], ["compare", OUT, OUT], [*case.command, "--resume"], predict]}
    return {**every, "model.safetensors": [predict]}.get(name, [])


def unfinished(case: Case, folder: Path, operation: int) -> list[tuple[str, str]]:
    """Damage each file of an interrupted run: it is passed over, and the end is the same, or it is refused."""
    left, found = folder / "left", []
    run(case.command, left, kill_at(operation))
    files = [path.relative_to(left / OUT) for path in sorted((left / OUT).rglob("*")) if path.is_file()]
    for file in (str(path) for path in files if not path.name.startswith(".")):
        for kind, place in damaged_copies(left / OUT, left / "none", file, folder / "damaged" / OUT):
            done = run([*case.command, "--resume"], place.parent)
            same = done.code == 0 and not difference(place, case.reference)
            problem = "" if same else one_line(done, Path(file).name)
            found.append((f"{case.name}, {file}, {kind}", problem))
    return found
