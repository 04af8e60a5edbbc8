"""`import covary`: what it offers, what it imports, and how long it takes."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import covary

DRAWS_PRINTS_OR_PARSES = {"matplotlib", "rich", "typer", "jinja2", "PIL"}
MOST_TIME = 1.2  # of that of `import torch`
# The first full garbage collection after `import torch` visits all of torch's objects, wherever it happens to be.
MEASURED = """
import gc, json, sys, time
start = time.process_time()
import torch
for_torch = time.process_time() - start
gc.collect()
start = time.process_time()
import covary
for name in covary.__all__:
    getattr(covary, name)
ratio = 1 + (time.process_time() - start) / for_torch
print(json.dumps({"ratio": ratio, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""


def python(source: str) -> str:
    """What a new process prints, with the compiled files that an installed package has."""
    places = {"PYTHONPATH": str(Path(covary.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", source]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | places).stdout


def type_checking_imports() -> dict[str, str]:
    """Name -> module, of the imports that a type checker reads; a subpackage is its own module."""
    tree = ast.parse(Path(covary.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1]
    return {alias.name: node.module or alias.name for node in imports for alias in node.names}


def test_the_lazy_table_is_all_that_is_exported_and_what_a_type_checker_reads():
    lazy = {name: covary._HOMES.get(name, name) for name in covary.__all__}
    assert lazy == type_checking_imports()
    assert covary._HOMES.keys() <= set(covary.__all__)


@pytest.mark.parametrize("name", covary.__all__)
def test_every_exported_name_resolves(name):
    value = getattr(covary, name)
    assert value is getattr(covary, name)
    assert name in (getattr(value, "__name__", "").split("."))[-1:]


def test_dir_lists_what_is_exported():
    assert set(dir(covary)) == {*covary.__all__, "__version__"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'covary' has no attribute 'Laplce'"):
        _ = covary.Laplce


def test_import_alone_imports_no_torch():
    assert python("import covary, sys; print('torch' in sys.modules)") == "False\n"


@pytest.fixture(scope="module")
def measured() -> dict:
    """The modules that all exported names import, and the least of up to five measured times relative to torch's."""
    found = []
    while not found or (len(found) < 5 and found[-1]["ratio"] > MOST_TIME):
        found.append(json.loads(python(MEASURED)))
    return min(found, key=lambda one: one["ratio"])


def test_imports_nothing_that_draws_prints_or_parses_flags(measured):
    assert DRAWS_PRINTS_OR_PARSES & set(measured["modules"]) == set()


def test_takes_little_longer_than_torch(measured):
    assert measured["ratio"] <= MOST_TIME
