"""How many documents to pass on, with a guarantee about the relevant ones that are missed.

The relevant documents of one query are found or missed together, so they are no independent
trials: the promise counts queries. A query is *missed* at k if more than the share
``tolerated`` of its relevant documents is not among the first k. With probability
``confidence`` at most the share ``alpha`` of new queries is missed; with nothing tolerated, a
query then misses at most the share alpha of its relevant documents on average.

Fewer queries are missed as k grows, so the smallest k is returned with at most as many missed as the
exact binomial bound allows, and trying many k needs no correction (docs/mathematics/thresholds.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..evaluation.thresholds import binomial_upper_bound, check_share, fewest_needed, most_errors
from .measures import judged


@dataclass(frozen=True)
class Cutoff:
    """A cut-off and what is guaranteed of it.

    Attributes
    ----------
    k : int
        Documents to pass on.
    bound : float
        Bound on the rate of new queries that are missed, with the confidence given: that of
        the most queries that k was allowed to miss, because k was chosen by those it does.
    n_missed, n_queries : int
        Calibration queries missed at k, and all of them.
    alpha, confidence, tolerated : float
        As given.
    """

    k: int
    bound: float
    n_missed: int
    n_queries: int
    alpha: float
    confidence: float
    tolerated: float


def calibrate_cutoff(
    ranking: Any,
    relevance: Any,
    *,
    alpha: float = 0.1,
    confidence: float = 0.95,
    tolerated: float = 0.0,
) -> Cutoff:
    """The smallest k such that, with the given confidence, at most the share ``alpha`` of new
    queries miss more than the share ``tolerated`` of their relevant documents among the first k.

    The guarantee holds for new queries drawn like those given, which must not have been used to
    learn the ranking, and for relevant documents as judged.

    Parameters
    ----------
    ranking : integer array (n_queries, depth)
        Document numbers, best first, as from ``rank``; as deep as the cut-off may be.
    relevance : integer array-like (r, 2) or (r, 3), or sparse matrix
        As in `conemetric.ranking.measures.ndcg`.
    alpha : float, default=0.1
        Share of the queries that may be missed.
    confidence : float, default=0.95
    tolerated : float, default=0.0
        Share of its relevant documents that a query may miss without counting.

    Returns
    -------
    Cutoff

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import calibrate_cutoff
    >>> ranking = np.tile(np.arange(20), (100, 1))
    >>> relevance = np.column_stack([np.arange(100), np.arange(100) % 5])
    >>> cutoff = calibrate_cutoff(ranking, relevance)
    >>> cutoff.k, cutoff.n_missed, round(cutoff.bound, 3)
    (5, 0, 0.089)
    """
    needed = fewest_needed(alpha, confidence)  # refuses what is no share
    if tolerated != 0:
        check_share(tolerated, "tolerated")
    ranking, judgements = judged(ranking, relevance)
    answered = judgements.n_relevant > 0
    found = np.cumsum(judgements.grades_of(ranking) > 0, axis=1)[answered]
    wanted = np.ceil((1 - tolerated) * judgements.n_relevant[answered] - 1e-9)  # 0.9 * 10 is 9
    missed = (found < wanted[:, None]).sum(axis=0)  # queries at each cut-off
    n = len(found)
    allowed = most_errors(n, alpha, confidence)
    kept = np.flatnonzero(missed <= allowed)
    if n < needed:
        raise ValueError(
            f"{n} queries with a relevant document cannot guarantee alpha={alpha:g} with "
            f"confidence={confidence:g}, even if none is missed; that takes {needed}."
        )
    if len(kept) == 0:
        raise ValueError(
            f"{missed[-1]} of {n} queries are missed at the deepest cut-off, {len(missed)}: too many for "
            f"alpha={alpha:g} with confidence={confidence:g}; pass deeper rankings, or raise "
            "alpha or tolerated."
        )
    bound = binomial_upper_bound(allowed, n, confidence)
    first = kept[0]
    return Cutoff(int(first) + 1, bound, int(missed[first]), n, alpha, confidence, tolerated)
