"""`covary reproduce` and `covary bench`: numbers, figures and claims of studies, rows of benchmarks."""

import json

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary._lock import locked
from covary.benchmarks import WORKLOADS
from covary.errors import CovaryError
from covary.records import Claim, Study
from covary.reproduce import STUDIES
from covary.reproduce.cells import CellSpec, compute_cells
from covary.reproduce.figures import STUDY_FIGURES
from covary.reproduce.paper2 import cifar_layers, groups


def test_every_study_has_a_figure():
    assert STUDIES.keys() == STUDY_FIGURES.keys()


# Some versions or sizes of the data for all of them, where a study has the option: networks are trained on each alike.
FEWER = {
    "table1": ("--versions", "scaled"),
    "table2": ("--num-train", "60"),
    "figure5": ("--versions", "translated", "--num-train", "60"),
    "correlated": ("--num-train", "60"),
}


@pytest.fixture
def smaller(monkeypatch):
    """Fewer data sets of one study and networks of another, whose variants other tests train: all are trained alike."""
    kept = ("CIFAR-10", "rotated CIFAR-10")
    monkeypatch.setattr(groups, "VERSIONS", {name: groups.VERSIONS[name] for name in kept})
    monkeypatch.setattr(groups, "ROTATED", kept[1:])
    strict = {name: paths for name, paths in cifar_layers.NETWORKS.items() if name != "S-CONV" and "ω" not in name}
    monkeypatch.setattr(cifar_layers, "NETWORKS", strict)
    monkeypatch.setattr(cifar_layers, "FREE", {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # torch's own; Python hides it outside of tests
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_at_the_smallest_scale(run, tmp_path, smaller, name):
    code, out, err = run("reproduce", name, "--scale", "smoke", *FEWER.get(name, ()))
    assert (code, err) == (0, "")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name in (f"{name}-smoke", f"{name}-60-smoke")
    figures = {f"{stem}.{kind}" for stem in STUDY_FIGURES[name] for kind in ("svg", "png")}
    assert {path.name for path in folder.iterdir()} - {"cells"} == {"study.json", *figures}
    study = json.loads((folder / "study.json").read_text())
    assert (study["name"], study["scale"]) == (name, "smoke")
    assert study["rows"]
    for claim in study["claims"]:
        assert claim.keys() == {"sentence", "expected", "found", "holds"}
    assert str(folder.relative_to(tmp_path)) in out


@pytest.fixture
def studied(monkeypatch) -> list[tuple]:
    """The calls of a study whose one claim does not hold, in the place of the study 'recover'."""
    calls: list[tuple] = []

    def study(request):
        scale, seed, data_dir, progress, folder, options = request
        calls.append((scale, seed, data_dir, options.num_train))
        progress("studying", 0.5)
        compute_cells([CellSpec("moon", {"scale": scale}, Claim, lambda: Claim("a", "b", "c", True))], folder, progress)
        if data_dir is not None and data_dir.name == "nowhere":
            raise CovaryError("killed")
        claim = Claim("the moon is near", "< 1 km", "384,400 km", False)
        return Study("recover", scale, "The moon", {}, {}, [{"moon": "far"}], {"found": [1.5]}, [claim], 1.0)

    monkeypatch.setitem(STUDIES, "recover", STUDIES["recover"]._replace(run=study))
    monkeypatch.setattr("covary.cli.studies.drawn", lambda figure, kind: b"drawn")
    monkeypatch.setitem(STUDY_FIGURES, "recover", {"figure": lambda study: study.title})
    return calls


def test_claims_are_shown_with_their_bars(run, studied):
    options = ("--scale", "paper", "--seed", "3", "--data-dir", "here", "--num-train", "70", "--out", "a")
    code, out, _ = run("reproduce", "recover", *options)
    assert code == 0
    assert all(text in out for text in ("The moon", "the moon is near", "< 1 km", "384,400 km", "NO", "far"))
    assert [(scale, seed, str(place), number) for scale, seed, place, number in studied] == [("paper", 3, "here", 70)]


def test_a_study_without_claims_says_so_in_place_of_an_empty_table(run, studied, monkeypatch):
    made = Study("recover", "cpu", "The moon", {}, {}, [{"moon": "far"}], {}, [], 1.0)
    monkeypatch.setitem(STUDIES, "recover", STUDIES["recover"]._replace(run=lambda request: made))
    code, out, _ = run("reproduce", "recover", "--out", "a")
    assert code == 0
    assert "The moon. No claim is about these versions and methods alone." in out
    assert "holds" not in out


def test_json_is_all_that_is_printed(run, studied):
    code, out, err = run("reproduce", "recover", "--json")
    printed = json.loads(out)
    assert (code, err) == (0, "")
    assert printed["scale"] == "cpu"
    assert printed["claims"][0]["holds"] is False


def test_a_killed_study_is_resumed_and_can_be_extended(run, studied, tmp_path):
    cells = tmp_path / "a" / "cells"
    assert run("reproduce", "recover", "--out", "a", "--data-dir", "nowhere")[0] == 2
    assert len(list(cells.iterdir())) == 1
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", "a"), "unfinished", "--resume")
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", "a", "--resume", "--scale", "paper"), "scale")
    for _ in range(2):  # a complete study can be extended
        assert run("reproduce", "recover", "--out", "a", "--resume")[0] == 0
        assert len(list(cells.iterdir())) == 1
    with locked(tmp_path / "a"):
        assert_one_line_and_code_2(run("reproduce", "recover", "--out", "a"), "has been writing to 'a' since")
    assert run("verify", "a")[0] == 0
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", "a"), "complete study", "--overwrite")
    assert run("reproduce", "recover", "--out", "a", "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("place", "said"),
    [("taken", "Expected a folder, got 'taken'"), ("taken/below", "Expected a folder above 'taken/below'")],
)
def test_a_place_that_cannot_be_a_folder_is_told_before_the_study(run, studied, tmp_path, place, said):
    (tmp_path / "taken").write_text("a file")
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", place), said)
    assert studied == []
    assert (tmp_path / "taken").read_text() == "a file"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), ["'nothing'", "toy", "recover", "table1", "sampling"]),
        (("recover", "--scale", "huge"), ["'huge'", "'smoke', 'cpu', 'full', 'paper'"]),
        (("recover", "--scale", "full"), ["'full'", "'smoke', 'cpu', 'paper'"]),
        (("recover", "--methods", "plain"), ["'recover'", "--num-train, --versions", "got --methods", "Leave it out"]),
        (("toy", "--network", "cnn"), ["'toy'", "none of them", "got --network"]),
        (("recover", "--num-train", "0"), ["--num-train", "greater than or equal to 1"]),
        (("recover", "--seed", "99999999999999999999"), ["seed", "2^63", "got 99999999999999999999"]),
        ((), ["NAME"]),
    ],
)
def test_bad_input_is_one_line(run, studied, tmp_path, arguments, words):
    assert_one_line_and_code_2(run("reproduce", *arguments), *words)
    assert studied == []
    assert not (tmp_path / "runs").exists()


ROWS = [
    {"workload": "W1", "columns": 1, "seconds": 1.23456, "ratio": 2.5, "peak_mb": 1700.0},
    {"workload": "W1", "columns": "exact", "seconds": 4.0, "ratio": 8.0, "peak_mb": None},
]
SCALED = [
    {"axis": "N", "size": size, "pass": "training", "seconds": size / 100, "peak_mb": None} for size in (100, 200)
]


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """The repeats that benchmarks called 'fake' and 'scaling' were asked for."""
    asked: list[int] = []

    def measured(rows):
        def measure(repeats, progress):
            asked.append(repeats)
            progress("measuring", 0.5)
            return rows

        return measure

    monkeypatch.setitem(WORKLOADS, "fake", measured(ROWS))
    monkeypatch.setitem(WORKLOADS, "scaling", measured(SCALED))
    return asked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["NAME"]),
        (("nothing",), ["nothing", "one of", "fake"]),
        (("fake", "--repeats", "0"), ["--repeats", "greater than or equal to 1"]),
        (("fake", "--repeats", "many"), ["--repeats", "valid integer"]),
        (("fake", "--plot", "time.svg"), ["--plot draws the benchmarks 'scaling' and 'fit'", "got 'fake'"]),
        (("scaling", "--plot", "time.doc"), ["time.doc", ".svg"]),
        (("scaling", "--plot", "/dev/null/time.svg"), ["/dev/null"]),
    ],
)
def test_bad_input_is_told_before_anything_is_measured(run, calls, arguments, words):
    assert_one_line_and_code_2(run("bench", *arguments), *words)
    assert calls == []


def test_rows_as_json(run, calls):
    code, out, err = run("bench", "fake", "--json", "--repeats", "3")
    assert (code, err) == (0, "")
    assert json.loads(out) == ROWS
    assert calls == [3]


def test_rows_as_a_table(run, calls):
    code, out, _ = run("bench", "fake")
    assert code == 0
    assert all(text in out for text in ("workload", "peak_mb", "W1", "exact", "1.235", "1700"))
    assert calls == [5]


def test_a_picture_of_scaling(run, calls, tmp_path):
    assert run("bench", "scaling", "--plot", "new/time.svg").code == 0
    assert "data N" in (tmp_path / "new" / "time.svg").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce", "table1", "--num-seeds"),
        ("reproduce", "table1", "--num-train"),
        ("reproduce", "table1", "--processes"),
        ("bench", "evidence", "--repeats"),
    ],
)
def test_huge_numbers_are_refused_before_the_work(run, arguments):
    assert_one_line_and_code_2(run(*arguments, str(10**30)), f"'{arguments[-1]}'")
