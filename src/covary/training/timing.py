"""Where the time of a fit goes: weight steps, hyper steps, evaluations of the evidence with error bars, the test."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

T = TypeVar("T")
Part = Literal["weights", "hyper", "evaluation", "test"]


@contextmanager
def timed(timings: dict[str, float], part: Part) -> Iterator[None]:
    """Add the seconds of a block to a part, also where the block raises an error."""
    started = time.monotonic()
    try:
        yield
    finally:
        timings[part] = timings.get(part, 0.0) + time.monotonic() - started


def timed_items(timings: dict[str, float], part: Part, items: Iterable[T]) -> Iterator[T]:
    """The items; the seconds that it takes to make each are added to a part, those of their use are not."""
    iterator = iter(items)
    while True:
        with timed(timings, part):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item
