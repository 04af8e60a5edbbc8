"""`covary data`: which data sets are there?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data import fetch, listing
from ..errors import DataError
from .app import app
from .output import Json, echo_json, print_rows, progress


@app.command()
def data(
    data_dir: Annotated[Path | None, typer.Option(help="Where to look first for data sets.")] = None,
    download: Annotated[str | None, typer.Option("--fetch", help="Download a data set first, by its name.")] = None,
    verify: Annotated[bool, typer.Option(help="Compare the files with their checksums.")] = False,
    as_json: Json = False,
) -> None:
    """List the data sets, and where they were found; with `--verify`, a file that is another ends it with code 2.

    Examples: `covary data`, `covary data --data-dir ~/data --verify`, `covary data --fetch mnist`.
    """
    if download is not None:
        with progress(f"fetch {download}") as report:
            fetch(download, data_dir, report)
    rows = [row._asdict() for row in listing(data_dir, verify)]
    if as_json:
        echo_json(rows)
    else:
        print_rows([_shown(row) for row in rows])
    if wrong := [row["name"] for row in rows if row["verified"] is False]:
        raise DataError(
            f"The files of {', '.join(wrong)} are not the published ones; the list says which. Fetch them again with "
            "--fetch; those of mnist-mini come with the package."
        )


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the list: a problem before a folder, for it is what the reader must know."""
    checked = {} if row["verified"] is None else {"verified": "yes" if row["verified"] else "no"}
    where = row["problem"] or row["path"]
    return {"name": row["name"], "train": row["num_train"], "test": row["num_test"], **checked, "where": where}
