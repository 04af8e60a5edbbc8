"""`covary export`: what was learned, in the form that another program reads."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from .._files import require_named_writable, write_named
from .._lock import locked
from ..errors import CovaryError
from ..records import Epoch, read_run
from .saved import OwnNetwork, Run, TrustCode, run_folder
from .terminal import echo

Target = Literal["kornia", "torchvision", "albumentations", "ultralytics", "nnunet", "timm", "onnx", "torch", "hub"]
DEFAULTS = {"onnx": "model.onnx", "torch": "model.pt2", "hub": "hub"}  # below the folder of the run
RECORD = "run.json"


def export(
    run: Run,
    to: Annotated[Target, typer.Option(help=f"The program: {', '.join(get_args(Target))}.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The file or folder; by default standard output, RUN/model.onnx, RUN/model.pt2 or RUN/hub."),
    ] = None,
    num_samples: Annotated[
        int | None, typer.Option(help="Augmentation samples of onnx and torch; by default as in training.", min=1)
    ] = None,
    network: OwnNetwork = None,
    trust_code: TrustCode = False,
    sure: Annotated[
        bool, typer.Option("--sure", help="Leave out ranges that are negligible, unsettled or may be 0.")
    ] = False,
) -> None:
    """Write what was learned in the form that another program reads.

    kornia, torchvision (v2) and albumentations: the ranges as Python code. ultralytics: YAML. nnunet: a trainer with
    mirror axes. timm: arguments. Comments say how well each range is known, and what the target cannot express;
    `--sure` leaves out what is negligible, has not settled, has no 90 % interval above 0, or has a verdict other than
    yes. onnx and torch: the averaged network with
    fixed augmentation samples, as an ONNX file that onnxruntime has checked, or a program of torch.export. hub: a
    folder with safetensors, config.json and a model card, to upload to the Hugging Face Hub.

    Examples: `covary export runs/latest --to kornia`, `covary export runs/latest --to ultralytics --out augment.yaml`,
    `covary export runs/latest --to onnx --num-samples 16`.
    """
    from ..experiments import exported_text, run_to_export

    if to not in DEFAULTS:
        if out is not None:
            require_named_writable(out)
        text = exported_text(run, to, sure=sure)
        if out is None:
            echo(text, nl=False)
        else:
            write_named(out, text.encode())
            echo(f"The ranges for {to} are in {out}.")
        return
    if sure:
        raise CovaryError(f"--sure is for ranges as text: {to} has the network, with all of its augmentation.")
    if to == "hub" and num_samples is not None:
        raise CovaryError("--num-samples is for onnx and torch: a run in a folder for the hub has those of training.")
    place = out or run_folder(run) / DEFAULTS[to]
    if out is None and place.is_symlink():  # of a run of somebody else, it may lead anywhere
        raise CovaryError(f"'{place}' is a link. Name the file or folder to write with --out.")
    if to != "hub":
        require_named_writable(place)  # before the work
    _write_network(to, run_to_export(run, network, trust_code, num_samples), place, num_samples)


def _write_network(to: str, run: object, place: Path, num_samples: int | None) -> None:
    """Write the network of a loaded run, and say where it is."""
    from ..training import Run as LoadedRun
    from ..training import export_program

    assert isinstance(run, LoadedRun)
    if to == "onnx":
        from ..integrations.onnx import export_onnx

        export_onnx(run, place, num_samples=num_samples)
        echo(f"The network is in {place}: input x, output outputs, checked with onnxruntime.")
    elif to == "torch":
        export_program(run, place, num_samples=num_samples)
        echo(f"The network is in {place}: torch.export.load reads it.")
    else:
        from ..integrations.hub import save_for_hub

        with locked(place):
            _require_no_other_run(place, run.record.history)
            save_for_hub(run, place)
        echo(f"The folder for the hub is {place}: upload it with `hf upload USER/NAME {place}`.")


def _require_no_other_run(folder: Path, history: list[Epoch]) -> None:
    """Raise `CovaryError` if a folder has a run, unless that is an earlier export of the run with this history."""
    exported = (folder / "config.json").is_file() and (folder / RECORD).is_file()
    if exported and read_run(folder).history == history:
        return
    if any((folder / name).exists() for name in (RECORD, "study.json", "checkpoints")):
        raise CovaryError(f"'{folder}' has a run that is not an export of this one. Name another folder with --out.")
