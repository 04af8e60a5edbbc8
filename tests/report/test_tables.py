"""Tables for the terminal: every number, and text never read as markup."""

import dataclasses
import io

import pytest
from rich.console import Console

from covary.records import Metrics, PredictedNoise, RunRecord
from covary.records.tables import layer_rows, run_text, verdict_rows
from covary.records.words import plain_name
from covary.report.tables import (
    comparability,
    comparison_table,
    evidence_table,
    metrics_table,
    pruning_table,
    symmetries_table,
    table,
)
from report.runs import SPARSE, evidence, full_run, layers_run


def printed(renderable, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    return console.file.getvalue()


def test_symmetries():
    line = next(line for line in printed(symmetries_table(full_run())).splitlines() if "rotation" in line)
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "rotation",
        "1.52 ± 0.04",
        "±87°",
        "settled",
        "1.57",
    ]
    assert run_text(full_run()).count("negligible") == 4


def test_names_and_states_are_whole_on_a_terminal_of_80_characters():
    text = printed(symmetries_table(full_run()), 80)
    assert max(map(len, text.splitlines())) <= 80
    for symmetry in full_run().symmetries:
        assert text.count(f"│ {plain_name(symmetry.name)} ") == 1
    assert text.count(" settled ") == len(full_run().symmetries)
    assert " 1.52 ± 0.04 " in text
    assert " 1.57 " in text, "the true width, in the last column"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_layers_have_a_row_per_path_and_mark_the_learned_one():
    text = printed(table(*layer_rows(full_run())))
    lines = [cells(line) for line in text.splitlines() if "conv" in line or "f-fc" in line]
    assert lines[0] == ["layer 1", "f-fc (inactive)", "0.01", "1.6", "20,480", "2.1e6–3.6e6", "1e-05", "1.2e-06"]
    assert lines[1] == ["", "conv ◀", "99.99", "288.0", "360", "0.075–14", "11", ""]
    assert [line[1] for line in lines] == [*["f-fc (inactive)", "conv ◀"] * 2, "f-fc", "conv ◀", "f-fc ◀", "conv"]
    assert "turn error" not in printed(table(*layer_rows(full_run()))), "there is no group"
    assert "turn error" in printed(table(*layer_rows(layers_run())))


def test_pruning_is_before_and_after():
    text = printed(pruning_table(full_run()))
    rows = {row[0]: row[1:] for row in map(cells, text.splitlines()) if len(row) == 3}
    assert rows["parameters"] == ["83,360", "42,400"]
    assert rows["log evidence per datum"] == ["-1.5100", "-1.5000"]
    assert rows["test accuracy %"] == ["90.96", "90.91"]
    assert rows["removed paths"][1] == "network.blocks.0.f-fc, network.blocks.1.f-fc"


def test_the_text_of_a_run_has_the_tables_it_has_numbers_for():
    assert "transform" in run_text(full_run())
    assert "f-fc (inactive)" in run_text(full_run())
    assert "transform" not in run_text(layers_run())
    assert "log evidence" in run_text(full_run())
    assert "test: accuracy" in run_text(full_run())
    nothing = RunRecord("a regression")
    assert run_text(nothing) == "0 epochs, without an evidence, transforms or test data", "no table without rows"
    noisy = dataclasses.replace(
        nothing, likelihood={"sigma_noise": 0.25}, test=Metrics(None, 1.5, None, 9, 1, rmse=0.5)
    )
    assert "noise of the targets: standard deviation 0.25" in run_text(noisy)
    assert "test: root mean squared error 0.5, negative log-likelihood 1.5000 per datum (9 data)" in run_text(noisy)
    assert "temperature" not in run_text(dataclasses.replace(nothing, likelihood={"temperature": 1.0}))
    assert "temperature 2.5" in run_text(dataclasses.replace(nothing, likelihood={"temperature": 2.5}))


def test_evidence_is_per_datum_and_in_total():
    text = printed(evidence_table(full_run()))
    assert "-0.3100" in text
    assert "-1,550.0" in text
    assert f"{full_run().evidence.log_evidence:,.1f}" in text


def test_metrics_have_a_row_per_network():
    text = printed(metrics_table(full_run()))
    assert all(f"{name} " in text for name in ("learned", "plain", "fixed", "augerino"))
    assert "90.96" in text


def test_verdicts_fit_eighty_columns():
    text = printed(table(*verdict_rows(full_run())), 80)
    assert max(map(len, text.splitlines())) <= 80
    for word in ("rotation", "undecided", "+412.3 ± 35.1", "+800.5 ± 60.3"):
        assert word in text, word


def test_metrics_of_many_networks_fit_eighty_columns():
    run = full_run()
    long = dataclasses.replace(run.baselines[0], name="trivialaugment, equal time", epochs=120)
    text = printed(metrics_table(dataclasses.replace(run, baselines=[*run.baselines, long])), 80)
    assert max(map(len, text.splitlines())) <= 80
    for word in (
        "accuracy",
        "samples",
        "seconds",
        "epochs",
        "trivialaugment,",
        "augerino",
        "0.2910",
        "2,000 test data",
    ):
        assert word in text, word


def test_comparison_warns_before_it_ranks():
    runs = [full_run(), dataclasses.replace(full_run(), title="few", evidence=evidence(-0.3, 10))]
    text = printed(comparison_table(runs))
    said = (
        "The runs are of different numbers of data (10, 5000): their evidences cannot be compared and are not ranked."
    )
    assert text.startswith(said)
    assert "cannot be compared" not in printed(comparison_table([full_run(), full_run()]))


def test_data_are_compared_by_their_checksum_where_all_runs_have_one():
    def difference(*configs: dict) -> str:
        found = comparability(
            [dataclasses.replace(full_run(), config=full_run().config | config) for config in configs]
        )
        return " ".join(found)

    photos, slash = {"data": "photos", "num_train": None}, {"data": "photos/", "num_train": 12}
    assert difference(photos | {"data_sha256": "aa"}, slash | {"data_sha256": "aa"}) == ""
    assert difference(photos, photos | {"data": "photos/"}) == ""
    assert "by the setting num_train" in difference(photos, slash | {"data_sha256": "aa"})
    assert "by their SHA-256 ('aa', 'bb')" in difference(photos | {"data_sha256": "aa"}, photos | {"data_sha256": "bb"})
    other = photos | {"data": "other", "data_sha256": "bb"}
    assert "by the setting data ('other', 'photos')" in difference(photos | {"data_sha256": "aa"}, other)
    exact = photos | {"data_sha256": "bb", "dtype": "float64"}
    assert difference(photos | {"data_sha256": "aa"}, exact) == "", "the same data in other numbers"


def test_a_comparison_fits_eighty_columns_with_whole_numbers():
    titles = [f"runs/{name}: mnist-mini: 5,000 images, mlp" for name in ("affine", "a-folder-with-a-very-long-name")]
    runs = [dataclasses.replace(full_run(), title=title) for title in titles]
    text = printed(comparison_table(runs), width=80)
    assert max(map(len, text.splitlines())) <= 80
    for number in ("-7,550.0", "-1,550.0", "-815,500.0", "809,500.0", "90.96", "log Bayes factor"):
        assert number in text, number


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("draw", [symmetries_table, evidence_table, metrics_table, pruning_table])
def test_sparse_records_have_tables(name, draw):
    assert printed(draw(SPARSE[name]()))
    assert printed(table(*layer_rows(SPARSE[name]())))


def test_text_is_no_markup():
    symmetry = dataclasses.replace(full_run().symmetries[0], name="[red]x[/red]", meaning="[/]")
    run = dataclasses.replace(full_run(), title="[bold]t", symmetries=[symmetry])
    assert "[red]x[/red]" in printed(symmetries_table(run))
    assert "[/]" in printed(symmetries_table(run))
    assert "[bold]t" in printed(comparison_table([run]))


def regression(title="prices", rmse=1234.5):
    return RunRecord(
        title,
        evidence=evidence(-500.0),
        test=Metrics(None, 3.2, None, 40, 1, rmse),
        likelihood={"sigma_noise[0]": 800.0},
        target_std=[1500.0],
        roles={"integrated": {"a": 1200}, "hyperparameter": {"b": 1}, "frozen": {"c": 2}},
    )


def test_regressions_are_compared_by_their_error():
    text = printed(comparison_table([regression("a"), regression("b", 900.0)]))
    assert "rmse" in text
    assert "accuracy" not in text
    assert "1234.5" in text
    assert "accuracy" in printed(comparison_table([full_run(), full_run()])), "of classes"


def test_the_text_of_a_regression_has_noise_and_plurals():
    text = run_text(regression())
    assert "noise of the targets: standard deviation 800 (1.5e+03 without the network)" in text
    assert "parameters: 1,200 integrated, 1 hyperparameter, 2 frozen" in text


def test_the_text_of_every_task_has_its_noise_and_its_measures():
    predicted = [PredictedNoise(0.37, 0.05, 0.53), PredictedNoise(20.0, 15.0, 25.0)]
    one = dataclasses.replace(regression(), likelihood={}, target_std=[0.86], predicted_noise=predicted[:1])
    line = "noise of the targets: standard deviation 0.37, between 0.05 and 0.53 for 90 % of the data"
    assert f"{line} (0.86 without the network)" in run_text(one)
    two = run_text(dataclasses.replace(one, predicted_noise=predicted, target_std=[]))
    assert "noise of target 0: standard deviation 0.37" in two
    assert "noise of target 1: standard deviation 20, between 15 and 25 for 90 % of the data\n" in two
    many = run_text(dataclasses.replace(one, predicted_noise=10 * predicted[:1]))
    assert "noise of target 7: " in many
    assert "noise of target 8: " not in many
    assert "and of 12 further targets" in run_text(dataclasses.replace(one, predicted_noise=10 * predicted))
    counts = dataclasses.replace(one, predicted_noise=[])
    assert "standard deviation of the targets: 0.86\n" in run_text(counts)
    tests = [
        (
            Metrics(0.5, 1.0, 0.1, 9, 1, num_targets=27),
            "test: accuracy 50.00 % of 27 labels, calibration error 0.100, ",
        ),
        (Metrics(0.5, 1.0, 0.1, 9, 1, num_targets=9), "test: accuracy 50.00 %, calibration error 0.100, "),
        (Metrics(None, 1.0, None, 9, 1, 3.0, [1.0, 4.12]), "test: root mean squared error 3 (1, 4.12 by target), "),
        (Metrics(None, 1.0, None, 9, 1, 3.0, 20 * [1.0]), "1, … (20 targets) by target), negative log-likelihood"),
    ]
    for test, expected in tests:
        assert expected in run_text(dataclasses.replace(counts, test=test))
