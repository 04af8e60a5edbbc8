"""A trained network as an ONNX file: the averaged network with fixed augmentation samples, checked by onnxruntime."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from .._files import write_named
from ..errors import MissingLibraryError, NumericalError
from ..networks import Deployed
from ..training import Run
from ..training.deploy import deployed, example_of

try:
    import onnxruntime
    import onnxscript  # noqa: F401 - torch.onnx needs it
except ImportError as error:
    raise MissingLibraryError((error.name or "onnxruntime").split(".")[0], "onnx") from error

OPSET = 20
TOLERANCE = 1e-5  # of outputs, relative to the largest if that is above 1
_SIZES = (1, 5)  # numbers of data that a file is tried with


def export_onnx(run: Run, path: str | Path, *, example: Tensor | None = None, num_samples: int | None = None) -> Path:
    """Write the averaged network of a run to an ONNX file, and return its path.

    The file has one input "x", float32 (or tokens) of any number of data, and one output "outputs" (logits of classes).
    Noise of the augmentation is a constant in it (`covary.networks.Deployed`). Its outputs are compared with those of
    torch to 1e-5, by onnxruntime, before it is written.

    Arguments:
        run: The run.
        path: The file, such as model.onnx.
        example: Data of the shape of the inputs, (N, ...); by default floats of the shape in training.
        num_samples: The number of augmentation samples; None for as many as in training.

    Example:
        >>> import covary, tempfile, torch
        >>> from covary.integrations.onnx import export_onnx
        >>> x = torch.randn(20, 2)
        >>> run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=2, callbacks=())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_onnx(run, f"{folder}/model.onnx").name
        'model.onnx'
    """
    network, inputs = deployed(run, num_samples), example_of(run, example)
    with _silent():
        program = torch.onnx.export(
            network.program(inputs),
            dynamo=True,
            opset_version=OPSET,
            input_names=["x"],
            output_names=["outputs"],
            verbose=False,
        )
    assert program is not None, "torch.onnx returns a program with dynamo"
    proto = program.model_proto
    for key, value in _metadata(run).items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    content = proto.SerializeToString()
    _check(content, network, inputs)
    write_named(Path(path), content)
    return Path(path)


@contextmanager
def _silent() -> Iterator[None]:
    """Keep torch from saying that torchvision is not installed, and that it uses names that it deprecates itself."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.setLevel(before)


def _metadata(run: Run) -> dict[str, str]:
    """What a reader of the file needs to know, as texts."""
    record = run.record
    return {
        "producer": f"covary {version('covary')}",
        "title": record.title,
        "likelihood": type(run.likelihood).__name__,
        "class_names": json.dumps(record.class_names),
        "widths": json.dumps({symmetry.name: symmetry.width for symmetry in record.symmetries}),
    }


def _check(content: bytes, network: Deployed, inputs: Tensor) -> None:
    """Raise `NumericalError` if the file's outputs for one and for several data are not those of the network."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    noise = torch.Generator().manual_seed(0)
    for number in _SIZES:
        x = inputs[torch.randint(len(inputs), (number,), generator=noise)]
        x = torch.rand(x.shape, generator=noise, dtype=x.dtype) if x.is_floating_point() else x
        expected = network(x)
        (found,) = session.run(None, {"x": x.numpy()})
        apart = float((torch.from_numpy(found) - expected).abs().max()) / max(float(expected.abs().max()), 1.0)
        if not apart <= TOLERANCE:
            raise NumericalError(
                f"Outputs of the ONNX file are up to {apart:.1e} from those of torch, more than {TOLERANCE:g}. It is "
                "not written; report this with the network."
            )
