"""The picture of the learned architecture: bars that add up to the whole of each layer."""

import pytest

from covary.report import architecture_figure
from report.drawn import texts
from report.runs import SPARSE, bare_run, full_run, layers_run


def bars(run):
    """For each layer the ends of its bars, from left to right, and their colours."""
    panel = architecture_figure(run).axes[0]
    rows: dict[int, list] = {}
    for bar in panel.patches:
        place = round(bar.get_y() + bar.get_height() / 2)
        rows.setdefault(place, []).append((bar.get_x(), bar.get_width(), bar.get_facecolor()))
    return rows


@pytest.mark.parametrize("run", [full_run(), layers_run()], ids=["two paths", "three paths"])
def test_bars_are_the_shares_one_after_another(run):
    for place, row in bars(run).items():
        shares = [100 * path.relative for path in run.layers[place].paths]
        assert [width for _, width, _ in row] == pytest.approx(shares)
        assert [left for left, _, _ in row] == pytest.approx([sum(shares[:i]) for i in range(len(shares))])
        assert sum(width for _, width, _ in row) == pytest.approx(100)


def test_a_path_has_one_colour_in_every_layer_and_run():
    two, three = bars(full_run()), bars(layers_run())
    colours = {row[1][2] for row in two.values()} | {row[1][2] for row in three.values()}
    assert len(colours) == 1, "conv"
    assert len({colour for _, _, colour in three[0]}) == 3


def test_layers_are_named_from_input_to_output_and_paths_in_the_legend():
    found = texts(architecture_figure(full_run()))
    assert [text for text in found if text.startswith("layer ")] == ["layer 1", "layer 2", "layer 3", "layer 4"]
    assert {"conv", "f-fc"} <= set(found)
    assert "93" in found, "a share that has room for its number"
    assert "7" not in found, "one that has not stays without"


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_records_can_be_drawn(name):
    assert texts(architecture_figure(SPARSE[name]()))


def test_a_run_without_layers_says_so():
    assert texts(architecture_figure(bare_run())) == ["The network has no relaxed layers."]
