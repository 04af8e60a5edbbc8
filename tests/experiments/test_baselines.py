"""Baselines at equal epochs and at equal time, and those with random operations."""

import json
from dataclasses import replace

import pytest
import torch

from covary import Averaged
from covary.augment import RandAugment
from covary.augment.automatic import as_transform
from covary.data import Augmented
from covary.errors import CovaryError, DataError, StructureError
from covary.experiments import baselines as module
from covary.experiments import build
from covary.experiments.baselines import run_baselines
from covary.experiments.build import Session, check_baselines, prepared
from covary.records import Baseline
from covary.records.checksums import sealed
from experiments.small import SETTINGS, config


def test_random_operations_are_seen_by_weight_steps_and_tested_in_two_ways(tmp_path, monkeypatch):
    settings = config(tmp_path, fit=SETTINGS.replace(epochs=1), baselines=("randaugment",), num_samples=3)
    task = prepared(settings)
    seen = []
    monkeypatch.setattr(
        build, "fit", lambda model, data, *args, **kwargs: seen.append(data) or fit(model, data, *args, **kwargs)
    )
    averaged, single = run_baselines(settings, task)
    (data,) = seen
    assert isinstance(data, Augmented)
    x, index = task.dataset.x_train, torch.arange(len(task.dataset.x_train))
    torch.testing.assert_close(data.transform(x, index, 4), as_transform(RandAugment())(x, index, 4))
    assert (averaged.name, averaged.test.num_samples, averaged.epochs) == ("randaugment", 3, 1)
    assert (single.name, single.test.num_samples) == ("randaugment, 1 sample", 1)
    assert averaged.test.nll != single.test.nll


fit = build.fit


def test_equal_time_trains_a_second_time_for_as_many_epochs_as_take_as_long(tmp_path, monkeypatch):
    settings = config(tmp_path, fit=SETTINGS.replace(epochs=2), baselines=("plain",), equal="time")
    asked, task, any_run = [], prepared(settings), build.learn(settings, prepared(settings))

    def trained(name, title, settings, task, session):
        asked.append((title, settings.fit.epochs))
        return Baseline(title, [], None, None, seconds=4.0, epochs=settings.fit.epochs), any_run

    monkeypatch.setattr(module, "baseline_run", trained)
    session = Session(tmp_path / "checkpoints")
    rows = run_baselines(settings, task, session, seconds=13.0)
    assert asked == [("plain", 2), ("plain, equal time", 6)]
    assert [row.epochs for row in rows] == [2, 6]
    asked.clear()
    run_baselines(settings, task, session._replace(resume=True), seconds=20.0)
    assert asked[1] == ("plain, equal time", 6), "a continued run keeps its number of epochs"
    note = tmp_path / "checkpoints" / "plain-epochs.json"
    for damaged in (b"", b"6", note.read_bytes().replace(b"6", b"9", 1), json.dumps(sealed({"epochs": -1})).encode()):
        note.write_bytes(damaged)
        with pytest.raises(DataError, match=r"plain-epochs\.json"):
            run_baselines(settings, task, session._replace(resume=True), seconds=20.0)
    asked.clear()
    run_baselines(replace(settings, equal="epochs"), task, session, seconds=13.0)
    assert asked == [("plain", 2)]


def test_what_cannot_be_compared_is_refused_before_the_first_run(tmp_path):
    settings = config(tmp_path, baselines=("trivialaugment",))
    task = prepared(settings)
    check_baselines(settings, task)
    shifted = task._replace(dataset=task.dataset._replace(x_train=task.dataset.x_train - 3))
    with pytest.raises(CovaryError, match="values from 0 to 1"):
        check_baselines(settings, shifted)
    with pytest.raises(StructureError, match="about baselines, and this run trains none"):
        config(tmp_path, equal="time")
    assert not isinstance(build.start_of("trivialaugment", settings, task)[0], Averaged)
