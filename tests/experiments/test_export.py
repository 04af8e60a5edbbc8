"""What `covary export` writes, from a saved run."""

import pytest
import torch

import covary
from covary.errors import DataError, StructureError
from covary.experiments import exported_text


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder, x = tmp_path_factory.mktemp("run"), torch.randn(20, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    augment = covary.augment.Affine2d(("rotation",), initial_width=0.5)
    network = covary.Averaged(covary.networks.mlp(36, 4, 2), augment, num_samples=2)
    covary.fit(network, (x, (x.mean((1, 2, 3)) > 0).long()), epochs=2, callbacks=()).save(folder)
    return folder


def test_text_is_that_of_the_augmentation(saved):
    augment = covary.load(saved).augment
    for run in (saved, saved / "run.json"):
        lines = exported_text(run, "kornia").splitlines(keepends=True)
        code = "".join(line for line in lines if not line.startswith("# rotation"))
        assert code == covary.augment.to_text(augment, "kornia")
        assert len(lines) == len(code.splitlines()) + 1  # and a line on what the run knows of the width


def test_a_damaged_augmentation_is_refused(saved, tmp_path):
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "augment.json").write_text((saved / "augment.json").read_text().replace("rotation", "shear", 1))
    with pytest.raises(DataError, match="damaged or of another run"):
        exported_text(tmp_path, "kornia")


def test_a_run_without_an_augmentation(tmp_path):
    x = torch.randn(20, 2)
    covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=1, callbacks=()).save(tmp_path)
    with pytest.raises(StructureError, match="has no augmentation that could be exported"):
        exported_text(tmp_path, "kornia")
