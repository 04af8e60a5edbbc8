"""The picture of the learned architecture: bars that add up to the whole of each layer."""

import dataclasses

import pytest

from covary.records import Layer
from covary.report import architecture_figure
from report.drawn import texts
from report.runs import SPARSE, bare_run, full_run, layer_path, layers_run


def bars(run):
    """For each layer the ends of its bars, from left to right, and their colors."""
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


def test_a_path_has_one_color_in_every_layer_and_run():
    two, three = bars(full_run()), bars(layers_run())
    colors = {row[1][2] for row in two.values()} | {row[1][2] for row in three.values()}
    assert len(colors) == 1, "conv"
    assert len({color for _, _, color in three[0]}) == 3


def test_layers_are_named_from_input_to_output_and_paths_in_the_legend():
    found = texts(architecture_figure(full_run()))
    assert [text for text in found if text.startswith("layer ")] == ["layer 1", "layer 2", "layer 3", "layer 4"]
    assert {"conv", "f-fc"} <= set(found)
    assert "93" in found, "a share that has room for its number"
    assert "7" not in found, "one that has not stays without"


def two_layers(names: tuple[str, str], share: float):
    """A run with two such layers, whose path "fc" has a given share."""
    paths = [layer_path("fc", share, 10), layer_path("conv", 1 - share, 10)]
    return dataclasses.replace(full_run(), layers=[Layer(name, "conv", paths, None, None) for name in names])


@pytest.mark.parametrize(("share", "number", "shown"), [(0.11, "11", False), (0.13, "13", True)])
def test_a_number_is_written_where_it_fits_as_in_the_pictures_of_studies(share, number, shown):
    assert (number in texts(architecture_figure(two_layers(("a", "b"), share)))) == shown


def test_layers_whose_names_are_shortened_alike_have_a_bar_each():
    beginning = "a_name_that_goes_on_and_on_"
    assert list(bars(two_layers((f"{beginning}1", f"{beginning}2"), 0.3))) == [0, 1]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_records_can_be_drawn(name):
    assert texts(architecture_figure(SPARSE[name]()))


def test_a_run_without_layers_says_so():
    assert texts(architecture_figure(bare_run())) == ["The network has no relaxed layers."]
