"""Tables of numbers in .csv files."""

import os

import pytest
import torch

from covary.data import Reading, load
from covary.errors import DataError

REGRESSION = Reading("features", regression=True, targets=("price",))


def table(tmp_path, text, encoding="utf-8"):
    (tmp_path / "houses.csv").write_bytes(text.encode(encoding))
    return tmp_path / "houses.csv"


def test_columns_are_features_and_targets(tmp_path):
    path = table(tmp_path, "area, price,rooms\r\n50,100.5,2\r\n70,1e2,3\r\n\r\n60,-3,1\r\n")
    found = load(path, reading=REGRESSION)
    assert torch.equal(found.x_train, torch.tensor([[50.0, 2.0], [70.0, 3.0], [60.0, 1.0]]))
    assert torch.equal(found.y_train, torch.tensor([[100.5], [100.0], [-3.0]]))
    assert found.feature_names == ("area", "rooms")
    assert found.target_names == ("price",)
    assert found.name == "houses"
    assert len(found.x_test) == 0


def test_several_targets_and_a_byte_order_mark(tmp_path):
    path = table(tmp_path, "a,b,c\n1,2,3\n4,5,6\n", "utf-8-sig")
    found = load(path, reading=Reading(regression=True, targets=("c", "a")))
    assert torch.equal(found.y_train, torch.tensor([[3.0, 1.0], [6.0, 4.0]]))
    assert found.feature_names == ("b",)


@pytest.mark.parametrize(
    ("text", "targets", "expected"),
    [
        ("a,b\n1,2\n3,4\n", (), "column to predict, such as --target b; the columns of houses.csv are a, b"),
        ("a,b\n1,2\n3,4\n", ("c",), "Expected a column of .*got 'c'; the columns"),
        ("a,b\n1,2\n3,4\n", ("a", "b"), "columns beside the targets"),
        ("a,b\n1,x\n", ("b",), "has 'x' in row 2 of column 'b': expected finite numbers only"),
        ("a,b\n1,2\n3,\n", ("b",), "has '' in row 3 of column 'b'"),
        ("a,b\n1,nan\n", ("b",), "has 'nan' in row 2"),
        ("a,b\n1,2,3\n", ("b",), "has 3 values in row 2: expected 2"),
        ("a;b\n1;2\n", ("b",), "has 1 columns in its first row: expected two or more, with commas"),
        ("1,2\n3,4\n", ("2",), "lacks names of its columns"),
        ("a,a\n3,4\n", ("a",), "lacks names of its columns"),
        ("a,b\n", ("b",), "has no rows below its first"),
        ("", ("b",), "has 0 columns"),
        ('a,b\n"1,2\n', ("b",), "is not a .csv file of text"),
        ("a\x1b[31m,b\n1,2\n", ("b",), r"has the column 'a\\x1b\[31m': expected text without control characters"),
        ("a,b\u202e\n1,2\n", ("b\u202e",), r"has the column 'b\\u202e': expected text without control characters"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_line(text, targets, expected, tmp_path):
    with pytest.raises(DataError, match=expected) as caught:
        load(table(tmp_path, text), reading=Reading(regression=True, targets=targets))
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_and_pipes_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,b\n\xff\xfe,2\n")
    with pytest.raises(DataError, match="is not a .csv file of text"):
        load(tmp_path / "a.csv", reading=REGRESSION)
    os.mkfifo(tmp_path / "b.csv")
    with pytest.raises(DataError, match="not a regular file"):
        load(tmp_path / "b.csv", reading=REGRESSION)
    with pytest.raises(DataError, match="neither a name nor a path that exists"):
        load(tmp_path / "c.csv", reading=REGRESSION)


def test_a_table_without_a_regression_is_refused(tmp_path):
    with pytest.raises(DataError, match="Expected a regression of a .csv"):
        load(table(tmp_path, "a,b\n1,2\n"))
