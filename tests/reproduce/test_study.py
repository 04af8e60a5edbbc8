"""The arguments of studies, and claims that several studies make."""

from covary.reproduce.study import Request, above, below


def test_bars_are_strict():
    assert above("a", 0.51, 0.5).holds
    assert not above("a", 0.5, 0.5).holds
    assert below("a", 0.49, 0.5).holds
    assert not below("a", 0.5, 0.5).holds


def test_the_progress_of_a_part_is_within_its_bounds():
    seen: list[float] = []
    part = Request(progress=lambda message, done: seen.append(done)).within(0.25, 0.75)
    for done in (0.0, 0.5, 1.0):
        part.progress("", done)
    assert seen == [0.25, 0.5, 0.75]
