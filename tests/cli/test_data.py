"""`covary data`: the list of data sets."""

import json

from cli.outcomes import assert_one_line_and_code_2


def test_every_set_as_json(run):
    code, out, _ = run("data", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert code == 0
    assert {"mnist-mini", "mnist", "fashion-mnist"} <= rows.keys()
    assert (rows["mnist-mini"]["num_train"], rows["mnist-mini"]["num_test"]) == (5000, 2000)
    assert rows["mnist"]["path"] is None
    assert "not found" in rows["mnist"]["problem"]


def test_a_table(run):
    code, out, _ = run("data")
    assert code == 0
    assert "mnist-mini" in out
    assert "5000" in out
    assert "not found" in out


def test_the_embedded_set_is_verified(run):
    code, out, _ = run("data", "--verify", "--json")
    verified = {row["name"]: row["verified"] for row in json.loads(out)}
    assert code == 0
    assert verified["mnist-mini"] is True
    assert verified["mnist"] is not True


def test_a_missing_folder_is_named(run):
    assert_one_line_and_code_2(run("data", "--data-dir", "no/such/folder"), "no/such/folder is no folder")
