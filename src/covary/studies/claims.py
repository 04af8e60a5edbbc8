"""Claims that more than one study makes."""

from ..records import Claim

__all__ = ["above"]


def above(sentence: str, value: float, bar: float) -> Claim:
    """The claim that an accuracy lies above a bar, both in [0, 1]."""
    return Claim(sentence, f"> {100 * bar:.2f} %", f"{100 * value:.2f} %", value > bar)
