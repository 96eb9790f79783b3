"""What a newcomer waits for: the import, the first fit of each method with everything
still to be compiled, and ``conemetric learn`` on its bundled data, cold and warm.

    python benchmarks/first_minutes.py [--methods FrobMetric RelativeComparisons]

Each measurement is a process of its own; cold ones have an empty cache of compiled code.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

FIT = """
import sys, time
from sklearn.datasets import load_iris
import conemetric
X, y = load_iris(return_X_y=True)
began = time.perf_counter()
getattr(conemetric, sys.argv[1])().fit(X, y)
print(f"{time.perf_counter() - began:.2f}")
"""


def run(arguments, cache):
    """Wall and processor seconds of a process, and what it printed."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(getattr(after, key) - getattr(before, key) for key in ("ru_utime", "ru_stime"))
    return wall, used, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="*", default=["FrobMetric", "RelativeComparisons"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        run(["-c", "import conemetric"], cache)  # files into memory
        wall, used, _ = run(["-c", "import conemetric"], cache)
        print(f"import conemetric: {wall:.2f} s ({used:.2f} s of processors)")
    for name in options.methods:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (run(["-c", FIT, name], cache)[2].strip() for _ in range(2))
            print(f"{name} on iris, without imports: {cold} s cold, {warm} s warm")
    for how in ([], ["--method", "frob"]):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
            command = ["-m", "conemetric", "learn", *how, "--out", f"{folder}/out", "--overwrite"]
            for state in ("cold", "warm"):
                wall, used, _ = run(command, cache)
                print(f"{' '.join(command[1:3] + how)}, {state}: {wall:.1f} s ({used:.1f} s)")


if __name__ == "__main__":
    main()
