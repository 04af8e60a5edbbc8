"""`covary export`."""

from cli.outcomes import assert_one_line_and_code_2


def test_text_is_printed_or_written(run, discovered, tmp_path):
    discovered("a")
    code, out, err = run("export", "a", "--to", "kornia")
    assert (code, err) == (0, "")
    assert "K.RandomAffine(degrees=" in out
    assert run("export", "a", "--to", "kornia", "--out", "new/augment.py") == (
        0,
        "The ranges for kornia are in new/augment.py.\n",
        "",
    )
    assert (tmp_path / "new" / "augment.py").read_text() == out


def test_bad_input_is_one_line(run, discovered):
    discovered("a", "--augment", "none")
    assert_one_line_and_code_2(run("export", "a", "--to", "kornia"), "no augmentation that could be exported")
    assert_one_line_and_code_2(run("export", "a", "--to", "imgaug"), "imgaug", "kornia")
    assert_one_line_and_code_2(run("export", "a"), "--to")
    assert_one_line_and_code_2(run("export", "nothing", "--to", "kornia"), "nothing", "cannot be read")
