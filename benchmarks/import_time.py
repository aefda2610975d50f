"""Import time against that of the openai client, each in fresh interpreters."""

from __future__ import annotations

import compileall
import importlib.util
import statistics
import subprocess
import sys
import time

STATEMENTS = {
    "bare": "pass",
    "openai": "import openai",
    "import cyclops_nb": "import cyclops_nb",
    "with Agent and Session": "import cyclops_nb; cyclops_nb.Agent; cyclops_nb.Session",
}


def seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    # as pip does when it installs; where bytecode is not written, a source tree would be compiled at each import
    found = importlib.util.find_spec("cyclops_nb")
    for folder in (found and found.submodule_search_locations) or ():
        compileall.compile_dir(folder, quiet=1)
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(11):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    medians = {name: statistics.median(values) for name, values in times.items()}
    openai = medians["openai"] - medians["bare"]
    for name in list(STATEMENTS)[2:]:
        ours = medians[name] - medians["bare"]
        print(f"{name}: {ours * 1000:.0f} ms, openai {openai * 1000:.0f} ms, ratio {ours / openai:.2f} (goal 0.4)")


if __name__ == "__main__":
    main()
