"""The page in a browser, as wide as a desk's screen and a phone's: all there, nothing overlaps, nothing sticks out.

Each page is shown unchanged in a frame, and a script of the frame's parent measures it; the page's own policy, which
forbids scripts, stays in force.
"""

import base64
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from report.runs import page_of

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium, chromium-browser or google-chrome")

QUIET = ("background-networking", "component-update", "sync", "quic", "gpu", "dev-shm-usage")
FLAGS = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{part}" for part in QUIET)]
VIEW = ["--window-size=1400,1000", "--virtual-time-budget=10000"]
WIDTHS = (1280, 390)
PAGES = ["full", "bare", "one symmetry", "one epoch", "nothing evaluated", "eight symmetries", "hostile", "layers"]
SECTIONS = {"learned", "moved", "time", "looks", "evidence", "test", "coverage", "notes", "settings"}
FIGURES = {"widths", "correlation", "architecture", "trajectories", "precisions", "pictures", "flow", "evidence"}
SCRIPT = "<script>document.title = 'a script ran'</script></body>"


def in_browser(pages: dict[str, str], folder: Path) -> dict[str, dict]:
    """Measurements of each page at each width, by "name width"."""
    frame = '<iframe name="{0} {1}" style="border:0;width:{1}px;height:900px" srcdoc="{2}"></iframe>'
    frames = "".join(frame.format(name, width, html.escape(text)) for name, text in pages.items() for width in WIDTHS)
    script = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")
    gather = """onload = () => {
        const frames = [...document.querySelectorAll("iframe")];
        const found = Object.fromEntries(frames.map((frame) => [frame.name, measure(frame.contentDocument)]));
        document.body.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
    };"""
    wrapper = folder / "wrapper.html"
    wrapper.write_text(f"<!DOCTYPE html><meta charset=utf-8><script>{script}\n{gather}</script><body>{frames}", "utf-8")
    command = [BROWSER, *FLAGS, *VIEW, f"--user-data-dir={folder / 'profile'}", "--dump-dom", wrapper.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r"<body>([A-Za-z0-9+/=]+)", done.stdout)
    assert found, done.stderr[-2000:]
    return json.loads(base64.b64decode(found.group(1)))


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict[str, dict]:
    return in_browser({name: page_of(name) for name in PAGES}, tmp_path_factory.mktemp("browser"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_overlaps_and_nothing_sticks_out(measured, name, width):
    assert measured[f"{name} {width}"]["width"] == width
    assert measured[f"{name} {width}"]["problems"] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_section_and_figure_has_a_size(measured, width):
    sizes = measured[f"full {width}"]["sizes"]
    figures = {f"figure-{name}" for name in FIGURES}
    assert set(sizes) == SECTIONS | figures | {f"svg of {figure}" for figure in figures}
    assert all(size[0] > 250 and size[1] > 40 for size in sizes.values())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_of_layers_shows_its_architecture(measured, width):
    sizes = measured[f"layers {width}"]["sizes"]
    assert min(sizes["svg of figure-architecture"]) > 250
    assert {"figure-widths", "figure-pictures"}.isdisjoint(sizes)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_text_of_figures_can_be_read(measured, width):
    assert measured[f"full {width}"]["smallest"] > 8.5


# What is put behind the first such tag, and what the checker must say of it.
BREAKS = {
    "hint": ("</h1>", "<style>.scroll { width: 99px } .scroll::before { display: none }</style>", "hint: absent"),
    "box": ("</h1>", "<div style='position:absolute;top:0;left:20px;width:200px;height:400px'>x</div>", "overlap: "),
    "table": ("</h1>", "<table style='width:1500px'><tr><td>x</td></tr></table>", "wide: <table"),
    "side": ("</h1>", "<p style='margin-left:-200px'>x</p>", "wide: <p"),
    "text": ("</text>", "<text x='1' y='20'>aaaaaaa</text><text x='4' y='22'>bbbbbb</text>", "text in figure-"),
    "label": ("</text>", "<text x='240' y='20'>a label that is too long</text>", "text leaves figure-"),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> dict[str, dict]:
    good = page_of("one symmetry")
    pages = {name: good.replace(tag, tag + added, 1) for name, (tag, added, _) in BREAKS.items()}
    scripted = good.replace("</body>", SCRIPT)
    pages["policy"] = scripted
    pages["no policy"] = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", scripted)
    return in_browser(pages, tmp_path_factory.mktemp("broken"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_page_is_found_out(broken, name, width):
    expected = BREAKS[name][2]
    assert any(problem.startswith(expected) for problem in broken[f"{name} {width}"]["problems"])


def test_the_policy_stops_a_script_that_would_run_without_it(broken):
    assert broken["policy 1280"]["title"] != "a script ran"
    assert broken["no policy 1280"]["title"] == "a script ran"
