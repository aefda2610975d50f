"""Goes over all places at which runs can be stopped, and looks at what each stop has left."""

import gc
import itertools
import logging
from collections import Counter
from dataclasses import dataclass, field, replace

from faults.lab import Lab
from faults.stepping import Injector
from faults.workloads import workloads

from cyclops_nb.testing import cut, end, error, error_in_stream, reply

DURABILITIES = ("async", "sync", "exit")
KINDS = {
    ("arun_with_response", "awaits"): ("cancel", "cancel twice", "error", "interrupt", "interrupt in a kernel"),
    ("astream_events", "awaits"): ("cancel", "cancel twice", "interrupt"),
    ("start", "awaits"): ("cancel", "cancel twice", "error"),
    ("run_with_response", "awaits"): ("signal",),
    ("stream_events", "awaits"): ("signal",),
    ("arun_with_response", "calls"): ("cancel", "error", "interrupt", "interrupt in a kernel", "own cancel"),
    ("start", "calls"): ("cancel", "error", "own cancel"),
}
"""How runs are stopped, for each form and kind of place."""
# without a store the durability is no matter
SETTINGS = [
    {"durability": "async", "store": None},
    *({"durability": mode, "store": kind} for mode in DURABILITIES for kind in ("memory", "file")),
]
_SHOWN = 5


@dataclass
class Report:
    """How many stops there were, of which kinds, and what was wrong."""

    stops: Counter = field(default_factory=Counter)
    places: set = field(default_factory=set)
    violations: list = field(default_factory=list)

    def add(self, lab, outcome, what):
        """Count a stop, and look at what it has left."""
        self.stops[what] += 1
        self.places.add((lab.workload.name, outcome.injector.where))
        complaints = lab.check(outcome)
        if complaints:
            place = f"{lab}; {what} at {outcome.injector.at}: {outcome.injector.where}"
            self.violations.append("\n    ".join([place, *complaints]))

    def merge(self, other):
        """Add what another report has."""
        self.stops += other.stops
        self.places |= other.places
        self.violations += other.violations

    def __str__(self):
        lines = [f"{count:6} {what}" for what, count in sorted(self.stops.items())]
        lines += self.violations[:_SHOWN]
        return "\n".join([*lines, f"{self.stops.total()} stops, {len(self.violations)} violations"])


def be_quiet():
    """Silence asyncio: a Ctrl-C that strikes a task goes through the loop, and stays in the task, which it logs."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    gc.freeze()  # what is loaded stays: the collections after each workload need not look at it


def stop_everywhere(lab, report, counts, kinds, *, every=1):
    """Stop the runs of a lab in each way at each `every`-th place."""
    for kind in kinds:
        for at in itertools.count(1, every):
            injector = Injector(kind, at, counts)
            outcome = lab.attempt(injector)
            if not injector.fired:
                break
            report.add(lab, outcome, f"{kind} ({counts}, {lab.form})")


def fail_everywhere(lab, report):
    """Have the server fail at each answer: with a status, or after each piece of it in each way."""
    for index, answer in enumerate(lab.workload.answers):
        failures = [error(500, "Down."), error(429, "Slow down.")]
        for count, way in itertools.product(range(len(answer.pieces)), (cut(), end(), error_in_stream("overloaded"))):
            failures.append(reply(*answer.pieces[:count], way))
        for failure in failures:
            answers = [*lab.workload.answers]
            answers[index] = failure
            lab.server._script._always = replace(lab.workload, answers=answers)
            outcome = lab.attempt(Injector())
            if (outcome.run.stop_reason, outcome.run.steps) != ("error", index):
                outcome.complaints.append(f"the server failed at answer {index}, the run says {outcome.run}")
            report.add(lab, outcome, f"the server fails ({lab.form})")


def stop_workload(number, settings, folder, every=1):
    """Stop one workload with one setting everywhere, at each `every`-th place, and return the report."""
    report, workload = Report(), workloads()[number]
    if settings["store"] == "file":  # at every place with the store in memory, which is the same to the engine
        every *= 5
    if workload.summary is not None:  # what comes before and after the summary is as in the workloads without one
        every *= 2
    for (form, counts), kinds in KINDS.items():
        with Lab(workload, form=form, folder=folder, **settings) as lab:
            stop_everywhere(lab, report, counts, kinds, every=every)
    for form in ("arun_with_response", "start"):
        with Lab(workload, form=form, folder=folder, **settings) as lab:
            fail_everywhere(lab, report)
    return report
