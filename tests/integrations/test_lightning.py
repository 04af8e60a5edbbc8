"""The callback in a real Lightning trainer: what it learns, logs and saves, and that a resumed run is the same."""

import csv
import logging
import warnings

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import covary
from covary.errors import StructureError
from training_models import RUNNING, averaged, points

pl = pytest.importorskip("lightning.pytorch", reason="lightning is not installed (oracles.txt)")
from covary.integrations.lightning import EvidenceCallback  # noqa: E402

CONFIG = RUNNING.replace(epochs=5, hyper={"burn_in": 2})
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(pl.LightningModule):
    """A module as users write it: cross-entropy, and an optimizer over all parameters."""

    def __init__(self, network, learner):
        super().__init__()
        self.network, self.learner, self.evidences = network, learner, []

    def training_step(self, batch, _):
        x, y, index = batch
        return cross_entropy(self.network(x, index, seed=self.learner.seed), y)

    def validation_step(self, batch, _):
        assert torch.is_inference_mode_enabled()
        self.evidences.append(self.learner.evaluate().log_evidence)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class StopAfter(pl.Callback):
    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer, pl_module):
        trainer.should_stop = trainer.current_epoch + 1 == self.epochs


def loader():
    x, y = points()
    return DataLoader(TensorDataset(x, y, torch.arange(24)), batch_size=8)


def fitted(folder, *callbacks, ckpt_path=None, logger=False, **settings):
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
    module = Classifier(learner.model.network, learner)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=5,
        callbacks=[EvidenceCallback(learner), *callbacks],
        default_root_dir=folder,
        logger=logger,
        enable_checkpointing=any(isinstance(callback, pl.callbacks.ModelCheckpoint) for callback in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning advises on workers
        trainer.fit(module, loader(), ckpt_path=ckpt_path)
    return trainer, module


def by_hand(accumulate):
    """The same training as a plain loop, with the penalty in the loss."""
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
    network, (x, y) = learner.model.network, points()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(5):
        for first in range(0, 24, 8 * accumulate):
            parts = torch.arange(first, min(first + 8 * accumulate, 24)).split(8)
            optimizer.zero_grad()
            learner.prior_penalty().backward()
            for rows in parts:
                (cross_entropy(network(x[rows], rows, seed=learner.seed), y[rows]) / accumulate).backward()
            optimizer.step()
            learner.step(8 * len(parts))
    return learner


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_module_and_the_callback_train_as_a_plain_loop(tmp_path, accumulate):
    trainer, module = fitted(tmp_path, accumulate_grad_batches=accumulate)
    expected = by_hand(accumulate)
    found = module.learner
    assert found.widths == pytest.approx(expected.widths, rel=1e-6)
    assert found.widths["rotation"] != pytest.approx(0.3, rel=1e-3), "it has been learned"
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-6)
    torch.testing.assert_close(found.model.prior.log_precision, expected.model.prior.log_precision, rtol=1e-6, atol=0)
    assert found.epochs == 5
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged == pytest.approx(found.metrics, rel=1e-6)
    trainer.validate(module, loader(), verbose=False)
    assert module.evidences == pytest.approx([expected.evaluate().log_evidence] * 3, rel=1e-6)


def test_a_logger_has_every_hyper_step(tmp_path):
    """Also those between the steps that Lightning logs, every 50th by default."""
    found = {}

    class Evidences(pl.Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            evidence = pl_module.learner.log_evidence
            if evidence is not None and evidence not in found.values():
                found[trainer.global_step - 1] = evidence

    logger = pl.loggers.CSVLogger(tmp_path)
    trainer, module = fitted(tmp_path, Evidences(), logger=logger)
    with open(f"{logger.log_dir}/metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["width/rotation"]]
    assert trainer.global_step == 15 < trainer.log_every_n_steps
    assert {int(row["step"]): float(row["log_evidence"]) for row in rows} == found
    assert float(rows[-1]["width/rotation"]) == module.learner.widths["rotation"]


def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path):
    whole = fitted(tmp_path)[1]
    saving = pl.callbacks.ModelCheckpoint(tmp_path, filename="last", enable_version_counter=False)
    fitted(tmp_path, saving, StopAfter(3))
    assert (tmp_path / "last.ckpt").is_file()
    resumed = fitted(tmp_path, ckpt_path=tmp_path / "last.ckpt")[1]
    assert resumed.learner.widths == whole.learner.widths
    assert resumed.learner.log_evidence == whole.learner.log_evidence
    assert all(map(torch.equal, resumed.parameters(), whole.parameters()))
    assert torch.equal(resumed.learner.model.prior.log_precision, whole.learner.model.prior.log_precision)
    content = torch.load(tmp_path / "last.ckpt", weights_only=True)  # no pickled objects
    forgotten = tmp_path / "forgotten.ckpt"
    content["callbacks"].pop("EvidenceCallback")
    torch.save(content, forgotten)
    other = fitted(tmp_path, ckpt_path=forgotten)[1]
    assert other.learner.log_evidence != whole.learner.log_evidence, "without the state of the callback"


def test_the_learner_of_another_network_and_another_number_of_epochs_are_noticed(tmp_path):
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
    callback = EvidenceCallback(learner)
    trainer = pl.Trainer(accelerator="cpu", max_epochs=7, logger=False, enable_checkpointing=False)
    with pytest.raises(StructureError, match="Make the learner with the network that it trains"):
        callback.on_train_start(trainer, Classifier(averaged(), learner))
    trainer.fit_loop.max_batches = float("inf")
    with (
        pytest.warns(UserWarning, match="max_epochs=7, the learner epochs=5"),
        pytest.raises(StructureError, match="limit_train_batches"),
    ):
        callback.on_train_start(trainer, Classifier(learner.model.network, learner))
