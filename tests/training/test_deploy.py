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


def test_rows_and_images_without_an_augmentation_need_no_example(tmp_path, generator):
    for shape, network in (((2,), covary.networks.mlp(2, 4, 2)), ((1, 6, 6), covary.networks.mlp(36, 4, 2))):
        x = torch.randn(20, *shape, generator=generator)
        run = covary.fit(network, (x, torch.arange(20) % 2), epochs=1, callbacks=())
        found = torch.export.load(export_program(run, tmp_path / "model.pt2")).module()(x.float())
        torch.testing.assert_close(found, run.network.float()(x.float()))


def tokens(generator):
    """A run of a network on numbers of tokens, and its inputs."""
    x = torch.randint(5, (20, 3), generator=generator)
    network = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2))
    return covary.fit(network, (x, x[:, 0] % 2), epochs=1, callbacks=()), x


def test_tokens_need_an_example(tmp_path, generator):
    run, x = tokens(generator)
    with pytest.raises(DataError, match="without the type of the inputs. Pass some of the data as `example`"):
        export_program(run, tmp_path / "model.pt2")
    found = torch.export.load(export_program(run, tmp_path / "model.pt2", example=x)).module()(x)
    torch.testing.assert_close(found, run.network.float()(x))
