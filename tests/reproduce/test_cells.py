"""Finished cells of a study: read instead of computed again, refused if their settings differ."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covary.errors import DataError, StructureError
from covary.reproduce.cells import STUDY, CellSpec, compute_cells, require_fresh, wall_time

WORKER = Path(__file__).parent / "sleeping_study.py"
SETTINGS = {"epochs": 3, "widths": (1, 2), "data_dir": "here"}


@dataclass(frozen=True)
class Count:
    name: str
    values: list[float]


def silent(name: str, share: float) -> None:
    del name, share


def a_cell(folder: Path | None, settings: dict | None = None, *, value: float = 1.5) -> Count:
    spec = CellSpec("Digit, F-FC+CONV, ω", settings or SETTINGS, Count, lambda: Count("first", [value]))
    (found,) = compute_cells([spec], folder, silent).values()
    return found


def never() -> Count:
    raise AssertionError("a finished cell is not computed again")


def square(number: int) -> Count:
    if number < 0:
        raise DataError(f"got {number}")
    return Count(str(number), [number**2])


def squares(*numbers: int) -> list[CellSpec[Count]]:
    return [CellSpec(str(number), SETTINGS, Count, partial(square, number)) for number in numbers]


def test_records_have_the_order_of_specs():
    seen: list[tuple[str, float]] = []
    found = compute_cells(squares(3, 1, 2), None, lambda name, share: seen.append((name, share)))
    assert [(name, cell.values) for name, cell in found.items()] == [("3", [9]), ("1", [1]), ("2", [4])]
    assert {name for name, _ in seen} == {"3", "1", "2"}
    assert [share for _, share in seen] == [i / 3 for i in range(3)]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_error_ends_the_work(processes):
    with pytest.raises(DataError, match="got -1"):
        compute_cells(squares(-1, 2), None, silent, processes)


@pytest.mark.parametrize("processes", [1, 2])
def test_kept_cells_are_not_computed_again_and_count_as_done_and_records_have_the_order_of_specs(tmp_path, processes):
    seen: list[tuple[str, float]] = []
    compute_cells(squares(3, 2), tmp_path, silent)
    specs = [replace(spec, make=never) if spec.name in ("3", "2") else spec for spec in squares(5, 3, 1, 2, 4)]
    found = compute_cells(specs, tmp_path, lambda name, share: seen.append((name, share)), processes)
    assert [(name, cell.values) for name, cell in found.items()] == [(str(n), [n**2]) for n in (5, 3, 1, 2, 4)]
    assert {name for name, _ in seen} == {"5", "1", "4"}
    assert [share for _, share in seen] == [(2 + i + (processes > 1)) / 5 for i in range(3)]


@pytest.mark.parametrize("processes", [1, 2])
def test_every_kept_cell_is_checked_before_any_other_is_compute_cells(tmp_path, processes):
    """Otherwise a study of hours would end with an error about its last cell."""
    compute_cells([CellSpec("last", SETTINGS | {"epochs": 4}, Count, partial(square, 1))], tmp_path, silent)
    specs = [CellSpec("first", SETTINGS, Count, never), CellSpec("last", SETTINGS, Count, never)]
    with pytest.raises(StructureError, match=r"epochs = 4 as in .*last\.json, got 3"):
        compute_cells(specs, tmp_path, silent, processes)


def test_a_finished_cell_is_read_and_not_computed_again(tmp_path):
    first = a_cell(tmp_path / "cells")
    assert a_cell(tmp_path / "cells", value=9.0) == first
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["digit-f-fc+conv-.json"]


def test_without_a_folder_every_cell_is_compute_cells(tmp_path):
    assert a_cell(None, value=1.0).values == [1.0]
    assert a_cell(None, value=2.0).values == [2.0]
    assert list(tmp_path.iterdir()) == []


def test_another_cell_is_compute_cells(tmp_path):
    a_cell(tmp_path)
    assert compute_cells(squares(2), tmp_path, silent) == {"2": Count("2", [4])}


def test_a_cell_that_fails_is_not_kept(tmp_path):
    with pytest.raises(DataError):
        compute_cells(squares(-1), tmp_path, silent)
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_except_the_folder_of_data(tmp_path):
    first = a_cell(tmp_path)
    assert a_cell(tmp_path, SETTINGS | {"data_dir": "there"}, value=9.0) == first
    for other in (SETTINGS | {"epochs": 4}, SETTINGS | {"more": 1}, {"epochs": 3}):
        with pytest.raises(StructureError, match="Resume with the same settings"):
            a_cell(tmp_path, other)
    grouped = tmp_path / "grouped"
    a_cell(grouped, SETTINGS | {"evaluation": {"probes": "auto", "num_samples": 8}})
    with pytest.raises(StructureError, match=r"Expected evaluation\.num_samples = 8 .*got 4"):
        a_cell(grouped, SETTINGS | {"evaluation": {"probes": "auto", "num_samples": 4}})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"settings": {}}', '{"settings": 3, "record": {}}', "[" * 100_000])
def test_a_broken_file_is_named(tmp_path, text):
    a_cell(tmp_path)
    path = next(tmp_path.iterdir())
    path.write_text(text)
    with pytest.raises(DataError, match=r"finished cell .*digit-f-fc\+conv-.json"):
        a_cell(tmp_path)


def test_an_unfinished_study_is_refused_unless_it_is_resumed_or_replaced(tmp_path):
    cells = tmp_path / "cells"
    require_fresh(cells, False, False)
    a_cell(cells)
    (cells / f".a.json.{2**22 + 1}").touch()  # of a killed process
    require_fresh(cells, True, False)
    assert len(list(cells.iterdir())) == 1
    with pytest.raises(StructureError, match="an unfinished study. Pass --resume to continue it, --overwrite"):
        require_fresh(cells, False, False)
    require_fresh(cells, False, True)
    assert not cells.exists()
    require_fresh(cells, False, False)
    with pytest.raises(StructureError, match="Pass one of them"):
        require_fresh(cells, True, True)


def test_a_complete_study_is_kept_unless_it_is_replaced(tmp_path):
    (tmp_path / STUDY).write_text("{}")
    with pytest.raises(StructureError, match="has a complete study. Pass --overwrite to replace it"):
        require_fresh(tmp_path / "cells", False, False)
    with pytest.raises(StructureError, match="a complete one without cells"):
        require_fresh(tmp_path / "cells", True, False)
    a_cell(tmp_path / "cells")
    with pytest.raises(StructureError, match="has a complete study. Pass --resume to extend it, --overwrite"):
        require_fresh(tmp_path / "cells", False, False)
    require_fresh(tmp_path / "cells", True, False)
    require_fresh(tmp_path / "cells", False, True)
    assert (tmp_path / STUDY).exists(), "until the new one is complete"


def test_a_changed_digit_in_a_cell_is_noticed(tmp_path):
    a_cell(tmp_path)
    path = next(tmp_path.iterdir())
    path.write_text(path.read_text().replace("1.5", "2.5"))
    with pytest.raises(DataError, match="damaged.*Remove it to compute it again"):
        a_cell(tmp_path)


def test_workers_end_with_a_study_that_is_killed(tmp_path):
    """Otherwise they would train beside those of the resumed study."""
    study = subprocess.Popen([sys.executable, str(WORKER), str(tmp_path)])
    try:  # three processes import torch, perhaps beside other tests
        pids = _within(
            300, lambda: found if len(found := [int(path.name) for path in tmp_path.iterdir()]) == 2 else None
        )
        assert all(_is_alive(pid) for pid in pids)
    finally:
        study.kill()
        study.wait()
    assert _within(20, lambda: not any(_is_alive(pid) for pid in pids) or None)


def _within(seconds: float, look: Callable[[], Any]) -> Any:
    """The first value of a look that is not None."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (seen := look()) is not None:
            return seen
        time.sleep(0.05)
    raise AssertionError(f"nothing was seen in {seconds} s")


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but that nobody has asked for does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.mark.parametrize(
    ("seconds", "processes", "expected"),
    [([3.0, 1.0, 1.0, 5.0], 1, 10.0), ([3.0, 1.0, 1.0, 5.0], 2, 7.0), ([2.0], 2, 2.0), ([], 2, 0.0)],
)
def test_the_time_of_all_counts_who_waits_for_the_last(seconds, processes, expected):
    """With two at a time 3 stands beside 1 + 1, and 5 follows the latter."""
    assert wall_time(seconds, processes) == expected
