"""Folders for the hub, without a network connection."""

import json

import pytest
import torch

import covary
from covary.integrations.hub import save_for_hub

pytestmark = pytest.mark.filterwarnings("ignore:No width was learned")


@pytest.fixture(scope="module")
def run():
    x = torch.rand(20, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    network = covary.Averaged(covary.networks.mlp(36, 4, 2), covary.augment.Affine2d(initial_width=0.2), num_samples=4)
    return covary.fit(network, (x, (x.mean((1, 2, 3)) > 0.5).long()), epochs=1, callbacks=())


def test_the_folder_is_a_run_that_can_be_loaded(run, tmp_path, generator):
    folder = save_for_hub(run, tmp_path / "hub", license="apache-2.0")
    names = {path.name for path in folder.iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors", "run.json", "augment.json"}
    x = torch.rand(3, 1, 6, 6, generator=generator)
    assert torch.equal(covary.load(folder).predict_proba(x), run.predict_proba(x))
    config = json.loads((folder / "config.json").read_text())
    assert config["library_name"] == "covary"
    assert config["input_shape"] == [1, 6, 6]
    assert config["model"]["network"]["kind"] == "averaged"
    assert [row["name"] for row in config["symmetries"]] == list(run.augment.names)


def test_the_card_is_one_for_the_hub(run, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub, an optional dependency")
    folder = save_for_hub(run, tmp_path, license="apache-2.0")
    card = hub.ModelCard.load(folder / "README.md")
    assert card.data.library_name == "covary"
    assert card.data.license == "apache-2.0"
    assert card.data.pipeline_tag == "image-classification"
    assert "covary" in card.data.tags
    assert "rotation" in card.text
    for path in folder.iterdir():  # what an upload would send
        assert hub.CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=path).upload_info.size > 0


def test_a_network_of_ones_own_is_said_to_be_needed(tmp_path, generator):
    x = torch.randn(20, 2, generator=generator)
    own = torch.nn.Sequential(torch.nn.Linear(2, 2))
    run = covary.fit(own, (x, (x[:, 0] > 0).long()), epochs=1, callbacks=())
    text = (save_for_hub(run, tmp_path) / "README.md").read_text()
    assert 'snapshot_download("USER/NAME"), network)' in text
    assert "license" not in text
    assert "pipeline_tag" not in text
    assert "run.predict_proba(x)  # data (N, 2)" in text
