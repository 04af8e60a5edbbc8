"""What commands print while they work."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from covary.cli import output
from covary.cli.progress import progress_of
from covary.config import FitConfig


def test_the_bar_of_a_fit_stands_below_that_of_its_study(monkeypatch):
    """On two consoles each bar would wipe out the line of the other."""
    console = Console(file=io.StringIO(), force_terminal=True, width=160, color_system=None)
    monkeypatch.setattr(output, "CONSOLE", console)
    with output.progress("study") as report:
        report("translated", 0.25)
        (fit,) = progress_of("learn")
        fit.on_fit_start(FitConfig(epochs=60))
        fit.on_step(10.4)
        fit.live.refresh()
        fit.on_fit_end()
    drawn = [lines for lines in console.file.getvalue().split("\x1b[1A") if "epoch 11" in lines]
    assert drawn
    assert all(
        lines.index("translated") < lines.index("\n", lines.index("translated")) < lines.index("epoch 11")
        for lines in drawn
    )


ROWS = [
    {
        "data": "rotated digits",
        "network": "S-FC+S-CONV",
        "parameters": 1234,
        "evidence per datum": -1.25,
        "seconds": 9.0,
    },
    {"data": "rotated digits", "network": "F-FC+CONV", "parameters": 5678, "shares": "82 (57–91)", "seconds": None},
]


@pytest.mark.parametrize(("width", "tables"), [(120, 1), (60, 2), (46, 3)])
def test_a_narrow_terminal_gets_several_tables_with_whole_words(capsys, width, tables):
    output.print_rows(ROWS, width)
    lines = capsys.readouterr().out.splitlines()
    assert all(cell_len(line) <= width for line in lines)
    words = " ".join(lines).split()
    assert all(words.count(name) == tables for name in ("data", "network", "S-FC+S-CONV", "F-FC+CONV"))
    for text in ("parameters", "1234", "5678", "evidence", "-1.25", "shares", "(57–91)", "seconds"):
        assert words.count(text) == 1
    assert words.count("–") == 3  # no value, or none for that key


def test_where_not_even_the_names_fit_words_are_broken(capsys):
    output.print_rows(ROWS, 20)
    assert all(cell_len(line) <= 20 for line in capsys.readouterr().out.splitlines())


def test_columns_of_text_alone_stand_beside_the_first(capsys):
    output.print_rows([{"name": "digits", "where": "looked in here", "why": "because"}], 22)
    lines = capsys.readouterr().out
    assert lines.count("digits") == 2
    assert "looked in" in lines
    assert "because" in lines
