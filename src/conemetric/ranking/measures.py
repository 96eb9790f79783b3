"""How good a ranking of documents is, by relevance judgements: the measures of trec_eval.

Each measure takes a ranking, document numbers by query and nearest first (`rank`), and
returns one value per query: NaN for queries without a relevant document, which the
field leaves out of its means. Unjudged documents count as not relevant. Compare two
systems on the same queries by `statistics.paired_difference`.
"""

import numpy as np

from ..core.arrays import as_array, namespace, to_numpy
from .judgements import Judgements, check_relevance
from .top_k import nearest_documents

GAINS = {"exponential": lambda grade: 2.0**grade - 1, "linear": lambda grade: grade}


def rank(queries, documents, k=100, similarity="cosine") -> np.ndarray:
    """The ``k`` nearest documents of every query, in blocks of bounded memory.

    Parameters
    ----------
    queries : array (n_queries, D), NumPy or PyTorch
    documents : array (n_documents, D)
    k : int, default=100
    similarity : {"cosine", "inner", "euclidean"}, default="cosine"

    Returns
    -------
    integer array (n_queries, min(k, n_documents))
        Nearest first, ties to the lower number, on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.ranking.measures import rank
    >>> rank(np.array([[1.0, 0.1]]), np.array([[0.0, 2.0], [3.0, 0.0]]))
    array([[1, 0]])
    """
    namespace(queries, documents)  # refuses a mixture
    queries, documents = (as_array(X) for X in (queries, documents))
    if queries.ndim != 2 or documents.ndim != 2 or queries.shape[1] != documents.shape[1]:
        raise ValueError(
            f"queries have shape {tuple(queries.shape)} and documents {tuple(documents.shape)}; "
            "give rows of as many numbers for both."
        )
    if k < 1 or len(documents) == 0:
        raise ValueError(f"k={k} of {len(documents)} documents; both must be at least 1.")
    return to_numpy(nearest_documents(queries, documents, k, similarity))


def ndcg(ranking, relevance, k=10, gain="exponential") -> np.ndarray:
    """Normalised discounted cumulative gain of the first ``k``, one value per query.

    Parameters
    ----------
    ranking : integer array (n_queries, depth)
        Document numbers, nearest first; -1 where there is none.
    relevance : integer array-like (r, 2) or (r, 3), sparse matrix, or Judgements
        Rows [query, document, grade]; see `conemetric.ranking.judgements.check_relevance`.
    k : int, default=10
    gain : {"exponential", "linear"}, default="exponential"
        2^grade - 1, or the grade itself, which is trec_eval's ``ndcg_cut``.

    Examples
    --------
    >>> from conemetric.ranking.measures import ndcg
    >>> ndcg([[7, 3, 5]], [[0, 3, 1], [0, 5, 2]], k=3).round(3)
    array([0.587])
    """
    if gain not in GAINS:
        raise ValueError(f"gain={gain!r} is not known; use {', '.join(GAINS)}.")
    judgements, grades = _grades(ranking, relevance, k)
    reached = _discounted(GAINS[gain](grades))
    best = np.zeros((judgements.n_queries, k))
    order = np.lexsort((-judgements.grade, judgements.query))
    place = np.arange(len(order)) - judgements.start[judgements.query]
    first = place < k
    best[judgements.query[first], place[first]] = np.maximum(judgements.grade[order][first], 0)
    return _of_judged(reached, judgements, _discounted(GAINS[gain](best)))


def reciprocal_rank(ranking, relevance, k=10) -> np.ndarray:
    """1 / rank of the first relevant document, 0 where none is among the first ``k``.

    Arguments as for `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import reciprocal_rank
    >>> reciprocal_rank([[7, 3], [7, 1]], [[0, 3], [1, 2]])
    array([0.5, 0. ])
    """
    judgements, grades = _grades(ranking, relevance, k)
    relevant = grades > 0
    first = relevant.any(axis=1) / (1.0 + relevant.argmax(axis=1))
    return _of_judged(first, judgements)


def average_precision(ranking, relevance, k=None) -> np.ndarray:
    """Mean over the relevant documents of the precision at their rank, 0 for those that
    are not among the first ``k`` (default: the whole ranking).

    Arguments as for `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import average_precision
    >>> average_precision([[7, 3, 5]], [[0, 3], [0, 5]])
    array([0.58333333])
    """
    judgements, grades = _grades(ranking, relevance, k)
    relevant = grades > 0
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return _of_judged((precision * relevant).sum(axis=1), judgements, judgements.n_relevant)


def recall(ranking, relevance, k=100) -> np.ndarray:
    """Share of the relevant documents that are among the first ``k``.

    Arguments as for `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import recall
    >>> recall([[7, 3, 5]], [[0, 3], [0, 6]])
    array([0.5])
    """
    judgements, grades = _grades(ranking, relevance, k)
    return _of_judged((grades > 0).sum(axis=1), judgements, judgements.n_relevant)


def hit_rate(ranking, relevance, k=10) -> np.ndarray:
    """1 where a relevant document is among the first ``k``, else 0.

    Arguments as for `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import hit_rate
    >>> hit_rate([[7, 3], [7, 1]], [[0, 3], [1, 2]])
    array([1., 0.])
    """
    judgements, grades = _grades(ranking, relevance, k)
    return _of_judged((grades > 0).any(axis=1), judgements)


def _grades(ranking, relevance, k):
    """Judgements, and the grades of the first ``k`` of each ranking, none below 0."""
    ranking = np.asarray(to_numpy(ranking))
    if ranking.ndim != 2 or ranking.dtype.kind not in "iu":
        raise ValueError(
            f"ranking has shape {ranking.shape} and dtype {ranking.dtype}; give document numbers, "
            "one row for each query."
        )
    if k is not None and k < 1:
        raise ValueError(f"k={k} must be at least 1.")
    judgements = relevance
    if not isinstance(relevance, Judgements):
        judgements = check_relevance(relevance, len(ranking), _n_documents(ranking, relevance))
    if judgements.n_queries != len(ranking):
        raise ValueError(
            f"ranking has {len(ranking)} rows for judgements of {judgements.n_queries} queries."
        )
    return judgements, np.maximum(judgements.grades_of(ranking[:, :k]), 0)


def _n_documents(ranking, relevance):
    if hasattr(relevance, "tocoo"):
        return relevance.shape[1]
    rows = np.asarray(to_numpy(relevance))
    named = rows[:, 1].max() if rows.ndim == 2 and rows.shape[1] > 1 and len(rows) else 0
    return int(max(ranking.max(initial=0), named)) + 1


def _discounted(gains):
    return (gains / np.log2(np.arange(2, gains.shape[1] + 2))).sum(axis=1)


def _of_judged(values, judgements, total=1.0):
    """``values / total``, NaN where a query has no relevant document."""
    judged = judgements.n_relevant > 0
    return np.where(judged, values / np.where(judged, total, 1.0), np.nan)
