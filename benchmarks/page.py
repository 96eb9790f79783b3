"""Puts measured tables and figures into docs/benchmarks.md, between the marks ``<!-- table NAME -->`` and ``<!-- end -->``.

    python benchmarks/page.py [--reproduce reproduce] [--peers peers.json]

NAME is an experiment whose CSV (and figure) lies in --reproduce, or "peers SET" for a data set of --peers. Tables without new
results are left as they are.
"""

import argparse
import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
from peers import OURS, UNSUPERVISED

DOCS = Path(__file__).parents[1] / "docs"


def number(mean, std=None):
    return f"{float(mean):.2f}" + (f" ({float(std):.2f})" if std and float(std) else "")


def experiment_table(path):
    """A row per method, a column per data set: ours, and where there is one, the published number and the verdict."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    cells, runs = {}, {}
    for row in rows:
        theirs = f" / {number(row['published'], row['published_std'])} {row['verdict']}" if row["published"] else ""
        cells[row["method"], row["dataset"]] = number(row["mean"], row["std"]) + theirs
        runs.setdefault(row["dataset"], set()).add(int(row["runs"]))
    counts = [" to ".join(str(count) for count in sorted({min(seen), max(seen)})) for seen in runs.values()]
    variants = [name.partition(":")[2] for name in runs]
    shared = all(variants) and len({name.partition(":")[0] for name in runs}) == 1
    lines = [["", *(variants if shared else runs)], ["---"] * (len(runs) + 1), ["runs", *counts]]
    for method in dict.fromkeys(row["method"] for row in rows):
        lines.append([method, *(cells.get((method, name), "") for name in runs)])
    return ["| " + " | ".join(line) + " |" for line in lines]


def peers_table(records):
    rows = {}
    for method in dict.fromkeys(record["method"] for record in records):
        group = [record for record in records if record["method"] == method]
        failure = group[0].get("failure")
        rows[method] = failure or {key: np.mean([r[key] for r in group]) for key in ("error", "seconds", "peak_mib")}
    lines = ["| method | error, % | CPU s | MiB | our fastest at no higher error |", "|---|---|---|---|---|"]
    for method, row in rows.items():
        if isinstance(row, str):
            lines.append(f"| {method} | {row} | | | |")
            continue
        rivals = [(rows[o]["seconds"], o) for o in OURS if isinstance(rows.get(o), dict) and rows[o]["error"] <= row["error"]]
        remark = "none"
        if method in OURS or method in UNSUPERVISED:
            remark = ""
        elif rivals:
            seconds, name = min(rivals)
            remark = f"{row['seconds'] / seconds:.1f} times ({name})"
        name = f"**{method}**" if method in OURS else method
        lines.append(f"| {name} | {row['error']:.2f} | {row['seconds']:.3f} | {row['peak_mib']:.0f} | {remark} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reproduce", type=Path, default=Path("reproduce"))
    parser.add_argument("--peers", type=Path, default=Path("peers.json"))
    options = parser.parse_args()
    peers = json.loads(options.peers.read_text()) if options.peers.exists() else []
    page = DOCS / "benchmarks.md"

    def fill(match):
        name, old = match[1], match[2]
        if name.startswith("peers "):
            records = [record for record in peers if record["dataset"] == name.removeprefix("peers ")]
            lines = peers_table(records) if records else None
        else:
            source = options.reproduce / f"{name}.csv"
            lines = experiment_table(source) if source.exists() else None
            figure = source.with_suffix(".png")
            if lines and figure.exists():
                shutil.copy(figure, DOCS / "benchmarks" / figure.name)
                lines += ["", f"![{name}](benchmarks/{figure.name})"]
        body = "\n" + "\n".join(lines) + "\n" if lines else old
        return f"<!-- table {name} -->{body}<!-- end -->"

    page.write_text(re.sub(r"<!-- table (.+?) -->(.*?)<!-- end -->", fill, page.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main()
