"""Stops runs at every place and reports: ``PYTHONPATH=tests python -m faults``."""

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

from faults.campaign import SETTINGS, Report, be_quiet, stop_workload
from faults.workloads import workloads


def main():
    """Run everything, on all processors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each n-th place only")
    every = parser.parse_args().every
    report, begun = Report(), time.monotonic()
    jobs = list(itertools.product(range(len(workloads())), SETTINGS))
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(os.cpu_count(), mp_context=spawn, initializer=be_quiet) as pool,
    ):
        waiting = [
            pool.submit(stop_workload, number, settings, f"{folder}/{index}", every)
            for index, (number, settings) in enumerate(jobs)
        ]
        for future in waiting:
            report.merge(future.result())
    print(report)
    print(f"in {len(report.places)} different places, {time.monotonic() - begun:.0f} s")
    return bool(report.violations)


if __name__ == "__main__":
    sys.exit(main())
