"""The study of p4 factorizations: parameters counted exactly, and what it claims when."""

import pytest
import torch

from covary.networks import build
from covary.reproduce.paper2.layer_study import MAP, Cell
from covary.reproduce.paper2.separable import DATA, FACTORIZATIONS, _count_claims, _order_claims, count, separable
from covary.reproduce.study import Request
from reproduce.relaxed_cells import cell, cells_of


def cells(changes: dict[str, float] | None = None) -> list[Cell]:
    levels = {name: found.paper / 100 for name, found in FACTORIZATIONS.items()} | (changes or {})
    return [cell(DATA, name, MAP, level) for name, level in levels.items()]


def counts() -> dict[str, dict[int, int]]:
    return {name: {alpha: count(row.variant, alpha) for alpha in row.counts} for name, row in FACTORIZATIONS.items()}


def test_parameters_are_those_of_the_table():
    claims = _count_claims(counts())
    assert len(claims) == 8
    assert all(claim.holds for claim in claims)


def test_one_parameter_more_fails_its_row_alone():
    wrong = counts()
    wrong["separable"][13] += 1
    assert [claim.sentence for claim in _count_claims(wrong) if not claim.holds] == ["separable: parameters at α = 13"]


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_counting_takes_no_memory_and_agrees_with_a_network_that_does(name):
    variant = FACTORIZATIONS[name].variant
    network = build(f"relaxed:{variant}:2", (3, 32, 32), 10, 0)
    assert {weight.device.type for weight in network.parameters()} == {"cpu"}
    state = torch.random.get_rng_state()
    assert count(variant, 2) == sum(weight.numel() for weight in network.parameters())
    assert torch.random.get_rng_state().equal(state)


def test_the_order_is_that_of_the_paper():
    assert all(claim.holds for claim in _order_claims(cells_of(cells())))
    broken = [claim.sentence for claim in _order_claims(cells_of(cells({"separable": 0.7}))) if not claim.holds]
    assert broken == ["accuracy: pointwise above separable"]


def test_rows_say_the_widths_that_are_counted(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "covary.reproduce.paper2.separable.train_all",
        lambda jobs, scale, request: seen.extend(jobs) or cells_of(cells(), scale, request),
    )
    study = separable(Request("paper"))
    assert {job.method for job in seen} == {MAP}
    assert {job.config.symmetrize for job in seen} == {"rotate:180"}
    assert study.rows[0]["parameters at α"] == "1,025,380 (10), 371,200 (6)"
    assert study.series["parameters"]["depthwise separable"] == 139_725
