"""Why a decision was made: held-out rows with the training rows that decided them, and the columns
that made these near.
"""

from typing import Any

import numpy as np

from ..studies import Study
from ..studies.deciding import Decided
from .rows import ShownRows

N_WRONG = N_RIGHT = 3  # held-out rows shown, so that mistakes and successes can be compared
N_DECIDING = 3  # training rows of each
N_NEAR = 3  # columns of each


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
            "image": shown.image(decided.X[row]),
            "true": shown.value(task.y[task.test[i]]),
            "predicted": shown.value(judged.detail["predicted"][i]),
            "rows": [
                {
                    "name": shown.name(by),
                    "image": shown.image(decided.X[by]),
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
