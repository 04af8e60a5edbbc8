"""Figures of `covary reproduce reparametrization` and `covary geometry`, drawn from their numbers alone."""

from covary.experiments.geometry_figure import geometry_figure, geometry_table
from covary.records import Study
from covary.report.svg import svg
from covary.reproduce.paper3.figures import reparametrization_figure
from report.drawn import texts


def study() -> Study:
    minimum = {"naive": 3.0, "own": 4.0, "error": 0.1, "accuracy": 0.9}
    series = {
        "paths": {"axis": [0.5, 1.0, 2.0], "loss": [[3, 2, 3], [2, 1, 2], [3, 2, 3]]}
        | {name: [[2.0, 2.0], [1.0, 1.0]] for name in ("cartesian", "naive", "aware")},
        "modes": {"axis": [1.0, 2.0, 3.0], "modes": {"cartesian": 2.0, "naive": 3.0, "aware": 2.0}}
        | {name: [0.1, 0.3, 0.1] for name in ("cartesian", "naive", "aware")},
        "determinants": {"factor": [0.5, 1.0, 2.0], "naive": [8.0, 1.0, 0.1], "aware": [1.0, 1.0, 1.0]},
        "evidences": {
            "Cartesian": {"naive": [-10.0, -11.0], "proper": [-10.0, -11.0]},
            "WeightNorm": {"naive": [-12.0, -13.0], "proper": None},
            "polar": {"naive": [-20.0, -21.0], "proper": [-10.0, -11.0]},
        },
        "minima": {"mnist, SGD": [minimum], "mnist, Adam": [minimum | {"own": -4000.0}]},
        "priors": {"axis": [-1.0, 0.0, 1.0], "carried": [0.1, 1.6, 0.1], "chosen": [0.2, 0.8, 0.2]},
        "kernels": {"widths": [16, 64], "limit": 18.0, "ntk": [19.0, 18.5], "standard": [100.0, 400.0]},
    }
    rows = [
        {"part": "Table 3", "case": case, "quantity": "trace / N", "naive": naive, "metric-aware": 2.0}
        for case, naive in (("θ", 2.0), ("ψ = 0.5 θ", 8.0))
    ]
    return Study("reparametrization", "smoke", "t", {}, {}, rows, series, [], 1.0)


def measured() -> Study:
    numbers = {"trace": 1145.0, "trace ±": 60.0, "eigenvalue": 164.1, "eigenvalue ±": 0.1}
    evidence = {"log evidence": -396.2, "log evidence ±": 2.0}
    places = [(chart, kind) for chart in ("Cartesian", "polar") for kind in ("naive", "metric-aware")]
    rows = [{"chart": chart, "kind": kind} | numbers | evidence for chart, kind in places]
    rows[2] |= {"log evidence": 749470.1}
    eigenvalues = {f"{chart}, {kind}": {"value": [3.0, 2.0], "error": [0.1, 0.1]} for chart, kind in places}
    return Study("geometry", "run", "a run", {}, {}, rows, {"eigenvalues": eigenvalues}, [], 1.0)


def test_naive_and_aware_panels_share_their_scale():
    panels = {panel.get_title(loc="left"): panel for panel in reparametrization_figure(study()).axes}
    assert len(panels) == 12
    for first, second in (("determinants, naive", "determinants, metric-aware"),
                          ("log evidence, naive", "log evidence, proper")):  # fmt: skip
        assert panels[first].get_ylim() == panels[second].get_ylim()
    naive, proper = (panels[f"log evidence, {kind}"] for kind in ("naive", "proper"))
    assert [list(line.get_ydata()) for line in naive.lines] == [[-10, -12, -20], [-11, -13, -21]]
    assert [list(line.get_ydata()) for line in proper.lines] == [[-10, -10], [-11, -11]]


def test_no_label_needs_typesetting():
    for figure in (reparametrization_figure(study()), geometry_figure(measured())):
        assert not [text for text in texts(figure) if "$" in text]


def test_the_geometry_of_a_run_shows_its_numbers():
    assert {"1145", "-396.2", "7.4947e+05"} <= set(texts(geometry_figure(measured())))
    table = geometry_table(measured())
    assert [list(column.cells)[2].plain for column in table.columns] == [
        *("polar", "naive", "1,145 ± 60", "164.10 ± 0.10", "749,470.1 ± 2.0")
    ]


def test_the_same_record_gives_the_same_picture():
    assert svg(reparametrization_figure(study())) == svg(reparametrization_figure(study()))
    assert svg(geometry_figure(measured())) == svg(geometry_figure(measured()))
