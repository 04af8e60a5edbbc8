"""Links to scripts lead to the script in a clone, and to its page in the built site."""

import re
from pathlib import Path

import pytest
from scripts import to_pages  # of docs/_ext

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_a_link_to_a_script_becomes_one_to_its_page():
    text = "[tune](../../examples/guides/fine_tuning.py), [sharp](../examples/tutorials/05_sharpness.py)"
    assert to_pages(text) == "[tune](/examples/fine_tuning.rst), [sharp](/tutorials/05_sharpness.rst)"


def test_a_link_by_the_name_of_the_file_stays():
    text = "[`export.py`](../../examples/guides/export.py), [text](../other.py)"
    assert to_pages(text) == text


@pytest.mark.parametrize("page", [DOCS / "faq.md", *sorted((DOCS / "explanation").glob("*.md"))], ids=lambda p: p.name)
def test_pages_outside_of_the_guides_have_no_links_that_are_dead_in_a_clone(page):
    assert not re.findall(r"\]\(/(?:examples|tutorials)/\w+\.rst\)", page.read_text(encoding="utf-8"))
