"""Claims that more than one study makes."""

from ..records import Claim


def above(sentence: str, value: float, bar: float) -> Claim:
    """The claim that an accuracy lies above a bar, both in [0, 1]."""
    return Claim(sentence, f"> {100 * bar:.2f} %", f"{100 * value:.2f} %", value > bar)


def below(sentence: str, value: float, bar: float) -> Claim:
    """The claim that a test loss lies below a bar, both in nats per datum."""
    return Claim(sentence, f"< {bar:.3f}", f"{value:.3f}", value < bar)
