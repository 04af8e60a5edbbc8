import sys

import pytest
import torch

from covary.data import load
from covary.errors import DataError

PREAMBLE = """
import numpy as np, torch
from covary.data import Dataset
x, y = torch.rand(4, 5, 6), torch.tensor([0, 1, 2, 0])
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's own, by the text of its source."""
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("my_data", None)
    yield lambda source: (tmp_path / "my_data.py").write_text(PREAMBLE + source)
    sys.modules.pop("my_data", None)


@pytest.mark.parametrize(
    "returned", ["x, y", "(x.numpy(), y.numpy())", "[x, y.numpy()]", "x.requires_grad_(), y", "x.numpy()[:, ::-1], y"]
)
def test_two_parts_make_a_training_set(module, returned):
    module(f"def make(): return {returned}")
    found = load("my_data:make")
    expected = sys.modules["my_data"].x.detach()
    expected = expected.flip(1) if "::-1" in returned else expected
    assert torch.equal(found.x_train[:, 0], expected.float())
    assert not found.x_train.requires_grad
    assert found.x_test.shape == (0, 1, 5, 6)
    assert (found.name, found.class_names) == ("my_data:make", ("0", "1", "2"))


def test_four_parts_have_a_test_set(module):
    module("def make(): return (x * 255).to(torch.uint8), y, x[:2].numpy(), y[:2]")
    found = load("my_data:make")
    assert found.x_test.shape == (2, 1, 5, 6)
    assert found.x_train.max() <= 1
    assert found.y_test.tolist() == [0, 1]


def test_a_dataset_keeps_its_names_and_may_have_any_channels(module):
    module("x = torch.rand(4, 4, 5, 6)\ndef make(): return Dataset(x, y, x[:0].numpy(), y[:0], 'n', ('a', 'b', 'c'))")
    found = load("my_data:make")
    assert (found.name, found.class_names) == ("n", ("a", "b", "c"))
    assert found.x_train.shape == (4, 4, 5, 6)


def test_attributes_of_attributes(module):
    module("class Maker:\n    @staticmethod\n    def make(): return x, y")
    assert len(load("my_data:Maker.make").x_train) == 4


@pytest.mark.parametrize(
    ("reference", "source", "message"),
    [
        ("no_such_module:make", "", "cannot be imported .ModuleNotFoundError: No module named 'no_such_module'"),
        ("my_data:absent", "", "module my_data has no 'absent'"),
        ("my_data:make", "make = 3", "is of type int: expected a function"),
        ("my_data:make", "def make(path): return x, y", "without arguments .missing a required argument: 'path'"),
        ("my_data:make", "def make(*, path): return x, y", "without arguments .*'path'.: expected a function"),
        ("my_data:Maker.make", "class Maker:\n    def make(self): return x, y", "without arguments .*'self'"),
        ("my_data:make", "1 / 0", "cannot be imported .ZeroDivisionError"),
        ("my_data:make", "def make(:", "cannot be imported .SyntaxError"),
        ("my_data:make", "def make(): return None", "Expected a Dataset.* from 'my_data:make', got a NoneType"),
        ("my_data:make", "def make(): return x, y, x", "Expected a Dataset.* from 'my_data:make', got a tuple of 3"),
        ("my_data:make", "def make(): return x, [0, 1, 2, 0]", "from 'my_data:make', got a list among them"),
        ("my_data:make", "def make(): return x, y[:3]", "4 training images but 3 training labels"),
        ("my_data:make", "def make(): return x / 0 * 0, y", "NaN or infinity in image 0"),
        ("my_data:make", "def make(): return x, y + 1", "labels from 1 to 3: expected them from 0. Subtract 1."),
        ("my_data:make", "def make(): return x, np.array(['a'] * 4)", "type <U1: expected plain integers"),
        ("my_data:make", "def make(): return Dataset(x[:, None], y, x[:0, None], y[:0], 'n', ('a',))", "label 2"),
        (
            "my_data:make",
            "def make(): return Dataset(x, y, x[:0], y[:0], 'n', ('a', 'b', 'c'))",
            "expected .N, C, H, W.",
        ),
    ],
)
def test_references_that_fail(module, reference, source, message):
    module(source)
    with pytest.raises(DataError, match=message) as caught:
        load(reference)
    assert reference in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("parameters", ["path='here'", "*paths, **settings", "path=None, *, seed=0"])
def test_arguments_that_need_not_be_given(module, parameters):
    module(f"def make({parameters}): return x, y")
    assert len(load("my_data:make").x_train) == 4


def test_a_decorator_may_give_the_arguments(module):
    module(
        "import functools\n"
        "def at_home(function):\n"
        "    @functools.wraps(function)\n"
        "    def called(): return function('home')\n"
        "    return called\n"
        "@at_home\n"
        "def make(path): return x, y\n"
    )
    assert len(load("my_data:make").x_train) == 4


def test_a_function_that_does_not_tell_its_arguments_is_called(module):
    module("import functools\n@functools.cache\ndef make(): return x, y")
    assert len(load("my_data:make").x_train) == 4


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("def make(): return 1 / 0", ZeroDivisionError, "division by zero"),
        ("def read(path): pass\ndef make(): return read()", TypeError, r"^read\(\) missing 1 required"),
    ],
)
def test_errors_of_the_function_itself_are_not_hidden(module, source, error, message):
    module(source)
    with pytest.raises(error, match=message):
        load("my_data:make")
