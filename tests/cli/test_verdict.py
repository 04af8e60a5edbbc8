"""`covary verdict`: answers on the terminal, in the record and in the report; bad input is one line."""

import json

import numpy as np

from cli.outcomes import assert_one_line_and_code_2
from covary.records import read_run


def test_the_verdict_is_printed_and_part_of_record_and_report(run, quick, tmp_path, images):
    assert run("discover", *quick, "--out", "a").code == 0
    name = read_run(tmp_path / "a").symmetries[0].name
    before = (tmp_path / "a" / "run.json").read_bytes()
    assert "<h3>Verdicts</h3>" not in (tmp_path / "a" / "report.html").read_text()

    assert_one_line_and_code_2(run("verdict", "a", "--symmetry", "nothing"), "got 'nothing'")
    assert_one_line_and_code_2(run("verdict", "nowhere"), "without run.json")
    arrays = dict(np.load(images))
    np.savez(tmp_path / "other.npz", **arrays | {"x_train": arrays["x_train"][::-1]})
    assert_one_line_and_code_2(run("verdict", "a", "--data", "other.npz"), "their SHA-256 differs")
    assert (tmp_path / "a" / "run.json").read_bytes() == before

    code, out, err = run("verdict", "a", "--symmetry", name, "--epochs", "2", "--json")
    assert code == 0, err
    (found,) = json.loads(out)
    assert found["name"] == name
    assert read_run(tmp_path / "a").symmetries[0].state != "settled"
    assert f"warning: The run had not settled on {name}" in err
    assert found["answer"] in ("yes", "no", "undecided")
    assert [each.answer for each in read_run(tmp_path / "a").verdicts] == [found["answer"]]
    assert "<h3>Verdicts</h3>" in (tmp_path / "a" / "report.html").read_text()
    assert run("verify", "a").code == 0
