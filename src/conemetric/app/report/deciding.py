"""Why a decision was made: held-out rows with the training rows that decided them, and the columns
that made these near.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..studies import Study
from ..studies.deciding import Decided

N_WRONG = N_RIGHT = 3  # held-out rows shown, so that mistakes and successes can be compared
N_DECIDING = 3  # training rows of each
N_NEAR = 3  # columns of each


class Deciding(NamedTuple):
    """A training row that decided."""

    name: str
    label: str
    share: str
    near_by: str
    image: str


class Reason(NamedTuple):
    """A held-out row, and what decided its prediction."""

    name: str
    true: str
    predicted: str
    image: str
    rows: list[Deciding]


def reasons(
    study: Study,
    decided: Decided,
    columns: list[str],
    ids: Any,
    thumbnail: Callable[[np.ndarray], str],
) -> list[Reason]:
    """A few held-out rows, mistakes first; ``thumbnail`` draws a row, or gives "" if rows are no
    images.
    """
    task = study.task
    judged = next(iter(decided.judgements.values()))
    order = np.argsort(-judged.wrong.astype(float), kind="stable")
    shown = np.unique(np.concatenate([order[:N_WRONG], order[::-1][:N_RIGHT]]))
    shown = order[np.isin(order, shown)]
    rows = task.original(task.test[shown])
    why = decided.explain(rows, N_DECIDING)
    label = dict(zip(task.original(task.learn).tolist(), task.y[task.learn], strict=True))

    def text(value):
        return f"{value:.4g}" if task.kind == "quantity" else str(value)

    def name(row):
        return f"row {row}" if ids is None else str(ids[row])

    def near_by(nearness):
        top = np.argsort(-nearness, kind="stable")[:N_NEAR]
        return ", ".join(f"{columns[j]} {nearness[j]:+.2f}" for j in top if nearness[j] > 0)

    return [
        Reason(
            name(row),
            text(task.y[task.test[i]]),
            text(judged.detail["predicted"][i]),
            thumbnail(decided.X[row]),
            [
                Deciding(
                    name(by),
                    text(label[by]),
                    f"{share:+.1%}",
                    near_by(near),
                    thumbnail(decided.X[by]),
                )
                for by, share, near in zip(
                    why.rows[k].tolist(), why.shares[k], why.nearness[k], strict=True
                )
            ],
        )
        for k, (i, row) in enumerate(zip(shown.tolist(), rows.tolist(), strict=True))
    ]
