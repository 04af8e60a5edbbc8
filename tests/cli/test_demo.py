"""`make demo` as the Makefile has it, with fewer images and epochs."""

import re
import shlex
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
FEWER = (
    "--limit",
    "60",
    "--epochs",
    "3",
    "--burn-in",
    "1",
)  # of two options of one name the last counts


@pytest.mark.slow
def test_the_demo_leaves_a_report_about_rotation(run, tmp_path):
    (command,) = re.findall(r"^demo:.*\n\t\$\(BIN\)/covary (.*) \$\(ARGS\)$", MAKEFILE.read_text(), re.MULTILINE)
    code, out, err = run(*shlex.split(command), *FEWER)
    assert (code, err) == (0, "")
    assert "rotation" in out
    assert "plain" in out
    assert "The report lies in runs/demo/report.html." in out
    assert "rotation" in (tmp_path / "runs" / "demo" / "report.html").read_text()
