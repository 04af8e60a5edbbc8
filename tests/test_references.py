import functools
import math

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
        ("math:pi", "is a float: expected a function of two"),
        ("textwrap:shorten", r"cannot be called with \(x\)"),
    ],
)
def test_references_that_fail(reference, message):
    with pytest.raises(DataError, match=message):
        function_of(reference, ("x",), "a function of two", DataError)
