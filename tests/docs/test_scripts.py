"""Links to scripts lead to the script in a clone, and to its page in the built site."""

from scripts import to_pages  # of docs/_ext


def test_a_link_to_a_script_becomes_one_to_its_page():
    text = "[tune](../../examples/guides/fine_tuning.py), [sharp](../examples/tutorials/05_sharpness.py)"
    assert to_pages(text) == "[tune](/examples/fine_tuning.rst), [sharp](/tutorials/05_sharpness.rst)"


def test_a_link_by_the_name_of_the_file_stays():
    text = "[`export.py`](../../examples/guides/export.py), [text](../other.py)"
    assert to_pages(text) == text


def test_a_link_to_a_folder_becomes_one_to_its_index():
    assert to_pages("[all](../examples/tutorials)") == "[all](/tutorials/index.rst)"
