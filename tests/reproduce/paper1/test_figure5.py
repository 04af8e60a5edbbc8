"""Accuracy against the number of images: points, epochs and claims."""

import pytest

from covary.errors import StructureError
from covary.reproduce.paper1 import comparison
from covary.reproduce.paper1.figure5 import EPOCHS, _epochs, figure5
from covary.reproduce.paper1.figures import sizes_figure
from covary.reproduce.study import Options, Request
from report.drawn import texts
from reproduce.paper1.test_comparison import cell

GAINS = {"plain": 0.0, "augerino": 0.1, "learned": 0.2}


@pytest.fixture
def made(monkeypatch) -> list:
    """The jobs of a study whose networks gain most with few images."""
    jobs: list = []

    def trained(job):
        jobs.append(job)
        number = job.config.num_train
        found = cell(job.version, job.method, job.config.fit.seed, 0.7 + GAINS[job.method] * 60 / number)
        return comparison.replace(found, num_train=number)

    monkeypatch.setattr(comparison, "_cell", trained)
    return jobs


def test_every_method_is_trained_at_every_size(made):
    study = figure5(Request("smoke", options=Options(network="mlp", num_seeds=2)))
    assert len(made) == 2 * 2 * 2 * 3
    assert {job.config.network for job in made} == {"mlp:20"}
    assert len(study.rows) == 2 * 2 * 3
    assert all(claim.holds for claim in study.claims)
    assert [claim.sentence for claim in study.claims[:3]] == [
        "mlp, fully rotated, 60 images: learned above both",
        "mlp, fully rotated, 100 images: learned above both",
        "mlp, fully rotated: widest margin over plain",
    ]
    panels = sizes_figure(study).axes
    assert [list(line.get_xdata()) for line in panels[0].lines] == [[60, 100]] * 3
    assert list(panels[0].lines[2].get_ydata()) == pytest.approx([90.0, 82.0])
    assert {"mlp, fully rotated", "mlp, translated", "learned"} <= set(texts(sizes_figure(study)))


def test_margins_that_do_not_shrink_are_told(made, monkeypatch):
    monkeypatch.setitem(GAINS, "learned", -0.2)
    study = figure5(Request("smoke", options=Options(network="mlp", versions=("scaled",))))
    assert not any(claim.holds for claim in study.claims)


def test_one_size_has_no_widest_margin(made):
    study = figure5(Request("smoke", options=Options(data="cifar-10", network="resnet-8-8", num_train=70)))
    assert {job.config.num_train for job in made} == {70}
    assert len(study.claims) == 2


def test_networks_of_other_data_are_refused():
    with pytest.raises(StructureError, match="network"):
        figure5(Request("smoke", options=Options(data="mnist", network="resnet-8-8")))


def test_fewer_images_are_read_more_often():
    assert [_epochs(EPOCHS["cpu"], number) for number in (100, 312, 2000, 20_000)] == [240, 240, 90, 30]
