"""`make fuzz`: run every suite, print what was tried and what held, and exit with 1 if anything fell short.

A suite is a file in `suites/` with `NUM_CASES` and `run(num_cases, seed)`, a generator of `Row`s. A failed case is
shown with its name, `KIND:NUMBER`; `--case KIND:NUMBER` runs it alone.
"""

import argparse
import importlib
import resource
import sys
import time
from pathlib import Path

MOST_MEMORY = 12 << 30  # of addresses: what allocates more fails instead of slowing the machine down


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--suite", help="the name of one suite; by default all")
    parser.add_argument("--cases", type=int, help="the number of cases of each suite; by default its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="KIND:NUMBER of one case, with its whole output")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.RLIM_INFINITY))
    names = sorted(path.stem for path in (Path(__file__).parent / "suites").glob("[a-z]*.py"))
    failed = 0
    for name in names if options.suite is None else [options.suite]:
        suite = importlib.import_module(f"fuzz.suites.{name}")
        if options.case is not None:
            return suite.show(options.case, options.seed)
        started = time.perf_counter()
        print(f"{name}\n{'kind':<14}{'tried':>8}{'held':>8}{'fell short':>12}{'slowest, s':>12}")
        for row in suite.run(options.cases or suite.NUM_CASES, options.seed):
            held = row.tried - len(row.failures)
            print(f"{row.kind:<14}{row.tried:>8}{held:>8}{len(row.failures):>12}{row.slowest:>12.1f}", flush=True)
            for failure in row.failures:
                print(f"  {failure}", flush=True)
            failed += len(row.failures)
        print(f"{time.perf_counter() - started:.0f} s\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
