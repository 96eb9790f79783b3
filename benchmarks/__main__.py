"""``python -m benchmarks``: describes the benchmarks, or runs one."""

import difflib
import importlib
import sys
import textwrap

from .catalogue import FOLDERS, find_benchmarks
from .missing import one_sentence

USAGE = """\
python -m benchmarks --list                describes every benchmark
python -m benchmarks NAME --help           its options
python -m benchmarks NAME [options]        runs it
python -m benchmarks.papers --list         the tables and figures of the papers

Data come from the folder that the environment variable CONEMETRIC_DATA names."""


def main(arguments):
    if not arguments or arguments[0] in ("--help", "-h"):
        print(USAGE)
    elif arguments[0] == "--list":
        print_list(find_benchmarks())
    else:
        run(arguments[0], arguments[1:])


def print_list(benchmarks):
    print(USAGE)
    for folder in FOLDERS:
        print(f"\n{folder}: {importlib.import_module(f'benchmarks.{folder}').__doc__}")
        for benchmark in benchmarks.values():
            if benchmark.folder == folder:
                print_description(benchmark)


def print_description(benchmark):
    needs = f" Needs: {', '.join(benchmark.needs)}." if benchmark.needs else ""
    lines = [
        benchmark.sentence,
        f"Data: {benchmark.data}. Minutes: {benchmark.minutes}.{needs}",
    ]
    print(f"  {benchmark.name}")
    for line in lines:
        print(textwrap.fill(line, 110, initial_indent=" " * 6, subsequent_indent=" " * 6))


def run(name, arguments):
    """Run a benchmark; what is missing on this machine is said in one sentence."""
    benchmarks = find_benchmarks()
    if name not in benchmarks:
        near = difflib.get_close_matches(name, benchmarks, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        sys.exit(
            f"No benchmark is called {name!r}; {hint}python -m benchmarks --list has them all."
        )
    missing = benchmarks[name].missing_modules()
    if missing:
        sys.exit(f"{name} needs {' and '.join(missing)}, which this Python does not have.")
    with one_sentence(name):
        importlib.import_module(benchmarks[name].module).main(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
