import functools
import math
import sys

import pytest

from covary.errors import DataError
from covary.references import function_of


def test_a_reference_gives_the_function():
    assert function_of("math:hypot", ("x", "y"), "a function of two numbers", DataError) is math.hypot
    assert function_of("functools:partial", ("function",), "a class", DataError) is functools.partial


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("math:absent", "module math has no 'absent'"),
        ("no_such_module:f", "cannot be imported .*PYTHONPATH"),
        ("math:pi", "is of type float: expected a function of two"),
        ("mine.py:network", r"cannot be imported .* Write mine:network\.$"),
        ("./models/mine.py:network", r" Write models\.mine:network\.$"),
        ("textwrap:shorten", r"cannot be called with \(x\)"),
    ],
)
def test_references_that_fail(reference, message):
    with pytest.raises(DataError, match=message):
        function_of(reference, ("x",), "a function of two", DataError)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A working directory with a module of its own and one that is called like a module of Python."""
    (tmp_path / "only_here.py").write_text("import graphlib\ndef f(x):\n    return graphlib.__file__\n")
    (tmp_path / "graphlib.py").write_text("def f(x):\n    return 'shadow'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "graphlib", raising=False)
    yield tmp_path
    sys.modules.pop("only_here", None)


def test_the_working_directory_is_searched_last_and_only_while_a_reference_is_resolved(elsewhere):
    before = list(sys.path)
    function = function_of("only_here:f", ("x",), "a function", DataError)
    assert function(1) != str(elsewhere / "graphlib.py"), "a module of Python has precedence"
    assert sys.path == before
    with pytest.raises(DataError, match="module graphlib has no 'f'"):
        function_of("graphlib:f", ("x",), "a function", DataError)


def test_the_path_is_restored_where_an_import_fails_or_changes_it(elsewhere):
    before = list(sys.path)
    (elsewhere / "only_here.py").write_text("import sys\nsys.path.insert(0, 'added')\nsys.exit(3)\n")
    with pytest.raises(DataError, match="only_here:f cannot be imported .SystemExit: 3"):
        function_of("only_here:f", ("x",), "a function", DataError)
    assert sys.path == ["added", *before]
    sys.path.remove("added")
