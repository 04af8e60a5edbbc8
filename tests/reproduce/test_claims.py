"""Claims that more than one study makes."""

from covary.reproduce.claims import above


def test_above_is_strict():
    assert above("a", 0.51, 0.5).holds
    assert not above("a", 0.5, 0.5).holds
