"""What columns of other scores add to an embedding: rankings beside the learned one, and the
queries that each column rescues.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...ranking import measures
from ...ranking.base import RankingEstimator
from ...ranking.fusion import RANK, Fusion

RRF = "reciprocal rank fusion"
EMBEDDED = "embedding before"  # its ranking as a column: no column may be called "embedding"
SHOWN_FIRST = 10  # documents that a user looks at


@dataclass(frozen=True)
class Contribution:
    """What one of the scores adds to the others."""

    name: str  # the column, or "embedding"
    weight: float
    # held-out queries, by their place, with a relevant document among the first 10 only with this
    # score, and only without it
    rescued: np.ndarray
    lost: np.ndarray


def rankings_beside(
    before: np.ndarray, scores: Mapping[str, Any], depth: int
) -> dict[str, np.ndarray]:
    """Rankings of every column alone, and of reciprocal rank fusion of all with the embedding's
    own ranking ``before``.
    """
    alone = {
        f"{name} alone": _fused_by_rank({name: column}, depth) for name, column in scores.items()
    }
    n, n_documents = next(iter(scores.values())).shape
    query, place = np.nonzero(before >= 0)
    entries = -place.astype(np.float64), (query, before[query, place])
    embedding = sparse.csr_array(entries, (n, n_documents))
    return alone | {RRF: _fused_by_rank({**scores, EMBEDDED: embedding}, depth)}


def _fused_by_rank(columns, depth):
    return Fusion(dict.fromkeys(columns, 1.0), RANK, []).rank(columns, depth)[0]


def contributions(
    estimator: RankingEstimator, queries: Any, documents: Any, scores: Any, judged: Any
) -> list[Contribution]:
    """What every score with a weight adds: the ranking with it against that without it."""

    def hits(weights):
        changed = copy(estimator)
        changed.score_weights_ = weights
        ranking = changed.rank(queries, documents, scores, SHOWN_FIRST)[0]
        return measures.hit_rate(ranking, judged, SHOWN_FIRST) > 0

    weights = estimator.score_weights_
    found, contributed = hits(weights), []
    for name, weight in weights.items():
        without = hits(weights | {name: 0.0})
        rescued, lost = (np.flatnonzero(x) for x in (found & ~without, without & ~found))
        contributed.append(Contribution(name, weight, rescued, lost))
    return contributed
