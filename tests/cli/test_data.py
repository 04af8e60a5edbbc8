"""`covary data`: the list of data sets."""

import gzip
import json
import shutil

import pytest

from cli.outcomes import assert_one_line_and_code_2
from covary.data.sources import SOURCES


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


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("json_flag", [(), ("--json",)])
def test_one_flipped_byte_is_told_after_the_list(run, tmp_path, monkeypatch, packed, json_flag):
    mini = SOURCES["mnist-mini"]
    folder = tmp_path / "mini"
    shutil.copytree(mini.embedded, folder)
    monkeypatch.setattr("covary.data.sources.SOURCES", {**SOURCES, "mnist-mini": mini._replace(embedded=folder)})
    assert run("data", "--verify").code == 0
    file = folder / "t10k-labels-idx1-ubyte.gz"
    content = bytearray(file.read_bytes() if packed else gzip.decompress(file.read_bytes()))
    file.unlink()
    content[-100] ^= 1
    (file if packed else file.with_suffix("")).write_bytes(content)
    assert run("data").code == 0
    code, out, err = run("data", "--verify", *json_flag)
    assert code == 2
    assert "t10k-labels-idx1-ubyte" in out
    assert err.startswith("error: The files of mnist-mini are not the published ones")
    assert err.count("\n") == 1


def test_a_missing_folder_is_named(run):
    assert_one_line_and_code_2(
        run("data", "--data-dir", "no/such/folder"), "Expected a data directory that exists, got 'no/such/folder'"
    )
