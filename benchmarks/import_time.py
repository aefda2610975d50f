"""Import time against that of the openai client, each in fresh interpreters."""

from __future__ import annotations

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
