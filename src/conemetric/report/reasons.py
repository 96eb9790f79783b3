"""Rows on the page: names, labels, images, and which training rows decided a few held-out ones."""

import base64
import struct
from typing import Any, NamedTuple
from zlib import compress, crc32

import numpy as np

from ..studies import Study
from ..studies.deciding import Decided

N_WRONG = N_RIGHT = 3  # held-out rows shown, so that mistakes and successes can be compared
N_DECIDING = 3  # training rows of each
N_NEAR = 3  # columns of each


class ShownRows(NamedTuple):
    """How to show the rows of a study."""

    kind: str  # of its supervision
    ids: Any = None  # names of the rows, if they have any
    image_shape: tuple[int, int] | None = None
    row_numbers: Any = None  # of the rows in their file, if some of that were left out

    def name(self, row: int) -> str:
        if self.ids is not None:
            return str(self.ids[row])
        number = row if self.row_numbers is None else self.row_numbers[row]
        return f"row {number}"

    def value(self, label: Any) -> str:
        return f"{label:.4g}" if self.kind == "quantity" else str(label)

    def image(self, X: Any, row: int) -> str:
        """A grey image as a data URI of PNG (signature, chunks); empty if rows are no images."""
        if self.image_shape is None:
            return ""
        pixels = np.asarray(X[row], float).reshape(self.image_shape)
        grey = np.round(255 * (pixels - pixels.min()) / (np.ptp(pixels) or 1.0)).astype(np.uint8)
        height, width = grey.shape
        lines = np.pad(grey, ((0, 0), (1, 0)))  # each begins with its filter: none
        header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
        chunks = ((b"IHDR", header), (b"IDAT", compress(lines.tobytes())), (b"IEND", b""))
        png = b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", crc32(name + data))
            for name, data in chunks
        )
        return "data:image/png;base64," + base64.b64encode(png).decode()


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
    label = dict(zip(task.original(task.learn).tolist(), task.y[task.learn], strict=True))

    def near_by(nearness):
        top = np.argsort(-nearness, kind="stable")[:N_NEAR]
        return ", ".join(f"{columns[j]} {nearness[j]:+.2f}" for j in top if nearness[j] > 0)

    return [
        {
            "name": shown.name(row),
            "image": shown.image(decided.decision.X, row),
            "true": shown.value(task.y[task.test[i]]),
            "predicted": shown.value(judged.detail["predicted"][i]),
            "rows": [
                {
                    "name": shown.name(by),
                    "image": shown.image(decided.decision.X, by),
                    "label": shown.value(label[by]),
                    "share": f"{share:+.1%}",
                    "near_by": near_by(near),
                }
                for by, share, near in zip(by_rows.tolist(), shares, nearness, strict=True)
            ],
        }
        for i, row, by_rows, shares, nearness in zip(
            chosen, rows.tolist(), why.rows, why.shares, why.nearness, strict=True
        )
    ]
