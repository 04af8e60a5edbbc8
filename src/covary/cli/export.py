"""`covary export`: what was learned, in the form that another program reads."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from .._files import require_named_writable, write_named
from .saved import Run
from .terminal import echo

Target = Literal["kornia", "torchvision", "albumentations", "ultralytics", "nnunet", "timm"]


def export(
    run: Run,
    to: Annotated[Target, typer.Option(help=f"The program: {', '.join(get_args(Target))}.")],
    out: Annotated[Path | None, typer.Option(help="The file; by default standard output.")] = None,
) -> None:
    """Write the learned ranges as code or settings of another library.

    Python code of kornia, torchvision (v2) or albumentations, YAML of Ultralytics, a trainer of nnU-Net with mirror
    axes, or arguments of timm. Comments say what the target cannot express.

    Examples: `covary export runs/latest --to kornia`, `covary export runs/latest --to ultralytics --out augment.yaml`.
    """
    from ..experiments import exported_text

    if out is not None:
        require_named_writable(out)
    text = exported_text(run, to)
    if out is None:
        echo(text, nl=False)
    else:
        write_named(out, text.encode())
        echo(f"The ranges for {to} are in {out}.")
