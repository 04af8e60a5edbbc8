"""The simpler network of a run, in a file and back."""

import copy
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from .._files import write_whole
from ..errors import DataError, StructureError
from ..layers import Relaxed, SparseDense
from ..layers.sparse import stationary
from ..records import Pruning, read_run

PRUNED = "pruned.safetensors"


def save_pruned(network: nn.Module, folder: str | Path) -> Path:
    """The path of the file with the network's tensors, in a folder that is made where it is not there."""
    path = Path(folder) / PRUNED
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}))
    return path


def load_pruned(network: nn.Module, folder: str | Path) -> nn.Module:
    """The simpler network that a run with `--prune` left, in evaluation mode; `network` stays as it is.

    The paths that `run.json` records as removed are taken out, those that it records as replaced become the stationary
    maps they are, and the tensors of `pruned.safetensors` are filled in.

    Arguments:
        network: The network of the run before, built anew; its numbers do not matter. That of `covary layers` is
            `Standardized`, and `Averaged` where an augmentation was learned.
        folder: The run's folder.
    """
    record, path = read_run(Path(folder)).pruned, Path(folder) / PRUNED
    if record is None:
        raise StructureError(f"The run in {folder} was not pruned. Make it anew with --prune 0.01, or load all.")
    simple = _pruned(network, record, path)
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as saved weights ({error}). Make the run anew.") from error
    expected = {name: tensor.shape for name, tensor in simple.state_dict().items()}
    found = {name: tensor.shape for name, tensor in tensors.items()}
    if other := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        came, here = (tuple(shapes[other[0]]) if other[0] in shapes else "nothing" for shapes in (found, expected))
        raise StructureError(
            f"{path} holds {came} for '{other[0]}'; the network that came has {here}. Build it as the run did: the "
            "same variant and width, Standardized and Averaged where it was."
        )
    simple.load_state_dict(tensors)
    return simple


def _pruned(network: nn.Module, record: Pruning, path: Path) -> nn.Module:
    """A copy without the removed paths, and with stationary maps in the place of the replaced ones."""
    simple = copy.deepcopy(network).eval()
    layers = {name: module for name, module in simple.named_modules() if isinstance(module, Relaxed)}
    for whole in (*record.removed, *record.replaced):
        name, _, key = whole.rpartition(".")
        if name not in layers or key not in layers[name].paths:
            raise StructureError(
                f"{path} is of a network with the path '{whole}', which the one that came lacks. Build it as the run "
                "did: the same variant, Standardized and Averaged where it was."
            )
        if whole in record.removed:
            del layers[name].paths[key]
            continue
        sparse = layers[name].paths[key]
        if not isinstance(sparse, SparseDense):
            raise StructureError(
                f"{path} has a stationary map in place of '{whole}', as a SparseDense can become; the one that came is "
                f"a {type(sparse).__name__}. Build the network as the run did, or make the run anew."
            )
        layers[name].paths[key] = stationary(sparse)
    return simple
