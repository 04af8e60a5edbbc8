import json
import tomllib

import pytest

from covary._text import clipped, escaped, is_plain, meant, plural, require_choice
from covary.errors import StructureError

HOSTILE = "\x1b]0;title\x07\x9b31m\x7f\r\u202e\udcff"


def test_control_characters_become_escapes_that_json_and_toml_read():
    assert escaped("dogs, cats–äöü 漢字 🐶") == "dogs, cats–äöü 漢字 🐶"
    assert escaped("a\tb\nc") == "a\tb\nc"
    assert escaped(HOSTILE) == "\\u001b]0;title\\u0007\\u009b31m\\u007f\\u000d\\u202e\\udcff"
    assert is_plain(escaped(HOSTILE))
    assert json.loads(f'"{escaped(HOSTILE)}"') == HOSTILE
    assert tomllib.loads(f'name = "{escaped(HOSTILE[:-1])}"')["name"] == HOSTILE[:-1]


@pytest.mark.parametrize("letter", [*HOSTILE.replace("]0;title", "").replace("31m", ""), "\n", "\t", "\x00"])
def test_text_with_a_control_character_is_not_plain(letter):
    assert not is_plain(f"a{letter}b")
    assert is_plain("a b")


@pytest.mark.parametrize(
    "value",
    ["x" * 20_000, ["x"] * 20_000, 10**30, 1 << 100_000, {"a": "x" * 20_000}, b"x" * 20_000, None, 1.5],
    ids=range(8),
)
def test_any_value_is_shown_in_a_few_characters(value):
    assert 1 <= len(clipped(value)) <= 60


def test_a_short_value_is_shown_whole():
    assert clipped("none") == "'none'"
    assert clipped(("plane",)) == "('plane',)"


def test_numbers_of_things():
    assert [plural(n, "image") for n in (0, 1, 2, 1234)] == ["0 images", "1 image", "2 images", "1,234 images"]


def test_a_misspelled_name_has_a_suggestion_and_a_strange_one_has_none():
    assert meant("kronn", ["kron", "diag"]) == " Did you mean 'kron'?"
    assert meant("MPL", ["mlp", "cnn"], ":20") == " Did you mean 'mlp:20'?"
    assert meant("x", ["kron", "diag"]) == meant(3, ["kron"]) == ""


def test_a_value_that_is_no_choice_is_named_with_the_choices_and_the_one_that_is_like_it():
    require_choice("a sampler", "sobol", {"sobol": 1})
    with pytest.raises(
        StructureError, match=r"^Expected a sampler among sobol, random, got 'sobel'. Did you mean 'sobol'\?$"
    ):
        require_choice("a sampler", "sobel", ("sobol", "random"))
    with pytest.raises(StructureError, match=r"among a, b, got 3\.$"):
        require_choice("letters", 3, "ab")
