"""Goes over all places at which runs can be stopped; ``python -m faults`` reports how many, and what went wrong."""

import collections
import itertools
import tempfile

from faults.lab import Lab
from faults.stepping import Injector
from faults.workloads import workloads

KINDS = ("cancel", "cancel twice", "error", "interrupt")


def stop_everywhere(lab, kind, *, every=1, first=1):
    """Stop a lab's runs at each `every`-th place, and yield each outcome with what is wrong with it."""
    for at in itertools.count(first, every):
        injector = Injector(kind, at)
        outcome = lab.attempt(injector)
        if not injector.fired:
            return
        yield outcome, lab.check(outcome)


if __name__ == "__main__":
    import sys, time
    names = sys.argv[1:]
    total = 0
    kinds = collections.Counter()
    for work in workloads():
        if names and work.name not in names:
            continue
        for store in (None, "memory"):
            t = time.time()
            n = bad = 0
            with tempfile.TemporaryDirectory() as folder, Lab(work, store=store, folder=folder) as lab:
                for kind in KINDS:
                    for outcome, complaints in stop_everywhere(lab, kind):
                        n += 1
                        if complaints:
                            bad += 1
                            kinds[complaints[0][:80]] += 1
                            if kinds[complaints[0][:80]] <= 2:
                                print(lab, kind, outcome.injector.at, outcome.injector.where, "\n   ", "\n    ".join(c[:300] for c in complaints))
            print(lab, n, "stops", bad, "bad", f"{time.time() - t:.1f} s")
            total += n
    print(total, kinds)
