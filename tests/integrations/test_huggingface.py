"""The callback in a real Hugging Face trainer, and the learner in a real accelerator."""

import json

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import covary
from covary.errors import StructureError
from training_models import RUNNING, averaged, points

transformers = pytest.importorskip("transformers", reason="transformers is not installed (oracles.txt)")
pytest.importorskip("accelerate", reason="accelerate is not installed (oracles.txt)")
from covary.integrations.huggingface import EvidenceCallback, _as_text, _from_text  # noqa: E402

CONFIG = RUNNING.replace(epochs=5, hyper={"burn_in": 2})


class Classifier(nn.Module):
    """A model with the inputs and outputs that the trainer expects."""

    def __init__(self, network, learner):
        super().__init__()
        self.network, self.learner = network, learner

    def forward(self, pixel_values, labels=None):
        logits = self.network(pixel_values, seed=self.learner.seed)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


class Rows(torch.utils.data.Dataset):
    """Data whose batches are dictionaries."""

    def __len__(self):
        return 24

    def __getitem__(self, row):
        x, y = points()
        return {"pixel_values": x[row], "labels": y[row]}


class StopAfter(transformers.TrainerCallback):
    def __init__(self, steps):
        self.steps = steps

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.steps:
            control.should_training_stop = True


def fitted(folder, *callbacks, resume=None, callback=None, **settings):
    """A trainer after training; with a callback of its own, the trainer's log is that of the callback."""
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG) if callback is None else callback.learner
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        num_train_epochs=5,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=0.01,
        save_strategy="steps",
        save_steps=5,
        report_to=[],
        disable_tqdm=True,
        **settings,
    )
    model = Classifier(learner.model.network, learner)
    trainer = transformers.Trainer(
        model, arguments, train_dataset=Rows(), callbacks=[callback or EvidenceCallback(learner), *callbacks]
    )
    if callback is not None:
        callback.log = trainer.log
    trainer.train(resume_from_checkpoint=resume)
    return trainer, learner


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing interrupts."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield fitted(tmp_path_factory.mktemp("whole"))
    torch.set_default_dtype(before)


def test_the_trainer_trains_the_weights_and_the_callback_the_rest(whole):
    trainer, learner = whole
    assert learner.epochs == 5
    assert learner.widths["rotation"] != pytest.approx(0.3, rel=1e-3), "it has been learned"
    logged = [entry for entry in trainer.state.log_history if "log_evidence" in entry]
    assert logged[0]["epoch"] == 2, "after the burn-in"
    assert logged[-1] == {**learner.metrics, "epoch": trainer.state.epoch, "step": 15}


@pytest.mark.parametrize("restore", [False, True])
def test_an_interrupted_run_resumes_to_the_same_bits(whole, tmp_path, restore):
    """In the middle of an epoch, also where the trainer makes callbacks anew from their exported state."""
    settings = {"restore_callback_states_from_checkpoint": restore}
    fitted(tmp_path, StopAfter(10))
    checkpoint = tmp_path / "checkpoint-10"
    saved = json.loads((checkpoint / "trainer_state.json").read_text())["stateful_callbacks"]["EvidenceCallback"]
    assert set(saved) == {"args", "attributes"}
    assert set(saved["attributes"]) == {"saved"}
    trainer, learner = fitted(tmp_path / "resumed", resume=str(checkpoint), **settings)
    assert trainer.state.global_step == 15
    assert learner.widths == whole[1].widths
    assert learner.log_evidence == whole[1].log_evidence
    assert all(map(torch.equal, trainer.model.parameters(), whole[0].model.parameters()))
    assert torch.equal(learner.model.prior.log_precision, whole[1].model.prior.log_precision)


def test_the_trackers_of_the_trainer_see_what_hyper_steps_found(whole, tmp_path):
    """Its own log tells all callbacks, such as that of TensorBoard."""

    class Kept(transformers.TrainerCallback):
        def __init__(self):
            self.seen = []

        def on_log(self, args, state, control, logs=None, **_):
            self.seen += [logs] * ("log_evidence" in logs)

    kept, callback = Kept(), EvidenceCallback(covary.EvidenceLearner(averaged(), points(), CONFIG))
    trainer, _ = fitted(tmp_path, kept, callback=callback)
    logged = [entry for entry in trainer.state.log_history if "log_evidence" in entry]
    assert logged == [entry for entry in whole[0].state.log_history if "log_evidence" in entry]
    assert [entry["width/rotation"] for entry in kept.seen] == [entry["width/rotation"] for entry in logged]


def beginning():
    """What a trainer passes to its callbacks before the first step."""
    return transformers.TrainingArguments(use_cpu=True), transformers.TrainerState(), transformers.TrainerControl()


def test_the_prior_acts_on_the_weights():
    """Before a step the gradient is that of the loss with the penalty."""
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
    (x, y), network = points(), learner.model.network
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    cross_entropy(network(x), y).backward()
    EvidenceCallback(learner).on_pre_optimizer_step(*beginning(), optimizer=optimizer)
    weights = list(learner.model.trained_weights.values())
    expected = torch.autograd.grad(learner.loss(network(x), y), weights)
    for weight, gradient in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-10, atol=1e-14)


def test_a_state_as_text_is_the_state():
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
    learner.step(72)
    before = learner.state_dict()
    after = _from_text(_as_text(before))
    assert before.keys() == after.keys()
    for name, value in before.items():
        if name in ("hyperparameters", "optimizer", "running"):
            assert value.keys() == after[name].keys()
            assert all(torch.equal(value[key], after[name][key]) for key in value)
        else:
            assert value == after[name]


def test_a_callback_without_learner_or_with_that_of_another_network_is_refused():
    learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
    with pytest.raises(StructureError, match="Expected a learner"):
        EvidenceCallback().on_train_begin(*beginning(), model=Classifier(learner.model.network, learner))
    with pytest.raises(StructureError, match="Make the learner with the network"):
        EvidenceCallback(learner).on_train_begin(*beginning(), model=Classifier(averaged(), learner))


def test_another_number_of_epochs_and_weight_decay_are_noticed(tmp_path):
    with (
        pytest.warns(UserWarning, match="num_train_epochs=2, the learner epochs=5"),
        pytest.warns(UserWarning, match=r"weight_decay=0.1 .* Pass weight_decay=0.0 to the optimizer"),
    ):
        fitted(tmp_path, max_steps=6, weight_decay=0.1)


def test_an_accelerator_saves_and_loads_the_learner(tmp_path):
    """Accelerate needs no callback: the learner is registered with what is saved."""
    from accelerate import Accelerator

    def prepared():
        learner = covary.EvidenceLearner(averaged(), points(), CONFIG)
        accelerator = Accelerator(cpu=True)
        network, optimizer = accelerator.prepare(
            learner.model.network, torch.optim.SGD(learner.model.network.parameters(), lr=0.1, momentum=0.9)
        )
        accelerator.register_for_checkpointing(learner)
        return accelerator, learner, network, optimizer

    def trained(parts, first, last):
        accelerator, learner, network, optimizer = parts
        x, y = points()
        for number in range(first, last):
            rows = torch.arange(8) + 8 * (number % 3)
            optimizer.zero_grad()
            accelerator.backward(learner.loss(network(x[rows], rows, seed=learner.seed), y[rows]))
            optimizer.step()
            learner.step(8)
        return learner

    expected = trained(prepared(), 0, 15)
    first = prepared()
    trained(first, 0, 10)
    first[0].save_state(tmp_path)
    second = prepared()
    second[0].load_state(tmp_path)
    found = trained(second, 10, 15)
    assert found.widths == expected.widths
    assert found.log_evidence == expected.log_evidence
    assert all(map(torch.equal, found.model.network.parameters(), expected.model.network.parameters()))
