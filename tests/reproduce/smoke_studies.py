"""Studies at the smallest scale that several files test, computed once."""

from functools import cache

from covary.records import Study
from covary.reproduce.paper1.sampling import sampling
from covary.reproduce.paper1.toy import toy
from covary.reproduce.study import Request


@cache
def toy_study() -> Study:
    seen: list[float] = []
    found = toy(Request("smoke", 3, progress=lambda message, done: seen.append(done)))
    assert seen == sorted(seen)
    assert seen[0] >= 0
    assert seen[-1] < 1
    return found


@cache
def sampling_study() -> Study:
    return sampling(Request("smoke"))
