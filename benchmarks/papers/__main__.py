"""``python -m benchmarks.papers TABLE``: a table of one of the papers, ours beside theirs."""

import argparse
import json
import sys
from pathlib import Path

from .runner import run
from .tables import EXPERIMENTS


def main(arguments=None):
    """Run the command line; an error is one line on stderr and exit code 2, a traceback
    with ``--debug``.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="Measure a table of one of the papers and set it beside the published "
        "numbers; continues after an interruption.",
    )
    add = parser.add_argument
    add("table", metavar="TABLE", nargs="?", choices=EXPERIMENTS, help="as --list names it")
    add(
        "--list",
        action="store_true",
        help="list the tables and figures, and how long each takes on one core",
    )
    add("--runs", metavar="N", type=int, help="runs per cell; default: as many as the paper has")
    add(
        "--datasets",
        metavar="NAMES",
        action="append",
        help="only these data sets, separated by commas",
    )
    add(
        "--methods",
        metavar="NAME",
        action="append",
        help="only this method of the table; repeat for more",
    )
    add(
        "--out",
        metavar="FOLDER",
        type=Path,
        default=Path("reproduce"),
        help="folder for records, CSV and figure; a run found there is continued",
    )
    add("--jobs", metavar="N", type=int, default=1, help="processes; -1 for one per core")
    add("--json", action="store_true", help="print the result as JSON")
    add("--debug", action="store_true", help="show the traceback of an error")
    options = parser.parse_args(arguments)
    if options.list or options.table is None:
        shown = ("name", "duration", "title", "paper")
        known = [{name: getattr(e, name) for name in shown} for e in EXPERIMENTS.values()]
        if options.json:
            print(json.dumps({"experiments": known}, ensure_ascii=False))
        else:
            line = "{name:24s} {duration:10s} {title}; {paper}"
            print(*(line.format(**e) for e in known), sep="\n")
        return
    try:
        table = _measured(options)
    except (ValueError, OSError) as error:
        if options.debug:
            raise
        parser.error(str(error))
    except KeyboardInterrupt:
        print("interrupted; the same command continues from here", file=sys.stderr)
        sys.exit(130)
    if options.json:
        values = {
            "experiment": options.table,
            "rows": [vars(row) for row in table.rows],
            "summary": table.summary,
            "skipped": table.skipped,
            "out": str(options.out),
        }
        print(json.dumps(values, ensure_ascii=False, allow_nan=False))
    else:
        print(table)
        print(f"written to {options.out}: {options.table}.csv, {options.table}.png")


def _measured(options):
    def progress(record):
        cell = f"{record['dataset']}, {record['method']}, run {record['run'] + 1}"
        line = f"{record['done']}/{record['total']}: {cell}"
        if sys.stderr.isatty():
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    shown = not options.json
    if shown:
        print(f"measuring {options.table}, a line for each cell", file=sys.stderr, flush=True)
    datasets = options.datasets and [
        name.strip() for names in options.datasets for name in names.split(",")
    ]
    table = run(
        EXPERIMENTS[options.table],
        options.runs,
        datasets,
        options.methods,
        options.out,
        options.jobs,
        progress if shown else None,
    )
    if shown and sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return table


if __name__ == "__main__":
    main()
