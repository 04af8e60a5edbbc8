"""A record proves itself: any change of its content, and of the files that it lists, is noticed."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covary.errors import DataError
from covary.records import read_run, write_run
from covary.records.checksums import checksums, page_state, read_checked, sealed, sealed_page
from report.runs import full_run


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.json"
    write_run(full_run(), path)
    return path


def values_of(content, place=()):
    """The place of every number and word in parsed JSON."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from values_of(value, (*place, key))
    else:
        yield place


def changed(value):
    if isinstance(value, bool) or value is None:
        return not value
    return value + "." if isinstance(value, str) else value + 1


def test_a_change_of_any_value_is_noticed(written, tmp_path):
    text = written.read_text()
    places = list(values_of(json.loads(text)))
    assert len(places) > 500, "the control: there is much to change"
    for place in places[:: len(places) // 100]:
        content = json.loads(text)
        inner = content
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = changed(inner[place[-1]])
        (tmp_path / "run.json").write_text(json.dumps(content))
        with pytest.raises(DataError):
            read_run(tmp_path)


def test_only_the_content_counts_and_not_its_layout(written, tmp_path):
    content = json.loads(written.read_text())
    backwards = {name: content[name] for name in reversed(content)}
    (tmp_path / "run.json").write_text(json.dumps(backwards, indent=7, ensure_ascii=False))
    assert read_run(tmp_path) == full_run()


@given(st.data())
def test_no_single_bit_changes_what_is_read(written, tmp_path_factory, data):
    content = bytearray(written.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("flipped") / "run.json"
    path.write_bytes(content)
    try:
        found = read_run(path)
    except DataError:
        return
    assert found == full_run(), "a space, or a digit beyond those that a number has"


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()))
def test_a_seal_survives_the_file(content):
    content.pop("sha256", None)
    assert sealed(json.loads(json.dumps(content))) == json.loads(json.dumps(sealed(content)))


def test_a_file_is_read_if_it_is_the_one_in_the_record(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "other").mkdir()
    found = checksums(tmp_path, ("a", "absent", "other"))
    assert list(found) == ["a"]
    assert read_checked(tmp_path, "a", found) == b"content"
    with pytest.raises(DataError, match="damaged or of another run"):
        read_checked(tmp_path, "a", {})
    (tmp_path / "a").write_bytes(b"contend")
    with pytest.raises(DataError, match="damaged or of another run"):
        read_checked(tmp_path, "a", found)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_checked(tmp_path, "absent", found)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="cannot be read: it is not a regular file"):
        read_checked(tmp_path, "pipe", found)


def test_a_page_states_its_checksum_and_that_of_its_record_in_a_last_line():
    record = {"title": "a", "files": {"model": "1"}}
    page = sealed_page("<html>±</html>\n", record)
    assert page.startswith("<html>±</html>\n<!-- sha256 ")
    saved = record | {"format": "covary-run", "version": 3, "files": {}}
    assert page_state(page.encode(), record) == page_state(page.encode(), saved) == "ok"
    assert page_state(page.encode(), None) == "ok"
    assert page_state(page.encode(), {"title": "b"}) == "of another run"
    for other in (page.replace("±", "+"), page[:-1], page + "\n", page.replace("<!--", "<!-"), "", page.upper()):
        assert page_state(other.encode(), record) == "damaged"
