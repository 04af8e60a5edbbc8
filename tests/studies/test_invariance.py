"""The pieces of an experiment: data with a known symmetry, the learned network, the baselines."""

import math
from dataclasses import replace

import pytest
import torch

from covary._errors import CovaryError
from covary.data import load, symmetrise
from covary.studies.invariance import Session, check_baselines, learn, model, prepared, run_baseline
from studies.small import SETTINGS, bars, config


def test_data_are_limited_then_made_symmetric_then_typed(tmp_path):
    task = prepared(config(tmp_path, limit=12, symmetrise="rotate:90", fit=replace(SETTINGS, seed=5)))
    assert task.dataset.x_train.shape == (12, 1, 6, 6)
    assert task.dataset.x_train.dtype == task.dataset.x_test.dtype == torch.float64
    assert task.true_widths == {"rotation": math.pi / 2}
    plain = prepared(config(tmp_path, limit=12, fit=replace(SETTINGS, seed=5)))
    assert plain.true_widths == {}
    assert task.dataset.y_train.equal(plain.dataset.y_train)
    given = plain.dataset._replace(x_train=plain.dataset.x_train.float(), x_test=plain.dataset.x_test.float())
    expected = symmetrise(given, "rotate:90", 5).x_train.double()
    assert task.dataset.x_train.equal(expected)
    assert not task.dataset.x_train.allclose(plain.dataset.x_train)


def test_the_seed_chooses_the_data(tmp_path):
    chosen = [prepared(config(tmp_path, limit=12, fit=replace(SETTINGS, seed=seed))).dataset for seed in (0, 0, 1)]
    assert chosen[0].x_train.equal(chosen[1].x_train)
    assert not chosen[0].x_train.equal(chosen[2].x_train)
    assert load(config(tmp_path).data).x_train.equal(bars().x_train)


def test_baselines_start_from_the_same_weights(tmp_path):
    settings = config(
        tmp_path, fit=replace(SETTINGS, epochs=1, learning_rate=1e-9, final_learning_rate=0.0), baselines=("plain",)
    )
    task = prepared(settings)
    learned, plain = learn(settings, task), run_baseline("plain", settings, task)
    start = model(settings, task)
    for name, weight in start.network.state_dict().items():
        assert learned.network.network.state_dict()[name].allclose(weight, atol=1e-8)
    with torch.no_grad():
        logits = start.network(task.dataset.x_test)
    nll = torch.nn.functional.cross_entropy(logits, task.dataset.y_test)
    assert plain.test.nll == pytest.approx(float(nll), rel=1e-6)
    assert learned.record.test.nll != pytest.approx(float(nll), rel=1e-6), "it averages over copies"


def test_plain_has_no_widths_and_fixed_keeps_its_own(tmp_path):
    settings = config(tmp_path, baselines=("plain", "fixed"), fixed_widths={"rotation": 1.5})
    task = prepared(settings)
    plain, fixed = (run_baseline(name, settings, task) for name in settings.baselines)
    widths = {symmetry.name: symmetry.width for symmetry in fixed.symmetries}
    assert plain.symmetries == []
    assert plain.test.num_samples == 1
    assert fixed.test.num_samples == 2
    assert widths.pop("rotation") == pytest.approx(1.5, rel=1e-6)
    assert set(widths.values()) == {0.0}
    assert plain.evidence.log_evidence != fixed.evidence.log_evidence


def test_augerino_learns_widths_without_an_evidence(tmp_path):
    settings = config(tmp_path, fit=replace(SETTINGS, epochs=8))
    found = run_baseline("augerino", settings, prepared(settings))
    assert found.evidence is None
    assert all(symmetry.width != pytest.approx(0.05, abs=1e-4) for symmetry in found.symmetries)


def test_learning_moves_widths_only_after_the_burn_in(tmp_path):
    settings = config(tmp_path)
    history = learn(settings, prepared(settings)).record.history
    assert list(history[0].widths.values()) == pytest.approx([0.05] * 6)
    assert any(abs(width - 0.05) > 1e-3 for width in history[2].widths.values())


def test_a_baseline_that_cannot_be_built_is_told_before_work(tmp_path):
    settings = config(tmp_path, baselines=("plain", "fixed"), fixed_widths={"wobble": 1.0})
    with pytest.raises(CovaryError, match="'wobble' is no transform"):
        check_baselines(settings, prepared(settings))


def test_a_session_has_a_folder_for_each_part(tmp_path):
    assert Session(tmp_path, True, 3).part("plain") == Session(tmp_path / "plain", True, 3)
    assert Session().part("plain") == Session()
