"""Rows on the page: names, labels, images, and which training rows decided a few held-out ones."""

import base64
import struct
from typing import Any, NamedTuple
from zlib import compress, crc32

import numpy as np

from ..core.wording import figure
from ..studies import Study
from ..studies.deciding import Decided

# held-out rows shown, so that mistakes and successes can be compared
N_WRONG = 3
N_RIGHT = 3
N_DECIDING = 3  # training rows of each
N_NEAR = 3  # columns of each


class ShownRows(NamedTuple):
    """How to show the rows of a study."""

    kind: str  # of its supervision
    ids: Any = None  # names of the rows, if they have any
    image_shape: tuple[int, int] | None = None
    row_numbers: Any = None  # of the rows in their file, if some of that were left out

    def name(self, row: int) -> str:
        """The name of a row, or its number in the file."""
        if self.ids is not None:
            return str(self.ids[row])
        if self.row_numbers is not None:
            row = self.row_numbers[row]
        return f"row {row}"

    def value(self, label: Any) -> str:
        """A label, or a quantity, as text."""
        if self.kind == "quantity":
            return figure(label)
        return str(label)

    def image(self, X: Any, row: int) -> str:
        """A grey image as a data URI of PNG (signature, chunks); empty if rows are no images."""
        if self.image_shape is None:
            return ""
        pixels = np.asarray(X[row], float).reshape(self.image_shape)
        grey = np.round(255 * (pixels - pixels.min()) / (np.ptp(pixels) or 1.0)).astype(np.uint8)
        height, width = grey.shape
        lines = np.pad(grey, ((0, 0), (1, 0)))  # each begins with its filter: none
        header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
        png = b"\x89PNG\r\n\x1a\n"
        png += _chunk(b"IHDR", header)
        png += _chunk(b"IDAT", compress(lines.tobytes()))
        png += _chunk(b"IEND", b"")
        return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    """A part of a PNG file: its length, name, data and checksum."""
    checksum = struct.pack(">I", crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + checksum


def reasons(
    study: Study, decided: Decided, columns: list[str], shown: ShownRows
) -> list[dict[str, Any]]:
    """A few held-out rows, mistakes first, and the training rows that decided them."""
    task = study.task
    judged = next(iter(decided.judgements.values()))
    order = np.argsort(-judged.wrong.astype(float), kind="stable")
    chosen = list(dict.fromkeys([*order[:N_WRONG], *order[-N_RIGHT:]]))
    rows = task.original(task.test[chosen])
    why = decided.explain(rows, N_DECIDING)
    # deciding rows go by their numbers in the data, labels by those among the prepared rows
    label = dict(zip(task.original(task.learn).tolist(), task.y[task.learn], strict=True))
    X = decided.decision.X
    found = []
    for place, (i, row) in enumerate(zip(chosen, rows.tolist(), strict=True)):
        deciding = []
        weighed = zip(why.rows[place].tolist(), why.shares[place], why.nearness[place], strict=True)
        for by, share, nearness in weighed:
            deciding.append(
                {
                    "name": shown.name(by),
                    "image": shown.image(X, by),
                    "label": shown.value(label[by]),
                    "share": f"{share:+.1%}",
                    "near_by": _near_by(nearness, columns),
                }
            )
        found.append(
            {
                "name": shown.name(row),
                "image": shown.image(X, row),
                "true": shown.value(task.y[task.test[i]]),
                "predicted": shown.value(judged.detail["predicted"][i]),
                "rows": deciding,
            }
        )
    return found


def _near_by(nearness: np.ndarray, columns: list[str]) -> str:
    """The columns in which two rows are nearest to each other, and by how much."""
    told = []
    for j in np.argsort(-nearness, kind="stable")[:N_NEAR]:
        if nearness[j] > 0:
            told.append(f"{columns[j]} {nearness[j]:+.2f}")
    return ", ".join(told)
