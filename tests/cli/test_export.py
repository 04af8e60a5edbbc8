"""`covary export`."""

import jaxtyping
import torch

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


def test_the_network_as_a_program_and_as_a_folder(run, discovered, tmp_path, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # sizes are symbols in torch.export
    discovered("a")
    code, out, err = run("export", "a", "--to", "torch", "--num-samples", "3")
    assert (code, out, err) == (0, "The network is in a/model.pt2: torch.export.load reads it.\n", "")
    assert torch.export.load(tmp_path / "a" / "model.pt2").module()(torch.rand(5, 1, 6, 6)).shape == (5, 2)
    code, out, err = run("export", "a/run.json", "--to", "hub", "--out", "b")
    assert (code, err) == (0, "")
    assert "hf upload USER/NAME b" in out
    assert run("verify", "b").code == 0
    assert (tmp_path / "b" / "README.md").is_file()
    assert_one_line_and_code_2(
        run("export", "a", "--to", "hub", "--num-samples", "3"), "--num-samples is for onnx and torch"
    )
    (tmp_path / "file").write_text("")
    assert_one_line_and_code_2(run("export", "a", "--to", "torch", "--out", "file/model.pt2"), "file")
