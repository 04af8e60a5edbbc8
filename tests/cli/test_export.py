"""`covary export`."""

import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
import torch

import covary
from cli.outcomes import assert_one_line_and_code_2
from covary.experiments import exported_text
from covary.records import RunRecord, Symmetry, Verdict, read_run, write_run
from covary.records.checksums import checksums


@pytest.fixture(scope="module")
def saved_widths(tmp_path_factory) -> Callable[[str], tuple[Path, str]]:
    """A function of a state to the folder of a run whose width has it, and the name of the width."""
    augment = covary.augment.Affine2d(("rotation",), initial_width=0.2)
    network = covary.Averaged(covary.networks.mlp(16, 3, 2), augment, 2)
    config = covary.FitConfig().replace(epochs=1, evaluation={"num_evaluations": 0})
    with pytest.warns(UserWarning, match="No width was learned"):
        run = covary.fit(network, (torch.rand(8, 1, 4, 4), torch.arange(8) % 2), config, callbacks=())

    def call(state: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp("run")
        symmetries = [replace(symmetry, state=state) for symmetry in run.symmetries]
        covary.Run(run.model, replace(run.record, symmetries=symmetries)).save(folder / "run")
        return folder / "run", "rotation"

    return call


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


@pytest.mark.parametrize("target", ["kornia", "torchvision", "albumentations", "ultralytics", "nnunet", "timm"])
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("not learned yet", "not learned by this run, so as it was at its start"),
        ("still moving", "still moving when training ended"),
        ("settled", None),
    ],
)
def test_text_says_which_ranges_have_not_settled(target, state, words, saved_widths):
    folder, name = saved_widths(state)
    lines = exported_text(folder, target).splitlines()
    assert lines[0].startswith("# Ranges")
    assert lines[1].startswith(f"# {name}: {words}") == (words is not None)


def doubted(folder: Path, verdicts: Sequence[Verdict] = (), **changes: Symmetry) -> Path:
    """The run, with fields of its only width changed."""
    record = read_run(folder)
    symmetries = [replace(symmetry, **changes) for symmetry in record.symmetries]
    write_run(replace(record, symmetries=symmetries, verdicts=list(verdicts)), folder / "run.json")
    return folder


def test_each_range_has_its_interval_and_its_verdict_as_a_comment(saved_widths):
    """Earlier ranges that the run itself doubted were written without a word."""
    folder, _ = saved_widths("settled")
    assert exported_text(doubted(folder), "kornia").splitlines()[1].startswith("# rotation: no error bar")
    assert exported_text(doubted(folder, interval=[0.15, 0.25]), "timm").splitlines()[1] == (
        "# rotation: 90 % interval 8.6° to 14°."
    )
    no = Verdict("rotation", "no", -6.3, 1.5, 0.2, -6.3, 8.3, 1.5, 1.1)
    lines = exported_text(doubted(folder, [no], interval=[0.0, 0.25]), "ultralytics").splitlines()
    assert lines[1] == "# rotation: 90 % interval at most 14°; verdict no, −6.3 ± 1.5 nats."


SETTLED = {"state": "settled", "interval": [0.7, 0.9], "width": 0.8}


@pytest.mark.parametrize(
    ("changes", "answer", "doubt"),
    [
        ({}, None, None),
        ({}, "yes", None),
        ({}, "no", "verdict no"),
        ({}, "undecided", "verdict undecided"),
        ({"state": "still moving"}, None, "still moving"),
        ({"interval": [0.0, 0.9]}, None, "may be 0"),
        ({"interval": None}, None, "no error bar"),
        ({"interval": None, "state": "fixed"}, None, None),
        ({"width": 0.001}, None, "negligible"),
    ],
)
def test_what_is_not_sure_can_be_left_out(changes, answer, doubt, saved_widths, run):
    folder, _ = saved_widths("settled")
    verdicts = [] if answer is None else [Verdict("rotation", answer, 6.3, 1.5, 0.2, 6.3, 8.3, 1.5, 1.1)]
    doubted(folder, verdicts, **(SETTLED | changes))
    found = run("export", str(folder), "--to", "kornia", "--sure")
    if doubt is None:
        assert found.code == 0
        assert "RandomAffine" in found.out
    else:
        assert_one_line_and_code_2(found, f"No transform of the run is sure: rotation ({doubt})", "--sure")


def test_what_is_left_out_is_named(tmp_path):
    augment = covary.augment.Affine2d(("rotation", "shift_x"), initial_width=0.8)
    network = covary.Averaged(covary.networks.mlp(16, 3, 2), augment, 2)
    sure = Symmetry("rotation", 0.8, "radians", "±46°", interval=[0.7, 0.9])
    small = Symmetry("shift_x", 0.01, "half-widths", "up to 0.1 pixels left or right")
    covary.Run(covary.Model(network), RunRecord("digits", symmetries=[sure, small])).save(tmp_path / "run")
    lines = exported_text(tmp_path / "run", "albumentations", sure=True).splitlines()
    assert lines[1:3] == ["# rotation: 90 % interval 40° to 52°.", "# Left out: shift_x (negligible)."]
    assert "shift_x" not in "".join([lines[0], *lines[3:]])
    assert "shift_x" in exported_text(tmp_path / "run", "albumentations").splitlines()[0]


def test_sure_is_for_text(run, discovered):
    discovered("a")
    assert_one_line_and_code_2(run("export", "a", "--to", "torch", "--sure"), "--sure is for ranges as text")


def test_bad_input_is_one_line(run, discovered):
    discovered("a", "--augment", "none")
    assert_one_line_and_code_2(run("export", "a", "--to", "kornia"), "no augmentation that could be exported")
    assert_one_line_and_code_2(run("export", "a", "--to", "imgaug"), "imgaug", "kornia")
    assert_one_line_and_code_2(run("export", "a", "--to", "korna"), "'--to': 'korna' is not", "Did you mean 'kornia'?")
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
    for number in (10**12, 10**30):
        refused = run("export", "a", "--to", "torch", "--num-samples", str(number))
        assert_one_line_and_code_2(refused, "augmentation samples", "GiB", "--num-samples")
    (tmp_path / "file").write_text("")
    assert_one_line_and_code_2(run("export", "a", "--to", "torch", "--out", "file/model.pt2"), "file")


def test_a_link_to_a_device_is_written_through_and_one_in_a_run_is_refused(run, discovered, tmp_path, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    discovered("a")
    (tmp_path / "sink").symlink_to("/dev/null")
    assert run("export", "a", "--to", "torch", "--out", "sink").code == 0
    assert (tmp_path / "sink").readlink() == Path("/dev/null")
    (tmp_path / "a" / "model.pt2").symlink_to(tmp_path / "elsewhere")
    assert_one_line_and_code_2(run("export", "a", "--to", "torch"), "'a/model.pt2' is a link", "--out")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_for_the_hub_replaces_no_other_run(run, discovered, tmp_path):
    discovered("a")
    discovered("b", "--seed", "1")
    before = (tmp_path / "b" / "run.json").read_bytes()
    for out in ("b", "a"):
        assert_one_line_and_code_2(run("export", "a", "--to", "hub", "--out", out), f"'{out}' has a run", "--out")
    assert (tmp_path / "b" / "run.json").read_bytes() == before
    assert [run("export", "a", "--to", "hub", "--out", "c").code for _ in range(2)] == [0, 0]
    assert_one_line_and_code_2(run("export", "b", "--to", "hub", "--out", "c"), "'c' has a run")
    descriptor = os.open(tmp_path / "c" / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert_one_line_and_code_2(run("export", "a", "--to", "hub", "--out", "c"), "writing to 'c'")
    os.close(descriptor)


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"3", b"\xff"])
def test_an_augmentation_that_is_none_is_one_line(run, discovered, tmp_path, content):
    folder = discovered("a")
    (folder / "augment.json").write_bytes(content)
    record = read_run(folder)
    files = record.files | checksums(folder, ["augment.json"])  # as somebody would state it who means harm
    write_run(replace(record, files=files), folder / "run.json")
    assert_one_line_and_code_2(run("export", "a", "--to", "kornia"), "augment.json")


def test_an_onnx_file_that_onnxruntime_runs(run, discovered, tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="needs onnx, an optional dependency")
    pytest.importorskip("onnxscript", reason="needs onnxscript, an optional dependency")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, an optional dependency")
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # sizes are symbols in torch.export
    discovered("a")
    code, out, _ = run("export", "a", "--to", "onnx", "--num-samples", "3")
    assert (code, out) == (0, "The network is in a/model.onnx: input x, output outputs, checked with onnxruntime.\n")
    session = onnxruntime.InferenceSession(str(tmp_path / "a" / "model.onnx"))
    x = torch.rand(5, 1, 6, 6, dtype=torch.float32)
    (outputs,) = session.run(["outputs"], {"x": x.numpy()})
    run("export", "a", "--to", "torch", "--num-samples", "3")
    expected = torch.export.load(tmp_path / "a" / "model.pt2").module()(x)
    torch.testing.assert_close(torch.from_numpy(outputs), expected, atol=1e-5, rtol=1e-5)
    assert_one_line_and_code_2(run("export", "a", "--to", "onnx", "--out", "a/run.json/x.onnx"), "run.json")
