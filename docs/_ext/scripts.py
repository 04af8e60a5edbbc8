"""Links to scripts and folders of `examples/`, which work in a clone, lead to the pages made of them in the site.

Sphinx itself is not imported: tests run `to_pages` without it.
"""

import re
from typing import Any

# A link whose text is the name of the file, in backticks, leads to the file.
LINK = re.compile(r"(?<!`)\]\((?:\.\./)+examples/(tutorials|guides)(?:/(\w+)\.py)?\)")
PAGES = {"tutorials": "tutorials", "guides": "examples"}


def to_pages(text: str) -> str:
    """The text of a page with its links to scripts as links to their pages."""
    return LINK.sub(lambda link: f"](/{PAGES[link[1]]}/{link[2] or 'index'}.rst)", text)


def _rewrite(app: Any, name: str, source: list[str]) -> None:
    del app, name
    source[0] = to_pages(source[0])


def setup(app: Any) -> dict[str, Any]:
    """Rewrite each page as it is read."""
    app.connect("source-read", _rewrite)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
