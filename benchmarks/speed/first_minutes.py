"""Seconds a newcomer waits for the import, the first fits and the first ``conemetric learn``.

Each measurement is a process of its own. Cold ones have an empty cache of compiled code, so that
everything must be compiled; warm ones have the cache that the cold one before left.

    python -m benchmarks first_minutes --methods FrobMetric RelativeComparisons

Data: iris; for ``conemetric learn``, what is bundled with the package
Minutes: 2
"""

import os
import subprocess
import sys
import tempfile
import time

from ..command import command_parser
from ..measuring import timed
from ..processes import in_own_process


def first_fit(name):
    """Seconds of the first fit in this process, imports left out."""
    from sklearn.datasets import load_iris

    import conemetric

    X, y = load_iris(return_X_y=True)
    method = getattr(conemetric, name)()
    return timed(method.fit, X, y).wall


def run(arguments, cache):
    """Wall and processor seconds of a process of Python."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, *arguments]
    before = children_seconds()
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    return wall, children_seconds() - before


def children_seconds():
    """Processor seconds of all processes that this one has started and that have ended."""
    import resource  # Windows has none

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--methods", nargs="*", default=["FrobMetric", "RelativeComparisons"])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as cache:
        run(["-c", "import conemetric"], cache)  # files into memory
        wall, used = run(["-c", "import conemetric"], cache)
        print(f"import conemetric: {wall:.2f} s ({used:.2f} s of processors)")
    for name in options.methods:
        with tempfile.TemporaryDirectory() as cache:
            environment = {"NUMBA_CACHE_DIR": cache}
            cold = in_own_process(first_fit, name, environment=environment)
            warm = in_own_process(first_fit, name, environment=environment)
            print(f"{name} on iris, without imports: {cold:.2f} s cold, {warm:.2f} s warm")
    for how in ([], ["--method", "frob"]):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
            command = ["-m", "conemetric", "learn", *how, "--out", f"{folder}/out", "--overwrite"]
            for state in ("cold", "warm"):
                wall, used = run(command, cache)
                print(f"{' '.join(command[1:3] + how)}, {state}: {wall:.1f} s ({used:.1f} s)")
