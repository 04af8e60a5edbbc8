"""SHA-256 checksums: of the files of a folder, and of a record in itself."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from .._files import require_regular
from ..errors import DataError

FIELD = "sha256"
PAGE_MARK = "<!-- sha256 "  # begins the last line of a report


def sha256(content: bytes) -> str:
    """The SHA-256 of bytes, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each of these files that the folder has, by name."""
    return {name: sha256((folder / name).read_bytes()) for name in names if (folder / name).is_file()}


def read_checked(folder: Path, name: str, expected: Mapping[str, str]) -> bytes:
    """The content of a file of a run, or an error if it is not what the run's record says."""
    path = folder / name
    try:
        require_regular(path)
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}. Run it again, or restore the file.") from error
    if expected.get(name) != sha256(content):
        raise DataError(
            f"'{path}' is damaged or of another run: its SHA-256 is not that in run.json. Restore the file, or run it "
            "again; an interrupted run continues with --resume."
        )
    return content


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a JSON file with its own checksum in the field "sha256"."""
    return {**content, FIELD: _of_content(content)}


def check_seal(content: Mapping[str, Any], file: Path) -> None:
    """Raise `DataError` if the content of a JSON file does not have the checksum that it states."""
    if content.get(FIELD) != _of_content(content):
        raise DataError(f"'{file}' is damaged: its SHA-256 is not the one that it states. Restore the file.")


def read_sealed(path: Path) -> dict[str, Any]:
    """The content of a JSON file that states its own checksum; raise `DataError` if it is not what was written."""
    try:
        require_regular(path)
        content = dict(json.loads(path.read_bytes()))
        check_seal(content, path)
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from error
    except DataError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"'{path}' is damaged: it is no JSON of a record. Restore the file.") from error
    return content


def sealed_page(text: str, record: Mapping[str, Any]) -> str:
    """An HTML page with a last line, a comment, that states its own checksum and that of the record it was drawn from.

    Arguments:
        record: The fields of the record; the checksums of other files do not count.
    """
    return f"{text}{PAGE_MARK}{sha256(text.encode())} of {_of_record(record)} -->\n"


def page_state(content: bytes, record: Mapping[str, Any] | None) -> Literal["ok", "damaged", "of another run"]:
    """Whether a page has the checksums that its last line states; without a record only its own is compared."""
    text, _, rest = content.rpartition(PAGE_MARK.encode())
    stated = re.fullmatch(rb"([0-9a-f]{64}) of ([0-9a-f]{64}) -->\n", rest)
    if stated is None or stated[1].decode() != sha256(text):
        return "damaged"
    return "ok" if record is None or stated[2].decode() == _of_record(record) else "of another run"


def _of_record(record: Mapping[str, Any]) -> str:
    """The checksum of the fields of a record, without what only its file has."""
    fields = {name: value for name, value in record.items() if name not in ("format", "version", "files")}
    return _of_content(json.loads(json.dumps(fields)))


def _of_content(content: Mapping[str, Any]) -> str:
    """The SHA-256 of the content without its checksum, in a form that does not depend on spaces or order."""
    plain = {name: value for name, value in content.items() if name != FIELD}
    return sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())
