"""Who predicts the test data best, also when it is not what was learned."""

from covary.records import Baseline, Metrics, RunRecord
from covary.records.summary import best_tested, summary


def run(ours: float, others: dict[str, float], num_data: int = 1000) -> RunRecord:
    def tested(accuracy: float) -> Metrics:
        return Metrics(accuracy, 0.2, 0.01, num_data, 8)

    baselines = [Baseline(name, [], None, tested(accuracy), 2.0, 5) for name, accuracy in others.items()]
    return RunRecord("digits", test=tested(ours), baselines=baselines)


def test_the_winner_is_named_whoever_it_is():
    ours = best_tested(run(0.98, {"plain": 0.9, "trivialaugment": 0.95}))
    assert ours == (
        "On the test data what was learned is best: 98.0 % right, against 95.0 % with trivialaugment, the best "
        "baseline."
    )
    theirs = best_tested(run(0.9, {"plain": 0.91, "randaugment": 0.97}))
    assert theirs == "On the test data randaugment is better than what was learned: 97.0 % right, against 90.0 %."
    assert summary(run(0.9, {"randaugment": 0.97})).endswith(theirs)


def test_chance_is_no_winner():
    assert best_tested(run(0.95, {"plain": 0.96})).startswith("On the test data no clear winner: 95.0 %")
    assert best_tested(run(0.95, {"plain": 0.96}, 100_000)).startswith("On the test data plain is better")
    assert "no clear winner" in best_tested(run(1.0, {"plain": 1.0}))


def test_without_something_to_compare_nothing_is_said():
    assert best_tested(RunRecord("digits")) == ""
    assert best_tested(run(0.9, {})) == ""
    regression = RunRecord("numbers", test=Metrics(None, 0.2, None, 10, 1, 0.3))
    assert best_tested(regression) == ""
