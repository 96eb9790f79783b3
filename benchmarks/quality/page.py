"""Puts measured tables and figures into the pages of docs/, in the place of older ones.

They go between the marks ``<!-- table NAME -->`` and ``<!-- end -->``. NAME is a table of the papers,
whose CSV (and figure) lies in --reproduce, or "peers QUANTITY" (a key of QUANTITIES) of --peers, whose
records are copied to docs/reproduction/peers.json and drawn in docs/figures/peers.png. Tables without
new results are left as they are.

    python -m benchmarks page --reproduce reproduce --peers peers.json

Data: what ``python -m benchmarks.papers`` and ``python -m benchmarks peers`` wrote
Minutes: less than 1
"""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np

from ..command import command_parser
from ..output import markdown_head, markdown_row
from .peers import METHODS, OURS, SETS, UNSUPERVISED, summary

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = DOCS / "reproduction"
MARKED = re.compile(r"<!-- table (.+?) -->(.*?)<!-- end -->", re.DOTALL)


def number(mean, std=None):
    if std and float(std):
        return f"{float(mean):.2f} ({float(std):.2f})"
    return f"{float(mean):.2f}"


def experiment_table(path):
    """A row per method, a column per data set: ours, and where there is one, the
    published number and the verdict. Numbers of runs are left out where all are one.
    """
    with path.open() as file:
        rows = list(csv.DictReader(file))
    cells = {}
    runs = {}
    for row in rows:
        theirs = ""
        if row["published"]:
            theirs = f" / {number(row['published'], row['published_std'])} {row['verdict']}"
        cells[row["method"], row["dataset"]] = number(row["mean"], row["std"]) + theirs
        runs.setdefault(row["dataset"], set()).add(int(row["runs"]))
    counts = [
        " to ".join(str(count) for count in sorted({min(seen), max(seen)}))
        for seen in runs.values()
    ]
    variants = [name.partition(":")[2] for name in runs]
    shared = all(variants) and len({name.partition(":")[0] for name in runs}) == 1
    lines = markdown_head(["", *(variants if shared else runs)])
    if set(counts) != {"1"}:
        lines.append(markdown_row(["runs", *counts]))
    for method in dict.fromkeys(row["method"] for row in rows):
        lines.append(markdown_row([method, *(cells.get((method, name), "") for name in runs)]))
    return lines


def short(value):
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def error_cell(row):
    few = f", {row['splits']}/{row['planned']}" if row["splits"] < row["planned"] else ""
    return number(row["error"], row["spread"]) + few


# they say little; --peers has them
WITHOUT_ROW = ("PCA", "BoostMetric, 50 rounds", "metric-learn SDML", "pyDML LSI")
QUANTITIES = {"error": error_cell, "seconds": lambda row: short(row["seconds"])}


def peers_table(peers, quantity):
    """A row per method, a column per data set; blank where no split was done. Methods that learn
    nothing have no times.
    """
    rows = {key: summary([record for record in peers if record["dataset"] == key]) for key in SETS}
    lines = markdown_head(["", *SETS])
    for method in METHODS:
        if method in WITHOUT_ROW or (quantity == "seconds" and method in UNSUPERVISED):
            continue
        cells = []
        for key in SETS:
            row = rows[key].get(method, {"splits": 0}) | {"planned": SETS[key][3]}
            cells.append(QUANTITIES[quantity](row) if row["splits"] else "")
        if any(cells):
            lines.append(markdown_row([f"**{method}**" if method in OURS else method, *cells]))
    return lines


def label_points(axes, points):
    """Write its name beside each of ``points`` = [(x, y, name, text style)], in the
    nearest place where nothing stands yet.
    """
    taken = [
        (x - 7, y - 7, x + 7, y + 7)
        for x, y in (axes.transData.transform(point[:2]) for point in points)
    ]
    places = [
        (dx, dy)
        for dx in (5, 10, 0, -5, -10)
        for dy in (0, 5, -5, 10, -10, 16, -16, 22, -22)
        if dx or abs(dy) > 4
    ]
    places.sort(key=lambda place: place[0] ** 2 + place[1] ** 2)
    frame = axes.get_window_extent()
    for x, y, name, style in points:
        crowded = []
        for dx, dy in places:
            sides = {
                "ha": ("right", "center", "left")[int(np.sign(dx)) + 1],
                "va": ("top", "center", "bottom")[int(np.sign(dy)) + 1],
            }
            note = axes.annotate(
                name, (x, y), (dx, dy), textcoords="offset points", **sides, **style
            )
            box = note.get_window_extent()
            outside = not (
                frame.x0 < box.x0 and box.x1 < frame.x1 and frame.y0 < box.y0 and box.y1 < frame.y1
            )
            hits = sum(
                box.x0 < right and left < box.x1 and box.y0 < top and low < box.y1
                for left, low, right, top in taken
            )
            crowded.append((hits + 10 * outside, len(crowded), note, box))
            if not crowded[-1][0]:
                break
        best = min(crowded)
        for entry in crowded:
            if entry is not best:
                entry[2].remove()
        taken.append((best[3].x0, best[3].y0, best[3].x1, best[3].y1))


def draw_peers(peers, path):
    """Error against processor time, a panel per data set; a mark is hollow where the
    method has not done all splits.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    looks = {
        "metric-learn": ("o", "tab:blue"),
        "pyDML": ("s", "tab:green"),
        "scikit-learn": ("^", "tab:orange"),
    }
    names = [
        name
        for name in SETS
        if " small" not in name and any(record["dataset"] == name for record in peers)
    ]
    n_rows = -(-len(names) // 3)
    figure, panels = plt.subplots(
        n_rows, 3, figsize=(15, 4.5 * n_rows), layout="constrained", squeeze=False
    )
    legend, points = {}, {}
    for axes, name in zip(panels.flat, names, strict=False):
        points[axes] = []
        for method, row in summary([r for r in peers if r["dataset"] == name]).items():
            if method == "Euclidean":
                legend["Euclidean distance"] = axes.axhline(
                    row["error"], color="0.6", linestyle=":", linewidth=1
                )
            elif row["splits"] and "," not in method:  # variants would crowd the panel
                library, _, short = method.partition(" ")
                marker, colour = looks.get(library, ("D", "0.4"))
                style = {"fontsize": 7, "color": colour}
                if method in OURS:
                    library, short, marker, colour = "conemetric", method, "*", "tab:red"
                    style = {"fontsize": 7, "color": colour, "weight": "bold"}
                elif library not in looks:
                    library, short = "closed form", method
                size = 110 if method in OURS else 28
                face = colour if row["splits"] == SETS[name][3] else "white"
                mark = axes.scatter(
                    row["seconds"],
                    row["error"],
                    size,
                    facecolor=face,
                    edgecolor=colour,
                    marker=marker,
                    zorder=3,
                )
                if face == colour:
                    legend[library] = mark
                points[axes].append((row["seconds"], row["error"], short, style))
        axes.set(
            title=name,
            xscale="log",
            yscale="log",
            xlabel="processor seconds of a fit",
            ylabel="3-NN error, %",
        )
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.margins(0.14, 0.12)
        axes.grid(alpha=0.25)
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    figure.legend(
        legend.values(), legend.keys(), loc="outside upper center", ncols=len(legend), frameon=False
    )
    figure.canvas.draw()  # places depend on the layout
    for axes in points:
        label_points(axes, points[axes])
    figure.savefig(path, dpi=110)


def fill(page, folder, peers):
    """Renew the tables of a page: experiments from ``folder``, other libraries from ``peers``."""

    def table(match):
        name, old = match[1], match[2]
        if name.startswith("peers "):
            lines = peers_table(peers, name.removeprefix("peers ")) if peers else None
        else:
            source = folder / f"{name}.csv"
            lines = experiment_table(source) if source.exists() else None
            figure = source.with_suffix(".png")
            shown = (
                f"]({figure.name})" in old
            )  # a page shows few of the figures: tables say as much
            if lines and shown and figure.exists():
                copy = shutil.copy(figure, RECORDS / figure.name)
                lines += ["", f"![{name}]({copy.relative_to(page.parent)})"]
        body = "\n" + "\n".join(lines) + "\n" if lines else old
        return f"<!-- table {name} -->{body}<!-- end -->"

    page.write_text(MARKED.sub(table, page.read_text()))


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--reproduce", type=Path, default=Path("reproduce"))
    parser.add_argument("--peers", type=Path, default=Path("peers.json"))
    options = parser.parse_args(arguments)
    peers = json.loads(options.peers.read_text()) if options.peers.exists() else []
    if peers:
        shutil.copy(options.peers, RECORDS / "peers.json")
        draw_peers(peers, DOCS / "figures" / "peers.png")
    for page in [*DOCS.glob("*.md"), *RECORDS.glob("*.md")]:
        fill(page, options.reproduce, peers)
