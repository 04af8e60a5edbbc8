"""The page: whole, inert, and honest about what is missing."""

import dataclasses
from dataclasses import asdict
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from covary.records import read_run, write_run
from covary.records.checksums import sealed_page
from covary.report import page, summary, write_page
from report.runs import HOSTILE, full_run, page_of

SECTIONS = ["learned", "moved", "time", "looks", "evidence", "test", "coverage", "notes", "settings"]
FIGURES = ["widths", "correlation", "architecture", "trajectories", "precisions", "pictures", "flow", "evidence"]
# One run for each branch of the template.
PAGES = [
    *("full", "bare", "no history", "no samples", "no matrices", "no test", "regression", "no evidence", "hostile"),
    *("layers", "plain layers"),
]
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Outline(HTMLParser):
    """Tags with their attributes, text outside of styles, and whether every tag was closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data

    def identifiers(self, tag: str) -> list[str]:
        return [attributes["id"] for name, attributes in self.tags if name == tag and "id" in attributes]


@cache
def outline(name: str) -> Outline:
    return Outline(page_of(name))


@pytest.mark.parametrize("name", PAGES)
def test_every_run_has_every_section(name):
    assert outline(name).identifiers("section") == SECTIONS
    assert outline(name).open == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_runs_and_nothing_is_fetched(name):
    tags = outline(name).tags
    assert not {tag for tag, _ in tags} & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in tags:
        assert not [key for key in attributes if key.startswith("on")]
        addresses = [attributes.get(key) or "#" for key in ("src", "href", "xlink:href")]
        assert all(address.startswith(("#", "data:image/png;base64")) for address in addresses)
    policy = next(a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert "@import" not in page_of(name)
    assert "url(http" not in page_of(name)


def test_figures_have_a_description_and_headings_an_order():
    tags = outline("full").tags
    assert outline("full").identifiers("figure") == [f"figure-{name}" for name in FIGURES]
    labels = [attributes.get("aria-label") for _, attributes in tags if attributes.get("role") == "img"]
    assert len(labels) == len(FIGURES)
    assert all(label and len(label) > 20 for label in labels)
    levels = [int(tag[1]) for tag, _ in tags if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert ("html", {"lang": "en"}) in tags


@pytest.mark.parametrize("name", PAGES)
def test_no_identifier_stands_twice(name):
    found = [attributes["id"] for _, attributes in outline(name).tags if "id" in attributes]
    assert len(found) == len(set(found))


def test_the_numbers_are_there():
    text = outline("full").text
    assert summary(full_run()) in text
    for part in ("±87°", "90.96 % ★", "0.2910 ★", "-1,550.0", "-0.3100", "1000 × 784", "mnist-mini", "0.005"):
        assert part in text, part
    assert (
        "Each prediction averages over 16 augmentation samples; without an augmentation it is that of the datum itself"
        in text
    )
    assert "counts as negligible when it moves the points of an image by less than half a pixel" in text
    assert text.count("★") == 4, "three best figures and their explanation"


def test_the_time_is_divided_and_compared_with_plain_training():
    text = "".join(outline("full").text.split())
    for part in ("weightsteps41.2s32%", "hyperstepsontheevidence60.0s47%", "errorbars12.3s10%", "therest13.8s11%"):
        assert part in text, part
    text = outline("full").text
    assert "Plain training of the same network, without the augmentation, took 61.0 s: learning it took 2.1 ×" in text
    bare = outline("bare").text
    assert "does not say what the time was spent on" in bare
    assert "--baselines plain" not in bare, "a run without transforms has no such baseline"
    alone = dataclasses.replace(full_run(), baselines=[])
    assert "run it with --baselines plain" in Outline(page(alone)).text


def test_each_verdict_has_its_nats_and_their_error():
    text = "".join(outline("full").text.split())
    assert "rotationyes+412.3±35.1+412.3±35.1+6.2±4.4" in text
    assert "shearundecided-1.2±2.0+1.2±2.0+800.5±60.3" in text
    assert "Rotation: yes. With rotation by up to ±87°, the labels are 412 ± 35 nats more" in outline("full").text
    assert "Verdicts" not in outline("bare").text


def test_the_reason_why_widths_have_no_error_bar_is_given_once():
    """Earlier in the cell of each row, which made rows 200 pixels tall on a phone."""
    reason = "the weights have not converged"
    withheld = [dataclasses.replace(each, interval=None, no_error=reason) for each in full_run().symmetries]
    text = Outline(page(dataclasses.replace(full_run(), symmetries=withheld))).text
    assert text.count(reason) == 1
    assert f"No error bars: {reason}." in text
    assert "90 % interval" not in text
    some = [full_run().symmetries[2], *withheld[3:]]
    text = Outline(page(dataclasses.replace(full_run(), symmetries=some))).text
    assert text.count(reason) == 1
    assert f"No error bar of horizontal scale, vertical scale, shear: {reason}." in text
    assert "90 % interval" in text


def test_a_run_without_transforms_does_not_speak_of_widths():
    text = outline("layers").text
    assert outline("layers").identifiers("figure") == ["figure-architecture", "figure-precisions", "figure-evidence"]
    for word in ("width", "augmentation samples", "The labels ignore"):
        assert word not in text, word
    assert "layers 1 to 2 became mostly convolutional over the group" in text.lower()


def test_each_path_has_a_row_and_off_paths_say_so():
    text = outline("full").text
    assert text.count("(inactive)") == 2
    for part in ("layer 4", "93.00 %", "20,480", "2.1e6–3.6e6", "1.2e-06", "42,400 of 83,360", "network.blocks.0.f-fc"):
        assert part in text, part
    assert "its test accuracy from 90.96 % to 90.91 %" in text


def test_unequal_test_samples_are_said_to_be_unfair():
    fixed = full_run().baselines[1]
    other = dataclasses.replace(fixed, test=dataclasses.replace(fixed.test, num_samples=8))
    assert "the comparison is not fair" in page(dataclasses.replace(full_run(), baselines=[other]))
    same = page(dataclasses.replace(full_run(), baselines=[fixed]))
    assert "averages over 16 augmentation samples, the same number for all." in same


def test_a_network_without_transforms_is_compared_fairly_with_any_number_of_samples():
    assert [(other.symmetries, other.test.num_samples) for other in full_run().baselines[:1]] == [([], 1)]
    assert "the comparison is not fair" not in page_of("full")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no history", "The run recorded no epochs"),
        ("no samples", "The record has no images"),
        ("no matrices", "The flow is drawn only if all transforms are affine"),
        ("no test", "The run has no test data."),
        ("regression", "No baselines were run"),
        ("no evidence", "The run computed no evidence"),
        ("bare", "This run is incomplete."),
        ("bare", "No notes."),
        ("layers", "The run learned no augmentation."),
        ("layers", "Each prediction is that of the datum itself."),
    ],
)
def test_what_is_absent_is_said(name, expected):
    assert expected in outline(name).text
    assert expected not in outline("full").text


def test_an_incomplete_run_says_what_it_lacks_and_how_to_complete_it():
    """All its epochs may be there: a record is saved once the network is trained."""
    text = outline("bare").text
    assert "stopped before all of its baselines were. The same command with --resume trains them." in text


def test_the_distance_from_the_mode_is_given_with_its_scale():
    run = full_run()
    far = dataclasses.replace(run, evidence=dataclasses.replace(run.evidence, mode_distance=1.53))
    words = "squared distance of the outputs from those at the mode is 1.5 × that of a sample from the posterior"
    assert words in Outline(page(far)).text


@pytest.mark.parametrize(("seconds", "words"), [(42.04, "42.0 s"), (141, "2 min 21 s"), (6000, "1 h 40 min")])
def test_times_of_minutes_have_their_seconds(seconds, words):
    """The parts of a run of four minutes add up to it."""
    assert words in Outline(page(dataclasses.replace(full_run(), seconds=float(seconds)))).text


def test_hostile_text_is_shown_and_does_nothing():
    assert HOSTILE in outline("hostile").text
    assert "<script" not in page_of("hostile")
    assert "&lt;script&gt;alert(1)" in page_of("hostile")


def test_the_file_is_drawn_from_the_record_alone(tmp_path):
    write_run(full_run(), tmp_path / "run.json")
    write_page(read_run(tmp_path), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == sealed_page(page_of("full"), asdict(full_run()))
