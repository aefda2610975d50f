"""Which awaits of the library there are, and at which of them something was suspended and could be stopped."""

import ast

from faults.lab import Lab
from faults.stepping import PACKAGE, Injector
from faults.workloads import workloads

WATCHED = ("engine/*.py", "readings.py", "models/served.py")
PASSED_ON = {
    "engine/middleware.py": "the base class, which nothing uses as it is",
    "engine/owned.py": "closes generators that have ended",
}
"""Files whose awaits are never where something is suspended, and why."""


def written():
    """Return file, line and text of each plain await; those of loops and blocks are of what they read."""
    found = {}
    for path in sorted(path for pattern in WATCHED for path in PACKAGE.glob(pattern)):
        name, source = str(path.relative_to(PACKAGE)), path.read_text()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Await) and name not in PASSED_ON:
                found[name, node.lineno] = ast.get_source_segment(source, node)
    return found


def never_seen(places):
    """Return those of the given awaits, by file and line, at which no run was suspended, stopped ones included."""
    left = set(places)
    for workload in workloads():
        for form in ("astream_events", "arun_with_response", "stream_events"):
            left -= _seen(Lab(workload, form=form, durability="sync", store="memory"), (None, 2, 5, 9, 13))
        left -= _seen(Lab(workload, store="slow"), (None, 30))
        if not left:
            break
    return left


def _seen(lab, stops):
    places = set()
    with lab:
        for at in stops:
            injector = Injector("cancel" if lab.loop is lab.run_loop else "signal", at)
            injector.is_watching = True
            lab.attempt(injector)
            places |= injector.seen
    return places
