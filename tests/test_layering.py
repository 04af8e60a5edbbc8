"""The layering of the package as data: who may import whom, and what from outside."""

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "src" / "covary"

# Package -> the packages it may import. A file directly below covary counts as a package of its own.
MAY_IMPORT = {
    "errors": "",
    "_types": "",
    "_files": "",
    "_text": "",
    "_lock": "",
    "memory": "",
    "linalg": "",
    "groups": "",
    "noise": "",
    "references": "",
    "likelihoods": "",
    "priors": "",
    "models": "likelihoods priors",
    "_fields": "",
    "batches": "_fields noise",
    "distributed": "batches",
    "records": "",
    "config": "",
    "data": "groups noise references",
    "augment": "_fields groups noise",
    "layers": "groups",
    "networks": "groups layers augment noise references",
    "curvature": "batches distributed linalg layers likelihoods priors models noise",
    "geometry": "batches linalg likelihoods priors models curvature noise",
    "evidence": "memory batches distributed linalg likelihoods priors models curvature geometry noise",
    "hypergrad": "batches distributed linalg likelihoods priors models curvature geometry evidence noise",
    "posterior": "batches distributed linalg likelihoods priors models curvature evidence noise",
    "layer_summary": "batches distributed linalg groups layers networks likelihoods priors models curvature evidence "
    "records noise",
    "training": "batches distributed data augment networks likelihoods priors models curvature evidence hypergrad "
    "posterior layer_summary records config noise",
    "experiments": "memory batches distributed data augment layers networks likelihoods priors models curvature "
    "geometry references evidence hypergrad posterior layer_summary training records config report noise",
    "reproduce": "batches distributed data augment layers networks likelihoods priors models curvature geometry "
    "evidence hypergrad posterior layer_summary training experiments records config report noise",
    "benchmarks": "batches distributed linalg groups data augment layers networks likelihoods priors models curvature "
    "evidence hypergrad training experiments records config report noise",
    "integrations": "augment batches config likelihoods models networks records training",
    "report": "records",
    "cli": "memory data distributed networks evidence experiments reproduce benchmarks layer_summary training "
    "integrations report records config",
    "__main__": "cli",
}
MAY_IMPORT["__init__"] = " ".join(
    MAY_IMPORT.keys() - {"cli", "report", "benchmarks", "experiments", "reproduce", "integrations", "__main__"}
)

# The mathematics needs torch and its annotations; these packages face the user and may import more.
EVERYWHERE = {"torch", "jaxtyping", "numpy", "safetensors"} | set(sys.stdlib_module_names)
ANYWHERE = {"_types", "errors", "_files", "_lock", "_text", "__version__"}
FACING_OUT = {"report", "cli", "integrations"}
DRAWING = ("figure.py", "figures.py")  # how the names of files end that may import matplotlib and rich
OUTSIDE = {"data": {"PIL"}, "augment": {"PIL"}, "config": {"tomli_w"}}
# settings and saved numbers: no network, no tensor
WITHOUT_TORCH = {"errors", "_files", "_lock", "_text", "memory", "config", "records", "report"}

NAMELESS = {"utils", "util", "misc", "common", "core", "manager", "helpers", "helper"}
MAX_LINES = 350

MAX_BODY = 40  # lines of a function without its docstring

MAX_PARAMETERS = 6

# Modules without a test file of their own name -> the test files that test them.
TESTED_BY = {
    "integrations/mlflow.py": "integrations/test_tracking.py",
    "integrations/tensorboard.py": "integrations/test_tracking.py",
    "integrations/wandb.py": "integrations/test_tracking.py",
    "training/ascent.py": "training/test_hyper.py training/test_steps.py",
    "training/bounds.py": "training/test_hyper.py training/test_steps.py",
    "training/metrics.py": "likelihoods/test_tasks.py",
    "training/hyper_state.py": "training/test_hyper.py training/test_learner.py",
    "training/inputs.py": "training/test_run.py",
    "training/record.py": "training/test_loop.py",
    "training/storage.py": "training/test_run.py",
    "networks/offloaded.py": "training/test_devices.py",
    "networks/recipes.py": "training/test_run.py",
    "__main__.py": "cli/test_app.py",
    "_types.py": "networks/test_averaged.py",
    "benchmarks/curvature.py": "benchmarks/test_rows.py",
    "benchmarks/evidence.py": "benchmarks/test_rows.py",
    "benchmarks/peers.py": "benchmarks/test_rows.py",
    "benchmarks/scaling.py": "benchmarks/test_rows.py",
    "benchmarks/figures.py": "benchmarks/test_fit.py benchmarks/test_rows.py",
    "cli/runs.py": "cli/test_discover.py cli/test_layers.py",
    "cli/options.py": "cli/test_discover.py cli/test_layers.py",
    "curvature/decompositions.py": "test_distributed.py",
    "curvature/ggn.py": "curvature/test_ggn_gradients.py curvature/test_kron.py",
    "experiments/begun.py": "experiments/test_run.py",
    "experiments/geometry_figure.py": "reproduce/paper3/test_figures.py",
    "experiments/predict.py": "cli/test_saved.py cli/test_discover.py",
    "experiments/restore.py": "experiments/test_corrected.py cli/test_saved_verdict.py",
    "evidence/kernel.py": "evidence/test_laplace.py",
    "hypergrad/direct.py": "hypergrad/test_two_pass.py hypergrad/test_stochastic.py",
    "likelihoods/bernoulli.py": "likelihoods/test_protocol.py",
    "likelihoods/checks.py": "likelihoods/test_protocol.py",
    "likelihoods/gaussian.py": "likelihoods/test_protocol.py",
    "likelihoods/poisson.py": "likelihoods/test_protocol.py",
    "posterior/fitting.py": "posterior/test_laplace.py",
    "posterior/function_space.py": "posterior/test_laplace.py",
    "posterior/head.py": "posterior/test_laplace.py posterior/test_predictive.py",
    "records/files.py": "test_records.py records/test_files_corrected.py",
    "records/metrics.py": "test_records.py likelihoods/test_tasks.py",
    "records/run.py": "test_records.py",
    "records/study.py": "test_records.py",
    "records/symmetry.py": "test_records.py training/test_verdicts.py",
    "records/tables.py": "report/test_tables.py",
    "reproduce/paper3/coordinates.py": "reproduce/paper3/test_reparametrization.py",
    "reproduce/paper3/invariant_evidence.py": "reproduce/paper3/test_reparametrization.py",
    "reproduce/paper3/optimizer_bias.py": "reproduce/paper3/test_optimizer_bias.py "
    "reproduce/paper3/test_reparametrization.py",
    "training/augerino.py": "reproduce/paper1/test_comparison.py",
    "training/run.py": "training/test_loop.py",
    "training/state.py": "training/test_steps.py training/test_learning_rates.py",
}

SOURCES = sorted(PACKAGE.rglob("*.py"))
PUBLIC = [".".join(("covary", *path.parent.relative_to(PACKAGE).parts)) for path in SOURCES if path.stem == "__init__"]


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def package_of(path: Path, package: Path = PACKAGE) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py")


@functools.cache
def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Import statements of a file, also those inside functions."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]


def own_packages_imported(path: Path, package: Path = PACKAGE) -> set[str]:
    """Packages of covary that a file imports, also from inside functions."""
    depth = len(path.relative_to(package).parts)
    return {
        (node.module or alias.name).split(".")[0]
        for node in imports(path)
        # As many dots as it takes to reach the root; fewer stay inside the package.
        if isinstance(node, ast.ImportFrom) and node.level >= depth
        for alias in node.names
    }


def packages_imported(path: Path) -> set[str]:
    """Top-level packages that a file imports by their absolute name."""
    names: set[str] = set()
    for node in imports(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def own_imports_in_functions(path: Path) -> list[int]:
    """Lines inside functions that import from the package itself."""
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [
        inner.lineno
        for function in functions
        for inner in ast.walk(function)
        if isinstance(inner, ast.ImportFrom) and inner.level > 0
    ]


def body_lengths(path: Path) -> dict[str, int]:
    """The lines of each function of a file, without its signature and docstring."""
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
    bodies = {node.name: node.body[1:] if ast.get_docstring(node) else node.body for node in functions}
    return {name: body[-1].end_lineno - body[0].lineno + 1 for name, body in bodies.items() if body}


def num_parameters(function: Callable) -> int:
    """The number of parameters of a function; the `**settings` of `fit` are fields of its record."""
    parameters = inspect.signature(function).parameters.values()
    return sum(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def test_every_package_has_a_row():
    assert {package_of(path) for path in SOURCES} == MAY_IMPORT.keys()


def test_rows_name_packages():
    named = {package for row in MAY_IMPORT.values() for package in row.split()}
    assert named <= MAY_IMPORT.keys()


def test_rows_have_no_cycle():
    settled: set[str] = set()
    waiting = dict(MAY_IMPORT)
    while free := [package for package, row in waiting.items() if set(row.split()) <= settled]:
        settled.update(free)
        for package in free:
            del waiting[package]
    assert not waiting, f"packages that import one another: {sorted(waiting)}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_only_what_its_row_allows(path):
    package = package_of(path)
    allowed = set(MAY_IMPORT[package].split()) | ANYWHERE | {package}
    assert own_packages_imported(path) <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_from_outside_only_what_its_package_may(path):
    found = packages_imported(path)
    assert "covary" not in found, "import covary's own packages by relative imports"
    if package_of(path) not in FACING_OUT and not path.name.endswith(DRAWING):
        assert found <= EVERYWHERE | OUTSIDE.get(package_of(path), set())


@pytest.mark.parametrize("path", [path for path in SOURCES if package_of(path) in WITHOUT_TORCH], ids=name_of)
def test_settings_and_saved_numbers_need_no_torch(path):
    assert "torch" not in packages_imported(path)
    assert own_packages_imported(path) <= WITHOUT_TORCH


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_own_imports_are_at_the_top(path):
    if package_of(path) != "cli":  # a command imports what it computes with when it runs: its help is fast
        assert own_imports_in_functions(path) == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_file_is_short_enough_to_read(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_functions_are_short_enough_to_read(path):
    assert {name: number for name, number in body_lengths(path).items() if number > MAX_BODY} == {}


@pytest.mark.parametrize("path", [path for path in SOURCES if path.stem != "__init__"], ids=name_of)
def test_every_module_has_a_test_file_or_a_row_with_the_files_that_test_it(path):
    module, tests = path.relative_to(PACKAGE), REPOSITORY / "tests"
    own = tests / module.parent / f"test_{module.name.lstrip('_')}"
    named = TESTED_BY.get(module.as_posix(), own.relative_to(tests).as_posix()).split()
    missing = [name for name in named if not (tests / name).is_file()]
    assert not missing, f"write tests/{missing[0]}, or give '{module.as_posix()}' a row in TESTED_BY"


@pytest.mark.parametrize("package", PUBLIC)
def test_functions_that_users_call_have_few_parameters(package):
    module = importlib.import_module(package)
    functions = filter(inspect.isfunction, (getattr(module, name) for name in getattr(module, "__all__", ())))
    numbers = {function.__name__: num_parameters(function) for function in functions}
    assert {name: number for name, number in numbers.items() if number > MAX_PARAMETERS} == {}


def test_every_file_and_folder_has_a_real_name():
    paths = [*PACKAGE.rglob("*"), *(REPOSITORY / "tests").rglob("*")]
    words = {path: set(path.stem.lower().removeprefix("test_").strip("_").split("_")) for path in paths}
    assert [name_of(path) for path, in_name in words.items() if in_name & NAMELESS] == []


# The functions that the checks above use, on sources that break the rules.


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "linalg" / "inner").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "source", "expected"),
    [
        ("linalg/kron.py", "from .psd import AbstractPSD", set()),
        ("linalg/kron.py", "from . import psd", set()),
        ("linalg/kron.py", "from ..evidence.terms import EvidenceTerms", {"evidence"}),
        ("linalg/kron.py", "from .. import evidence, priors as p", {"evidence", "priors"}),
        ("linalg/kron.py", "def f():\n    from ..report import page", {"report"}),
        ("linalg/kron.py", "if True:\n    from ..errors import ShapeError", {"errors"}),
        ("linalg/kron.py", "from ...other import thing", {"other"}),
        ("linalg/inner/kron.py", "from ..psd import AbstractPSD", set()),
        ("linalg/inner/kron.py", "from ...curvature import kfac", {"curvature"}),
        ("priors.py", "from .linalg.kron import Kron", {"linalg"}),
        ("priors.py", "import torch\nfrom torch import nn", set()),
    ],
)
def test_own_packages_imported(package, file, source, expected):
    (package / file).write_text(source)
    assert own_packages_imported(package / file, package) == expected


def test_packages_imported(package):
    path = package / "priors.py"
    path.write_text(
        "import torch.nn as nn, scipy\nfrom covary.linalg import Kron\nfrom . import linalg\ndef f():\n import rich"
    )
    assert packages_imported(path) == {"torch", "scipy", "covary", "rich"}


def test_body_lengths(package):
    path = package / "priors.py"
    path.write_text(
        'def f(\n    x,\n):\n    """The sum\n\n    of x."""\n    y = x\n\n    return y\ndef g():\n    """No body."""\n'
    )
    assert body_lengths(path) == {"f": 3}


def test_own_imports_in_functions(package):
    path = package / "priors.py"
    path.write_text("from .linalg import Kron\ndef f():\n    from .linalg import Block\n    import torch\n")
    assert own_imports_in_functions(path) == [3]
