"""A killed run resumes bit for bit; a damaged checkpoint is passed over, and said so."""

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import covary
from covary.errors import DataError, Interrupted, StructureError
from covary.training.checkpoint import CHECKSUM, HEADER, VERSION, checkpoint_files
from covary.training.constant import constant_log_likelihood
from training.resume_worker import EPOCHS, session
from training_models import QUICK, RUNNING, averaged, everything, in_float64, points

CONFIG = RUNNING.replace(epochs=6)


def fit(folder: Path | None = None, config=CONFIG, *, train=None, resume=False, callbacks=()) -> covary.Run:
    checkpoints = None if folder is None else covary.Checkpoints(folder, every=1, resume=resume)
    return covary.fit(averaged(), train or points(), config, checkpoints=checkpoints, callbacks=callbacks)


def assert_same(first: covary.Run, second: covary.Run) -> None:
    one, two = everything(first), everything(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    plain = [replace(epoch, seconds=0.0) for epoch in first.record.history]
    assert plain == [replace(epoch, seconds=0.0) for epoch in second.record.history]


class Stop(Exception):
    pass


def stop_after(epochs: int):
    def callback(record):
        if record.epoch == epochs:
            raise Stop

    return callback


@pytest.fixture(scope="module")
def whole() -> covary.Run:
    """The run that nothing interrupts."""
    with in_float64():
        return fit(None)


@pytest.fixture(scope="module")
def after_four(tmp_path_factory) -> Path:
    """The checkpoints of a run that was stopped after its fourth epoch."""
    folder = tmp_path_factory.mktemp("after_four")
    with in_float64(), pytest.raises(Stop):
        fit(folder, callbacks=[stop_after(4)])
    return folder


@pytest.fixture
def stopped(after_four, tmp_path) -> Path:
    """A copy of these checkpoints."""
    return shutil.copytree(after_four, tmp_path / "stopped")


@pytest.mark.parametrize("base", [RUNNING, QUICK])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_resumed_run_equals_the_uninterrupted_one(tmp_path, base, optimizer):
    config = base.replace(epochs=6, weights={"optimizer": optimizer, "lr": 0.01})
    with pytest.raises(Stop):
        fit(tmp_path, config, callbacks=[stop_after(3)])
    assert_same(fit(tmp_path, config, resume=True), fit(None, config))


def saved_number(folder: Path, name: str) -> float:
    """A number in the header of the newest checkpoint."""
    with safe_open(checkpoint_files(folder)[0], framework="pt") as file:
        return json.loads(file.metadata()[HEADER])[name]


@pytest.mark.parametrize("follow_prior", [False, True])
def test_rates_and_the_untrained_likelihood_are_those_of_the_runs_own_start(tmp_path, follow_prior):
    config = CONFIG.replace(
        weights={"relative_lr": 0.2, "lr": 0.01, "prior_scaled_lr": follow_prior, "max_grad_norm": 0.1}
    )
    with pytest.raises(Stop):
        fit(tmp_path, config, callbacks=[stop_after(3)])
    untrained = saved_number(tmp_path, "untrained")
    other = covary.fit(
        averaged(seed=1), points(), config, checkpoints=covary.Checkpoints(tmp_path, resume=True), callbacks=()
    )
    assert_same(other, fit(None, config))
    assert saved_number(tmp_path, "untrained") == untrained


def unchanged(x, index, seed):
    return x


def test_a_likelihood_that_is_learned_is_resumed_with_its_constant(tmp_path):
    """Told to end within an epoch: the constant prediction is that of the noise with which the last one ended."""
    x, y = points()

    def run(folder=None, *, transform, resume=False):
        network = averaged()
        network.network[3] = torch.nn.Linear(5, 1, dtype=x.dtype)
        with torch.no_grad():
            network.network[3].weight.fill_(1.0)
            network.network[3].bias.fill_(-1.7)
        checkpoints = None if folder is None else covary.Checkpoints(folder, every=1, resume=resume)
        data = covary.data.Augmented((x, 2 * y[:, None].double()), transform)
        model = covary.Model(network, covary.Gaussian(2.0))
        return covary.fit(model, data, CONFIG, checkpoints=checkpoints, callbacks=())

    calls = []

    def tell(x, index, seed):
        calls.append(seed)
        if len(calls) == 8:
            os.kill(os.getpid(), signal.SIGTERM)
        return x

    with pytest.raises(Interrupted):
        run(tmp_path, transform=tell)
    saved = saved_number(tmp_path, "constant")
    assert_same(run(tmp_path, transform=unchanged, resume=True), run(transform=unchanged))
    assert saved != pytest.approx(
        constant_log_likelihood(covary.Gaussian(2.0), 2 * y[:, None].double(), (1,)), abs=1e-3
    )


def test_resume_is_no_new_start(stopped):
    seen = []
    fit(stopped, resume=True, callbacks=[lambda record: seen.append(record.epoch)])
    assert seen == [5, 6]


def test_a_complete_run_resumes_to_itself(tmp_path):
    first = fit(tmp_path)
    seen = []
    assert_same(first, fit(tmp_path, resume=True, callbacks=[seen.append]))
    assert seen == []


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function of the name of a run and of a log that starts a session of the run in a process of its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    # Forked from a server that has imported everything, a session is at its first epoch at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training.resume_worker"])

    def call(name: str, log: str):
        paths = (tmp_path / name, tmp_path / f"{name}.safetensors", tmp_path / log)
        process = context.Process(target=session, args=paths)
        process.start()
        return process

    return call


def newest_epoch(folder: Path) -> int:
    found = checkpoint_files(folder)
    return int(found[0].name.split("-")[1]) if found else 0


def wait_beyond(epoch: int, folder: Path) -> None:
    deadline = time.monotonic() + 120
    while newest_epoch(folder) <= epoch:
        assert time.monotonic() < deadline, f"no checkpoint came after that of epoch {epoch}"
        time.sleep(0.001)


def draws_by_epoch(log: Path) -> list[list[str]]:
    """The draws of each epoch of a session; an epoch begins with its shuffle."""
    epochs = []
    for line in log.read_text().splitlines():
        if line.startswith("shuffle"):
            epochs.append([])
        if epochs:
            epochs[-1].append(line)
    return epochs


def test_killed_at_any_moment_it_ends_bit_for_bit_where_it_would_have(tmp_path, start):
    """SIGKILL at random moments after the first checkpoint of a session: the same draws and the same tensors."""
    process = start("whole", "whole.log")
    wait_beyond(0, tmp_path / "whole")
    started = time.monotonic()
    process.join()
    took, whole = time.monotonic() - started, draws_by_epoch(tmp_path / "whole.log")
    assert {line.split()[0] for line in whole[-1]} == {"shuffle", "subset", "sketch", "noise"}
    assert len({draws[0] for draws in whole}) == EPOCHS, "the control: no two epochs have the same shuffle"

    seed = random.randrange(2**32)
    print(f"The moments come from seed {seed}.")
    moments, seen, left = random.Random(seed), {}, [0]
    for number in range(4):
        process = start("killed", f"{number}.log")
        if number < 3:
            wait_beyond(left[-1], tmp_path / "killed")
            time.sleep(moments.uniform(0, took / 8))  # short enough for three of them
            process.kill()
        process.join()
        for epoch, draws in enumerate(draws_by_epoch(tmp_path / f"{number}.log"), left[-1]):
            assert draws == whole[epoch][: len(draws)]
            seen[epoch] = draws
        left.append(newest_epoch(tmp_path / "killed"))
    assert sum(0 < epoch < EPOCHS for epoch in left) >= 2, f"kills left checkpoints of epochs {left[1:]}"
    assert seen == dict(enumerate(whole))
    one, two = load_file(tmp_path / "whole.safetensors"), load_file(tmp_path / "killed.safetensors")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_told_to_end_it_leaves_a_checkpoint_in_the_middle_of_an_epoch(tmp_path, whole):
    def tell(record):
        if record.epoch == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="epoch 3 of 6"):
        fit(tmp_path, callbacks=[tell])
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert_same(fit(tmp_path, resume=True), whole)


@pytest.mark.parametrize("number", [1, 2, 4, 5, 9, 11, 17])
def test_a_step_within_an_epoch_is_resumed(tmp_path, whole, number):
    """Told to end while a batch is made, before, between and after hyper steps: no step is done twice or left out.

    The step of that batch is taken before the fit ends: its message tells all processes.
    """
    calls = []

    def transform(x, index, seed):
        calls.append(seed)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return x

    with pytest.raises(Interrupted):
        fit(tmp_path, train=covary.data.Augmented(points(), transform))
    epoch, step = divmod(number - 1, 3)  # three batches an epoch
    assert checkpoint_files(tmp_path)[0].name == f"checkpoint-{epoch:06d}-{step + 1:06d}.safetensors"
    same = covary.data.Augmented(points(), lambda x, index, seed: x)
    assert_same(fit(tmp_path, resume=True, train=same), whole)


def test_what_these_runs_save_is_what_they_learn_from(whole, after_four):
    """The control of the tests above: running statistics are saved, several hyper steps an epoch move the width."""
    tensors = load_file(checkpoint_files(after_four)[0])
    assert {"running/log_likelihood", "running/num_data"} <= tensors.keys()
    assert any("/Kron" in name for name in tensors)
    with safe_open(checkpoint_files(after_four)[0], framework="pt") as file:
        learning = json.loads(file.metadata()[HEADER])["learning"]
    assert learning["num_steps"] == 10, "one at the end of the burn-in, then one after each weight step"
    assert learning["begun"] is not None
    assert len(learning["fisher"]) == 1
    widths = [epoch.widths["rotation"] for epoch in whole.record.history]
    assert len(set(widths[1:4])) == 3


@pytest.mark.parametrize("damage", ["cut", "flip", "header", "empty", "text", "pipe", "type", "retyped"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(stopped, damage, whole):
    newest, before = checkpoint_files(stopped)
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-9] ^= 1  # a bit of a tensor: the file is well-formed, and wrong
        newest.write_bytes(content)
    elif damage == "header":  # the same of a digit in the header
        newest.write_bytes(content.replace(b'\\"epoch\\": 4', b'\\"epoch\\": 5', 1))
    elif damage == "pipe":
        newest.unlink()
        os.mkfifo(newest)
    elif damage == "type":  # which NumPy does not have
        save_file({"now/a": torch.zeros(2, dtype=torch.bfloat16)}, newest, {HEADER: "{}", CHECKSUM: ""})
    elif damage == "retyped":  # the same bits are other numbers
        newest.write_bytes(content.replace(b'"dtype":"F64","shape":[]', b'"dtype":"I64","shape":[]', 1))
        assert newest.read_bytes() != content
    else:
        newest.write_bytes(b"" if damage == "empty" else b"not a checkpoint")
    seen = []
    with pytest.warns(UserWarning, match=f"{newest.name}.*trying the one before"):
        resumed = fit(stopped, resume=True, callbacks=[lambda record: seen.append(record.epoch)])
    assert seen[0] == 4, f"{before.name} is the state after epoch 3"
    assert_same(resumed, whole)


@pytest.mark.parametrize(
    "text", ["[]", "3", f'{{"version": {VERSION}}}', f'{{"version": {VERSION}, "fingerprint": []}}', "[" * 10**5]
)
def test_a_header_that_is_no_record_is_passed_over_as_damage_is(stopped, text):
    newest = checkpoint_files(stopped)[0]
    save_file({}, newest, {HEADER: text, CHECKSUM: hashlib.sha256(text.encode()).hexdigest()})
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged.*trying the one before"):
        assert fit(stopped, resume=True).record.history[-1].epoch == CONFIG.epochs


def test_where_every_checkpoint_is_damaged_nothing_is_begun_anew_in_silence(stopped):
    for path in checkpoint_files(stopped):
        path.write_bytes(b"")
    with pytest.warns(UserWarning, match="passed over"), pytest.raises(DataError, match="No checkpoint"):
        fit(stopped, resume=True)


def test_two_checkpoints_are_kept_and_no_stray_file(tmp_path):
    fit(tmp_path)
    names = {path.name for path in checkpoint_files(tmp_path)}
    assert len(names) == 2
    assert {path.name for path in tmp_path.iterdir()} == {*names, "progress.jsonl"}


@pytest.mark.parametrize(
    ("change", "word"),
    [({"seed": 1}, "seed"), ({"epochs": 9}, "epochs"), ({"weights": {"batch_size": 4}}, "weights.batch_size")],
)
def test_other_settings_are_refused(stopped, change, word):
    with pytest.raises(StructureError, match=word):
        fit(stopped, CONFIG.replace(**change), resume=True)


def test_other_numbers_of_samples_are_refused(stopped):
    with pytest.raises(StructureError, match="num_samples"):
        covary.fit(averaged(7), points(), CONFIG, checkpoints=covary.Checkpoints(stopped, resume=True), callbacks=())


def test_what_is_learned_must_be_the_same(stopped):
    frozen = averaged()
    frozen.augment.requires_grad_(False)
    with pytest.raises(StructureError, match="hyperparameters"):
        covary.fit(frozen, points(), CONFIG, checkpoints=covary.Checkpoints(stopped, resume=True), callbacks=())


def test_told_to_end_in_the_last_epoch_it_does_not_go_on(tmp_path, whole):
    def tell(record):
        if record.epoch == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="epoch 6 of 6") as caught:
        fit(tmp_path, callbacks=[tell])
    assert caught.value.signal_number == signal.SIGINT
    assert_same(fit(tmp_path, resume=True), whole)


def test_other_data_are_refused(stopped):
    with pytest.raises(StructureError, match="data"):
        covary.fit(
            averaged(), points(seed=5), CONFIG, checkpoints=covary.Checkpoints(stopped, resume=True), callbacks=()
        )


def test_a_folder_with_checkpoints_is_not_overwritten(stopped):
    with pytest.raises(StructureError, match="resume"):
        fit(stopped)


def test_a_checkpoint_with_foreign_tensors_is_an_error(tmp_path):
    """The right header on the wrong tensors: refused, whatever the checksum says."""
    with pytest.raises(Stop):
        fit(tmp_path, callbacks=[stop_after(1)])
    (path,) = checkpoint_files(tmp_path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = {"now/network/other": torch.zeros(3)}
    save_file(tensors, path, metadata)
    assert json.loads(metadata["covary_checkpoint"])["epoch"] == 1
    with pytest.warns(UserWarning, match="checksum"), pytest.raises(DataError, match="No checkpoint"):
        fit(tmp_path, resume=True)
