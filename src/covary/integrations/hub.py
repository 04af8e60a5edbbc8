"""A run as a folder for the Hugging Face Hub: safetensors, configuration and a model card; nothing is uploaded."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._files import write_text
from .._text import plural
from ..likelihoods import Categorical
from ..records import RunRecord
from ..records.summary import summary
from ..records.tables import run_text
from ..records.words import short
from ..training import Run
from ..training.inputs import trained_shape
from ..training.storage import has_own_network

_USE = """```python
import covary
from huggingface_hub import snapshot_download

run = covary.load(snapshot_download("USER/NAME"){own})
run.predict_proba(x)  # {inputs}
```"""


def save_for_hub(run: Run, folder: str | Path, *, license: str | None = None) -> Path:
    """Write a run to a folder that can be uploaded to the Hugging Face Hub as it is, and return the folder.

    It has `model.safetensors`, `run.json` and, with an augmentation, `augment.json`, which `covary.load` reads;
    `config.json` with the model as plain data; and `README.md`, a model card from the record. Nothing is uploaded, and
    huggingface_hub is not needed: `hf upload USER/NAME FOLDER` does it.

    Arguments:
        run: The run.
        folder: The folder.
        license: The identifier of a license for the card, such as "apache-2.0"; None to leave it out.

    Example:
        >>> import os, tempfile, torch, covary
        >>> from covary.integrations.hub import save_for_hub
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=2, callbacks=())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(os.listdir(save_for_hub(run, folder)))
        ['README.md', 'config.json', 'model.safetensors', 'run.json']
    """
    place = run.save(folder)
    write_text(place / "config.json", json.dumps(_config(run), indent=2) + "\n")
    write_text(place / "README.md", _card(run, license))
    return place


def _config(run: Run) -> dict[str, Any]:
    """The model as plain data: how it is made, what it takes and what it returns."""
    record = run.record
    return {
        "library_name": "covary",
        "versions": record.versions,
        "model": record.model,
        "input_shape": list(trained_shape(record)) or None,
        "class_names": record.class_names,
        "symmetries": [asdict(symmetry) for symmetry in record.symmetries],
        "settings": record.config,
    }


def _card(run: Run, license: str | None) -> str:
    record = run.record
    images = record.samples is not None and isinstance(run.likelihood, Categorical)
    header = ["library_name: covary", "tags:", "- covary", "- symmetry", "- laplace", "- marginal-likelihood"]
    header += ["pipeline_tag: image-classification"] if images else []
    header += [f"license: {json.dumps(license)}"] if license is not None else []
    shape = trained_shape(record)
    sizes = ", ".join(map(str, shape))
    inputs = f"{'images' if len(shape) == 3 else 'data'} (N, {sizes})" if shape else "inputs as in training"
    inputs += "; bytes are divided by 255" if record.samples is not None else ""
    own = ", network" if has_own_network(record) else ""
    parts = [
        f"# {short(record.title, 100)}",
        summary(record),
        "## What was learned",
        f"```text\n{run_text(record)}\n```",
        *_notes(record.notes),
        "## Use",
        _USE.format(own=own, inputs=inputs),
        *(["The network is one of the author's own: pass it, or a function that makes it."] if own else []),
        "## Training",
        _training(record),
    ]
    return "---\n" + "\n".join(header) + "\n---\n\n" + "\n\n".join(parts) + "\n"


def _training(record: RunRecord) -> str:
    said = [plural(len(record.history), "epoch"), f"{record.seconds:.0f} s"]
    data = record.config.get("data")
    said += [f"data `{short(str(data), 80)}`"] if data is not None else []
    versions = ", ".join(f"{name} {value}" for name, value in record.versions.items())
    return f"{', '.join(said)}. Versions: {versions}. Every setting is in `config.json` and `run.json`."


def _notes(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {note}" for note in notes)] if notes else []
