"""A campaign of any volume, over several processes."""

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from . import certificates, changes, files, gains, hostile, kernels, kills, precision, unfoldings

PARTS = {
    "certificates": certificates,
    "precision": precision,
    "changes": changes,
    "hostile": hostile,
    "files": files,
    "kernels": kernels,
    "kills": kills,
    "unfoldings": unfoldings,
    "gains": gains,
}
STATUSES = ("passed", "failed", "oracle failed", "oracle inaccurate")
CHUNK = 20  # trials that a process is given at a time
TINY = 1.0  # seconds that a tiny fit may take, unless the conic solver takes longer


def trials(part, numbers):
    return [PARTS[part].attempt(number) for number in numbers]


def run(part, first, count, pool):
    """All outcomes of a part, as they come."""
    numbers = range(first, first + count)
    chunks = [numbers[k : k + CHUNK] for k in range(0, count, CHUNK)]
    return itertools.chain.from_iterable(pool.map(trials, [part] * len(chunks), chunks))


def report(part, outcomes, seconds):
    """What was found, on the terminal; the number of faults."""
    faulty = [outcome for outcome in outcomes if outcome.faults]
    count = Counter(outcome.status for outcome in outcomes)
    print(
        f"\n{part}: {len(outcomes)} trials in {seconds:.0f} s: "
        + ", ".join(f"{count[status]} {status}" for status in STATUSES)
    )
    for ended, count in Counter(outcome.ended for outcome in outcomes).most_common():
        print(f"  {count:6d}  {ended}")
    if part in ("certificates", "precision"):
        speed(outcomes)
    for outcome in faulty[:40]:
        print(f"  FAULT {outcome.number}: {outcome.what}: {outcome.ended}")
        for fault in outcome.faults:
            print(f"        {fault}")
    for outcome in outcomes:
        if outcome.status.startswith("oracle"):
            print(f"  {outcome.status} {outcome.number}: {outcome.what}")
    return len(faulty)


def speed(outcomes):
    slow = [o for o in outcomes if o.seconds > max(TINY, o.against)]
    print(f"  {len(slow)} fits took longer than {TINY:g} s and than the conic solver; the slowest:")
    for o in sorted(outcomes, key=lambda o: -o.seconds)[:8]:
        print(f"  {o.seconds:6.2f} s ({o.against:.2f} s)  {o.number}: {o.what}: {o.ended}")


def main():
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    for part in PARTS:
        parser.add_argument(f"--{part}", type=int, default=0, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, help="file for all outcomes, a JSON object a line")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"  # of the processes below
    n_faulty, context = 0, multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context) as pool:
        for part in PARTS:
            count = getattr(options, part)
            if not count:
                continue
            began = time.monotonic()
            outcomes = list(run(part, options.first, count, pool))
            n_faulty += report(part, outcomes, time.monotonic() - began)
            if options.out:
                with options.out.open("a") as file:
                    file.writelines(
                        json.dumps({"part": part, "status": o.status, **asdict(o)}) + "\n"
                        for o in outcomes
                    )
    sys.exit(n_faulty > 0)
