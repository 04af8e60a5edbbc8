"""Where a library is missing, its integration says in one line how to install it."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from covary.errors import MissingLibraryError

# Module -> what it imports, and the extra that installs it.
INTEGRATIONS = {
    "lightning": ("lightning.pytorch", "lightning"),
    "huggingface": ("transformers", "huggingface"),
    "mlflow": ("mlflow", "mlflow"),
    "onnx": ("onnxruntime", "onnx"),
    "sklearn": ("sklearn", "sklearn"),
    "tensorboard": ("torch.utils.tensorboard", "tensorboard"),
    "wandb": ("wandb", "wandb"),
}
EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_a_missing_library_is_one_line_with_the_command(name, monkeypatch):
    library, extra = INTEGRATIONS[name]
    module = f"covary.integrations.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    for loaded in [entry for entry in sys.modules if entry == library or entry.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError) as caught:
        importlib.import_module(module)
    assert str(caught.value).endswith(f'Run: pip install "covary[{extra}]"')
    assert "\n" not in str(caught.value)
    assert extra in EXTRAS
