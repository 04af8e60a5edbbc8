import pytest

from covary.augment.exchange.reading import Reading, assembled, drawn_shear, quarter_turns, uniform_elements


def test_elements_are_drawn_one_after_another():
    """Two flips that are drawn independently: the product of their probabilities."""
    flips = [
        Reading("x", elements={"identity": 0.7, "flip_x": 0.3}),
        Reading("y", elements={"identity": 0.6, "flip_y": 0.4}),
    ]
    augment = assembled("any", flips)
    found = dict(zip(augment.names, augment.widths.tolist(), strict=True))
    assert found == {
        "flip_x": pytest.approx(0.3 * 0.6),
        "flip_y": pytest.approx(0.7 * 0.4),
        "half_turn": pytest.approx(0.3 * 0.4),
    }


def test_elements_that_are_never_drawn_may_be_learned():
    augment = assembled("any", [Reading("turn", elements=quarter_turns({1: 1.0}, 0.5))])
    found = dict(zip(augment.names, augment.widths.tolist(), strict=True))
    assert found["quarter_turn"] == pytest.approx(0.5, abs=0.01)
    assert 0 < found["half_turn"] < 0.01


def test_probabilities_sum_to_one():
    assert sum(quarter_turns({0: 0.25, 1: 0.5, 3: 0.25}, 0.4).values()) == pytest.approx(1)
    assert sum(uniform_elements(("identity", "flip_x"), 0.4).values()) == pytest.approx(1)


def test_shears():
    assert drawn_shear(None, (0.0, 0.0)) == {}
    assert drawn_shear((-5.0, 5.0), (0.0, 0.0)) == {"shear": (-5.0, 5.0)}
    low, high = drawn_shear((-5.0, 5.0), (-4.0, 4.0))["shear"]
    assert high == -low > 5.0
