"""Import time against that of the openai client, each in fresh interpreters."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    names = "import cyclops_nb; cyclops_nb.Agent; cyclops_nb.Session"
    statements = {"bare": "pass", "ours": names, "openai": "import openai"}
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(9):
        for name, statement in statements.items():
            times[name].append(seconds(statement))
    bare, ours, openai = (statistics.median(times[name]) for name in statements)
    ratio = (ours - bare) / (openai - bare)
    print(
        f"import with Agent and Session: {(ours - bare) * 1000:.0f} ms, openai {(openai - bare) * 1000:.0f} ms, "
        f"ratio {ratio:.2f} (goal 0.4)"
    )


if __name__ == "__main__":
    main()
