import pytest
import torch

import covary
from covary.errors import DataError
from covary.training import export_program
from covary.training.deploy import deployed


@pytest.fixture(scope="module")
def run():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(20, 1, 6, 6, generator=generator)
    network = covary.Averaged(covary.networks.mlp(36, 4, 2), covary.augment.Affine2d(initial_width=0.2), num_samples=4)
    return covary.fit(network, (x, (x.mean((1, 2, 3)) > 0.5).long()), epochs=1, callbacks=())


@pytest.fixture(autouse=True)
def _without_shape_checks(monkeypatch):
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.filterwarnings("ignore:No width was learned")
def test_a_program_in_a_file_is_the_network(run, tmp_path, generator):
    path = export_program(run, tmp_path / "new" / "model.pt2", num_samples=6)
    program = torch.export.load(path).module()
    x = torch.rand(5, 1, 6, 6, generator=generator, dtype=torch.float32)
    torch.testing.assert_close(program(x), deployed(run, 6)(x))
    averaged = run.network.with_samples(6).float()
    seed = covary.training.schedule.seed_for(run.record.config["seed"], covary.training.schedule.TEST)
    torch.testing.assert_close(program(x), averaged(x, torch.zeros(5, dtype=torch.int64), seed=seed))


@pytest.mark.filterwarnings("ignore:No width was learned")
def test_inputs_of_another_kind_need_an_example(tmp_path, generator):
    x = torch.randn(20, 2, generator=generator)
    run = covary.fit(covary.networks.mlp(2, 4, 2), (x, (x[:, 0] > 0).long()), epochs=1, callbacks=())
    with pytest.raises(DataError, match="Pass data of that shape as `example`"):
        export_program(run, tmp_path / "model.pt2")
    path = export_program(run, tmp_path / "model.pt2", example=x)
    found = torch.export.load(path).module()(x.float())
    torch.testing.assert_close(found, run.network.float()(x.float()))
