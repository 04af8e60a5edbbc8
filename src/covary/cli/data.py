"""`covary data`: the data sets, and where they were found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import DataError
from .output import Json, echo_json, print_rows, progress


def data(
    data_dir: Annotated[Path | None, typer.Option(help="The folder that is searched first for data sets.")] = None,
    download: Annotated[str | None, typer.Option("--fetch", help="Download this data set first.")] = None,
    verify: Annotated[bool, typer.Option(help="Compare the files with their checksums.")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets and where they were found; with `--verify`, a file with a wrong checksum gives exit code 2.

    Examples: `covary data`, `covary data --data-dir ~/data --verify`, `covary data --fetch mnist`.
    """
    from ..data import fetch, listing

    if download is not None:
        with progress(f"fetch {download}") as told:
            fetch(download, data_dir, told)
    rows = [row._asdict() for row in listing(data_dir, verify)]
    if as_json:
        echo_json(rows)
    else:
        print_rows([_shown(row) for row in rows])
    if wrong := [row["name"] for row in rows if row["verified"] is False]:
        raise DataError(
            f"The files of {', '.join(wrong)} are not the published ones; see the list. Download them again with "
            "--fetch; those of mnist-mini are part of the package."
        )


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the list: the problem, or else the folder."""
    checked = {} if row["verified"] is None else {"verified": "yes" if row["verified"] else "no"}
    where = row["problem"] or row["path"]
    return {"name": row["name"], "train": row["num_train"], "test": row["num_test"], **checked, "where": where}
