"""`covary verdict`: answers on the terminal, in the record and in the report; bad input is one line."""

import json

import numpy as np

from cli.outcomes import assert_one_line_and_code_2
from covary.records import read_run
from covary.records.words import plain_name
from covary.training.verdicts import Ended


def test_the_verdict_is_printed_and_part_of_record_and_report(run, quick, tmp_path, images, monkeypatch):
    assert run("discover", *quick, "--out", "a").code == 0
    name = read_run(tmp_path / "a").symmetries[0].name
    before = (tmp_path / "a" / "run.json").read_bytes()
    assert "<h3>Verdicts</h3>" not in (tmp_path / "a" / "report.html").read_text()

    assert_one_line_and_code_2(run("verdict", "a", "--symmetry", "nothing"), "got 'nothing'")
    assert_one_line_and_code_2(run("verdict", "a", "--symmetry", "flip"), "got 'flip'", "train with --augment flips.")
    assert_one_line_and_code_2(run("verdict", "nowhere"), "without run.json")
    arrays = dict(np.load(images))
    np.savez(tmp_path / "other.npz", **arrays | {"x_train": arrays["x_train"][::-1]})
    assert_one_line_and_code_2(run("verdict", "a", "--data", "other.npz"), "their SHA-256 differs")
    assert (tmp_path / "a" / "run.json").read_bytes() == before

    code, out, err = run("verdict", "a", "--symmetry", name, "--epochs", "2", "--json")
    assert code == 0, err
    (found,) = json.loads(out)
    assert found["name"] == name
    first, *_, last = (line for line in err.splitlines() if line.startswith("verdict: "))
    assert first == "verdict: learned, 0 % done, 0:00 elapsed"
    assert last.startswith(f"verdict: full {name}, 83 % done, ")
    assert last.endswith(" left")
    assert found["answer"] in ("yes", "no", "undecided")
    assert found["reason"] in (None, "undertrained", "no better than a constant")
    assert [each.answer for each in read_run(tmp_path / "a").verdicts] == [found["answer"]]
    assert "<h3>Verdicts</h3>" in (tmp_path / "a" / "report.html").read_text()
    assert run("verify", "a").code == 0

    def still_learning(run, data, config, state):
        return Ended(-10.0, -50.0) if state.startswith("full") else Ended(-25.0, -65.0)

    monkeypatch.setattr("covary.training.verdicts._continued", still_learning)
    code, out, err = run("verdict", "a", "--symmetry", name)
    assert code == 0, err
    assert "undertrained" in out
    assert f"{plain_name(name)}: undecided (undertrained). " in out[0].lower() + out[1:].lower().replace("\n", " ")
    assert f"warning: The network is undertrained, so that {plain_name(name)} cannot be decided yet" in err
    assert "undecided (undertrained)" in (tmp_path / "a" / "report.html").read_text()
