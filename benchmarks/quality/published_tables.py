"""What ``conemetric learn`` makes of tables as people publish them, with no option but ``--label``.

For each table: what its columns were read as, the task, the held-out errors of the decision and of
histogram boosting, and the verdict. A table that needs a second try shows the message instead.

    python -m benchmarks published_tables
    python -m benchmarks published_tables --only taxis telco

Data: files/ and tables/*.csv of CONEMETRIC_DATA
Minutes: 30 on two cores
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ..command import command_parser
from ..data import existing_path

LABELS = {
    "bechdel": ("binary",),
    "biopics": ("box_office", "type_of_subject"),
    "brain_networks": ("network",),
    "comma": ("In your opinion, which sentence is more gramatically correct?",),
    "squirrel": ("Age",),
    "student-mat": ("nota",),
    "superstore": ("Sales",),
    "taxis": ("payment",),
    "telco": ("Churn",),
}
BOOSTING = "histogram boosting"
HEADINGS = ("table", "label", "columns", "task", "decision", "boosting", "seconds", "verdict")


def learned(path, label):
    """The answer of ``learn`` as JSON, or the message of its error; and its seconds."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "conemetric", "learn", str(path), "--label", label]
        ended = subprocess.run(
            [*command, "--out", str(out), "--json"], capture_output=True, text=True
        )
        answer = ended.stderr.strip()
        if ended.returncode == 0:
            answer = json.loads(ended.stdout)
            answer["columns"] = columns_of(out / "decision.safetensors")
    return answer, time.perf_counter() - began


def columns_of(decision):
    """How many columns were read as what, in words."""
    inspected = subprocess.run(
        [sys.executable, "-m", "conemetric", "inspect", str(decision), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = json.loads(inspected.stdout).get("columns") or {}
    counts = Counter(kind.partition(":")[0] for kind in kinds.values())
    return ", ".join(f"{n} {kind}" for kind, n in counts.most_common())


def row_of(path, label, answer, seconds):
    """A row of the table."""
    start = (path.stem, label[:24])
    if isinstance(answer, str):
        return (*start, "", "", "", "", f"{seconds:.0f}", answer.splitlines()[-1])
    errors = {row["method"]: row["error"] for row in answer["compared"]}
    boosting = "" if BOOSTING not in errors else f"{errors[BOOSTING]:.2%}"
    return (
        *start,
        answer["columns"] or f"{answer['features']} number",
        answer["task"],
        f"{answer['decision']['error']:.2%}",
        boosting,
        f"{seconds:.0f}",
        answer["verdict"],
    )


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--only", nargs="*", help="names of tables")
    options = parser.parse_args(arguments)
    folder = existing_path("files/bechdel.csv").parents[1]
    tables = []
    for path in sorted((folder / "files").iterdir()):
        tables += [(path, label) for label in LABELS[path.stem]]
    tables += [(path, "target") for path in sorted((folder / "tables").glob("*.csv"))]
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + "---|" * len(HEADINGS), flush=True)
    for path, label in tables:
        if options.only and path.stem not in options.only:
            continue
        row = row_of(path, label, *learned(path, label))
        print("| " + " | ".join(row) + " |", flush=True)
