"""SVG that stands in a page: repeatable, self-contained, its text as text."""

import matplotlib
from matplotlib.figure import Figure

from covary.report import pictures_figure, svg, widths_figure
from covary.report.figures import empty_figure
from report.drawn import texts
from report.runs import HOSTILE, full_run, hostile_run


def test_same_numbers_give_the_same_bytes():
    assert svg(widths_figure(full_run())) == svg(widths_figure(full_run()))
    assert svg(widths_figure(full_run())) != svg(widths_figure(hostile_run()))


def test_it_is_one_element_that_fetches_nothing():
    text = svg(pictures_figure(full_run()))
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    addresses = [part.split('"')[0] for part in text.split('href="')[1:]]
    assert addresses
    assert all(address.startswith(("#", "data:image/png")) for address in addresses)
    assert "<metadata" not in text


def test_two_figures_in_a_page_share_no_identifier():
    first, second = (svg(widths_figure(full_run()), name) for name in ("one", "two"))
    names = [{part.split('"')[0] for part in text.split('id="')[1:]} for text in (first, second)]
    assert names[0]
    assert not names[0] & names[1]
    used = {part.split('"')[0].split(")")[0] for part in first.replace("url(#", 'href="#').split('href="#')[1:]}
    assert used
    assert used <= names[0]


def test_text_is_neither_markup_nor_mathematics():
    text = svg(empty_figure(HOSTILE))
    assert "<script" not in text
    assert texts(empty_figure(HOSTILE)) == [HOSTILE]


def test_text_that_looks_like_an_identifier_is_left_alone():
    sentence = 'id="a" url(#b) href="#c"'
    assert texts(empty_figure(sentence)) == [sentence]


def test_settings_of_the_user_neither_matter_nor_change():
    expected = svg(widths_figure(full_run()))
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.grid": False, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert svg(widths_figure(full_run())) == expected
        assert dict(matplotlib.rcParams) == before


def test_letters_that_the_font_lacks_are_left_to_the_browser(recwarn):
    figure = Figure()
    figure.text(0.5, 0.5, "数字")
    assert "数字" in svg(figure)
    assert not recwarn.list
