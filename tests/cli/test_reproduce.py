"""`covary reproduce`: numbers, figure and claims of each study."""

import json

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary import cli
from covary.errors import CovaryError
from covary.records import Claim, Study
from covary.reproduce import STUDIES
from covary.reproduce.cells import Piece, made
from covary.reproduce.figures import STUDY_FIGURES


def test_every_study_has_a_figure():
    assert STUDIES.keys() == STUDY_FIGURES.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # torch's own; Python hides it outside of tests
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_at_the_smallest_scale(run, tmp_path, name):
    code, out, err = run("reproduce", name, "--scale", "smoke")
    folder = tmp_path / "runs" / f"{name}-smoke"
    assert (code, err) == (0, "")
    assert {path.name for path in folder.iterdir()} == {"study.json", "figure.svg", "figure.png"}
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

    def study(scale, seed, data_dir, progress, folder):
        calls.append((scale, seed, data_dir))
        progress("studying", 0.5)
        made([Piece("moon", {"scale": scale}, Claim, lambda: Claim("a", "b", "c", True))], folder, progress)
        if data_dir is not None and data_dir.name == "nowhere":
            raise CovaryError("killed")
        claim = Claim("the moon is near", "< 1 km", "384,400 km", False)
        return Study("recover", scale, "The moon", {}, {}, [{"moon": "far"}], {"found": [1.5]}, [claim], 1.0)

    monkeypatch.setitem(cli.reproduce.STUDIES, "recover", study)
    monkeypatch.setattr(cli.reproduce, "draw", lambda figure, path: path.write_text("drawn"))
    monkeypatch.setitem(cli.reproduce.STUDY_FIGURES, "recover", lambda study: study.title)
    return calls


def test_claims_are_shown_with_their_bars(run, studied):
    code, out, _ = run("reproduce", "recover", "--scale", "paper", "--seed", "3", "--data-dir", "here", "--out", "a")
    assert code == 0
    assert all(text in out for text in ("The moon", "the moon is near", "< 1 km", "384,400 km", "NO", "far"))
    assert [(scale, seed, str(place)) for scale, seed, place in studied] == [("paper", 3, "here")]


def test_json_is_all_that_is_printed(run, studied):
    code, out, err = run("reproduce", "recover", "--json")
    printed = json.loads(out)
    assert (code, err) == (0, "")
    assert printed["scale"] == "cpu"
    assert printed["claims"][0]["holds"] is False


def test_a_killed_study_is_resumed_and_leaves_nothing_unfinished(run, studied, tmp_path):
    cells = tmp_path / "a" / "cells"
    assert run("reproduce", "recover", "--out", "a", "--data-dir", "nowhere")[0] == 2
    assert len(list(cells.iterdir())) == 1
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", "a"), "unfinished", "--resume")
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", "a", "--resume", "--scale", "paper"), "scale")
    assert run("reproduce", "recover", "--out", "a", "--resume")[0] == 0
    assert not cells.exists()
    assert run("reproduce", "recover", "--out", "a")[0] == 0


@pytest.mark.parametrize("place", ["taken", "taken/below"])
def test_a_place_that_cannot_be_a_folder_is_told_before_the_study(run, studied, tmp_path, place):
    (tmp_path / "taken").write_text("a file")
    assert_one_line_and_code_2(run("reproduce", "recover", "--out", place), "taken", "cannot be read or written")
    assert studied == []
    assert (tmp_path / "taken").read_text() == "a file"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), ["'nothing'", "toy", "recover", "mnist-mlp", "sampling"]),
        (("recover", "--scale", "huge"), ["'huge'", "smoke, cpu, paper"]),
        (("recover", "--seed", "99999999999999999999"), ["seed", "2^63", "99999999999999999999 came"]),
        ((), ["NAME"]),
    ],
)
def test_bad_input_is_one_line(run, studied, tmp_path, arguments, words):
    assert_one_line_and_code_2(run("reproduce", *arguments), *words)
    assert studied == []
    assert not (tmp_path / "runs").exists()
