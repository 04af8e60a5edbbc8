"""ONNX files: their outputs by onnxruntime are those of the averaged network."""

import json

import numpy as np
import pytest
import torch

import covary
from covary.augment import Affine2d, ColorJitter, Composed, FiniteGroup
from covary.errors import NumericalError
from covary.training.deploy import deployed

pytest.importorskip("onnxscript", reason="needs onnxscript, an optional dependency")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, an optional dependency")
pytestmark = [pytest.mark.filterwarnings("ignore:No width was learned", "ignore::FutureWarning")]


@pytest.fixture(scope="module")
def run():
    x = torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    augment = Composed(FiniteGroup("flips", 0.2), Affine2d(initial_width=0.2), ColorJitter(initial_width=0.1))
    network = covary.Averaged(covary.networks.build("cnn", (3, 8, 8), 2, 0), augment, num_samples=4)
    return covary.fit(network, (x, (x.mean((1, 2, 3)) > 0.5).long()), epochs=1, callbacks=())


@pytest.fixture(autouse=True)
def _without_shape_checks(monkeypatch):
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def test_outputs_are_those_of_torch(run, tmp_path):
    from covary.integrations import onnx

    path = onnx.export_onnx(run, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(path))
    (given,) = session.get_inputs()
    assert (given.name, given.shape[1:], given.type) == ("x", [3, 8, 8], "tensor(float)")
    random = np.random.default_rng(1)
    for number in (1, 3, 11):
        x = random.random((number, 3, 8, 8), dtype=np.float32)
        (found,) = session.run(["outputs"], {"x": x})
        np.testing.assert_allclose(found, deployed(run)(torch.from_numpy(x)).numpy(), rtol=0, atol=1e-5)
    said = session.get_modelmeta().custom_metadata_map
    assert said["likelihood"] == "Categorical"
    assert json.loads(said["widths"]).keys() == set(run.augment.names)


def test_tokens_are_inputs_too(tmp_path, generator):
    from covary.integrations import onnx

    x = torch.randint(5, (20, 3), generator=generator)
    network = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    run = covary.fit(network, (x, x[:, 0] % 2), epochs=1, callbacks=())
    session = onnxruntime.InferenceSession(str(onnx.export_onnx(run, tmp_path / "model.onnx", example=x)))
    (found,) = session.run(["outputs"], {"x": x[:7].numpy()})
    np.testing.assert_allclose(found, deployed(run)(x[:7]).numpy(), rtol=0, atol=1e-5)


def test_another_network_is_refused(tmp_path, monkeypatch):
    """A file whose outputs are not those of the network is not written."""
    from covary.integrations import onnx

    x = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    run = covary.fit(covary.networks.mlp(3, 2, 2), (x, (x[:, 0] > 0.5).long()), epochs=1, callbacks=())
    monkeypatch.setattr(onnx, "TOLERANCE", -1.0)
    with pytest.raises(NumericalError, match="It is not written"):
        onnx.export_onnx(run, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
