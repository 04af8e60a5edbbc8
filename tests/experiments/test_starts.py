"""The start of relaxed layers: the settings of both ends, short runs, and the choice by their evidence."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from covary.config import FitConfig, layers_config
from covary.errors import StructureError
from covary.experiments import starts
from covary.experiments.build import Task, learn, prepared
from covary.experiments.starts import best_start, shortened, starts_of
from covary.records import Evidence
from experiments.small import config

CONFIG = layers_config("f-fc+conv", 1)


@pytest.fixture
def task(tmp_path) -> Task:
    return prepared(config(tmp_path))


def test_the_ends_are_those_of_the_two_presets():
    found = starts_of(CONFIG)
    assert found["free"] == CONFIG
    assert found["equivariant"] == layers_config("f-fc+conv", 1, relaxation=0.3)
    again = starts_of(layers_config("f-fc+conv", 1, relaxation=0.1))
    assert (again["free"], again["equivariant"].relaxation) == (CONFIG, 0.1)


def test_a_short_run_has_a_fourth_of_the_schedule():
    whole = CONFIG.replace(epochs=120, baselines=("map",), prune=0.01, **{"hyper.burn_in": 20, "hyper.every": 5})
    short = shortened(whole)
    assert (short.fit.epochs, short.fit.hyper.burn_in, short.fit.hyper.every) == (30, 5, 1)
    assert (short.fit.weights.warmup_epochs, short.baselines, short.prune) == (1, (), None)
    assert shortened(CONFIG.replace(**{"hyper.burn_in": None})).fit.hyper.burn_in is None


@pytest.mark.parametrize("better", ["free", "equivariant"])
def test_the_end_with_the_higher_evidence_goes_on(monkeypatch, task, better):
    levels = {1.0: -900.0 if better == "free" else -1100.0, 0.3: -1000.0}

    def learned(settings, task):
        total = levels[settings.relaxation]
        return SimpleNamespace(record=SimpleNamespace(evidence=Evidence(total, 0.0, 0.0, total, 500, "kron", "exact")))

    monkeypatch.setattr(starts, "learn", learned)
    choice = best_start(CONFIG, task)
    assert choice.name == better
    assert choice.config == starts_of(CONFIG)[better]
    assert choice.evidences == {"free": levels[1.0] / 500, "equivariant": -2.0}


def test_a_run_without_an_evidence_is_never_chosen(monkeypatch, task):
    def learned(settings, task):
        known = None if settings.relaxation == 1 else Evidence(-9e9, 0.0, 0.0, -9e9, 5, "kron", "exact")
        return SimpleNamespace(record=SimpleNamespace(evidence=known))

    monkeypatch.setattr(starts, "learn", learned)
    assert best_start(CONFIG, task).name == "equivariant"


@pytest.mark.parametrize("network", ["mlp", "relaxed:conv:1"])
def test_networks_without_two_paths_have_no_ends(task, network):
    with pytest.raises(StructureError, match="sum of paths"):
        best_start(replace(CONFIG, network=network), task)


def test_evidences_are_those_of_the_short_runs(tmp_path):
    fit = FitConfig.preset("layers").replace(
        epochs=8, weights={"batch_size": 15, "warmup_epochs": 0}, hyper={"burn_in": 4, "num_prior_steps": 2}
    )
    settings = config(tmp_path, network="relaxed:f-fc+conv:1", augment="none", size=4, fit=fit)
    task = prepared(settings)
    found = best_start(settings, task)
    alone = learn(shortened(starts_of(settings)["equivariant"]), task).record.evidence
    assert found.evidences["equivariant"] == pytest.approx(alone.log_evidence / alone.num_data, rel=1e-6)
    assert found.evidences[found.name] == max(found.evidences.values())
