"""Settings of the documentation; `make docs` builds it into site/."""

import os
import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the examples are small: more threads only wait for each other

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "src")]

import covary  # noqa: E402

project = "covary"
author = "The covary developers"
copyright = author
release = version = covary.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "reference",
    "scripts",
]
exclude_patterns = [
    "_build",
    "**/GALLERY_HEADER.rst",
    "**/*.ipynb",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

html_theme = "furo"
html_title = "covary"
html_static_path = ["_static"]
html_css_files = ["covary.css"]
html_extra_path = ["../llms.txt"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# methods that scikit-learn adds to estimators, whose text refers to its own pages
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Examples of other libraries are executed where the library is installed, and shown without output elsewhere.
LIBRARIES = {"lightning_callback": "lightning", "huggingface_trainer": "transformers", "accelerate_loop": "accelerate"}
MISSING = [example for example, library in LIBRARIES.items() if find_spec(library) is None]

warnings.filterwarnings("ignore", message=".*non-interactive.*")
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorials", "../examples/guides"],
    "gallery_dirs": ["tutorials", "examples"],
    "filename_pattern": "^" + "".join(rf"(?!.*{example}\.py$)" for example in MISSING) + r".*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "copyfile_regex": r".*\.(png|toml)",
    "image_scrapers": ("matplotlib",),
    "capture_repr": (),
    "matplotlib_animations": False,
    "min_reported_time": 5,
    "plot_gallery": "True",
}


# What bars keep their meaning in: formulas, literals, formulas of their own, examples.
PROTECTED = re.compile(r"(:math:`[^`]*`|``[^`]*``|`[^`]*`|\.\. math::[^\n]*(?:\n(?: [^\n]*)?)*|(?:>>>|\.\.\. )[^\n]*)")


def _escape_bars(app: object, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Escape |G| and the like in docstrings, outside formulas and literals: reStructuredText would substitute them."""
    pieces = PROTECTED.split("\n".join(lines))
    lines[:] = "".join(p if i % 2 else p.replace("|", r"\|") for i, p in enumerate(pieces)).split("\n")


def _clear_aliases(app: object, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Leave out what Python says of the fields of a named tuple; its class describes them."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def setup(app: object) -> None:
    """Connect what the settings above cannot say."""
    app.connect("autodoc-process-docstring", _clear_aliases)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", _escape_bars)  # type: ignore[attr-defined]
