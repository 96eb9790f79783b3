"""What benchmarks print and keep: tables of fixed width or of Markdown, and files of records."""

import json
from pathlib import Path


def print_row(label, cells, label_width, cell_width):
    """A line of a table whose cells are aligned to the right."""
    aligned = "".join(f"{cell:>{cell_width}}" for cell in cells)
    print(f"{label:{label_width}}{aligned}", flush=True)


def markdown_row(cells):
    """A line of a table of Markdown."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def markdown_head(names):
    """The first two lines of a table of Markdown."""
    return [markdown_row(names), markdown_row(["---"] * len(names))]


class Records:
    """A file with one record a line, as JSON: a benchmark that is interrupted continues from it."""

    def __init__(self, path):
        self.path = Path(path)

    def read(self):
        """Every record that is in the file; none where there is no file yet."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def append(self, *records):
        with self.path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
