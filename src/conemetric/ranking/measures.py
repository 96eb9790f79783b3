"""Quality of rankings by relevance judgements: the measures of trec_eval.

Each measure takes a ranking (document numbers, nearest first, as from `rank`) and returns
one value per query: NaN for queries without a relevant document, which means
conventionally leave out. Unjudged documents count as not relevant. Compare two systems on
the same queries by `conemetric.evaluation.statistics.paired_difference`.
"""

from typing import Any

import numpy as np

from ..core.arrays import as_array, namespace, to_numpy
from .judgements import Judgements, check_ranking, check_relevance
from .top_k import check_depth, search

GAINS = {"exponential": lambda grade: 2.0**grade - 1, "linear": lambda grade: grade}


def rank(queries: Any, documents: Any, k: int = 100, similarity: str = "cosine") -> np.ndarray:
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
        Nearest first, on the host; equal documents in the order of their numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.ranking.measures import rank
    >>> rank(np.array([[1.0, 0.1]]), np.array([[0.0, 2.0], [3.0, 0.0]]))
    array([[1, 0]])
    """
    namespace(queries, documents)  # refuses mixed libraries
    queries = as_array(queries)
    documents = as_array(documents)
    if queries.ndim != 2 or documents.ndim != 2 or queries.shape[1] != documents.shape[1]:
        raise ValueError(
            f"queries have shape {tuple(queries.shape)} and documents {tuple(documents.shape)}; "
            "pass both as rows with the same number of features."
        )
    check_depth(k)
    if len(documents) == 0:
        raise ValueError("documents has no rows; pass at least one.")
    return to_numpy(search(queries, documents, k, similarity).documents)


def ndcg(ranking: Any, relevance: Any, k: int = 10, gain: str = "exponential") -> np.ndarray:
    """Normalised discounted cumulative gain of the first ``k``, one value per query.

    Parameters
    ----------
    ranking : integer array (n_queries, depth)
        Document numbers, nearest first; -1 for none.
    relevance : integer array-like (r, 2) or (r, 3), or sparse matrix
        Rows [query, document] or [query, document, grade]; or a sparse matrix of grades
        (n_queries, n_documents).
    k : int, default=10
    gain : {"exponential", "linear"}, default="exponential"
        2^grade - 1, or the grade itself as in trec_eval's ``ndcg_cut``.

    Examples
    --------
    >>> from conemetric.ranking.measures import ndcg
    >>> ndcg([[7, 3, 5]], [[0, 3, 1], [0, 5, 2]], k=3).round(3)
    array([0.587])
    """
    if gain not in GAINS:
        raise ValueError(f"gain={gain!r} is not known; use {', '.join(GAINS)}.")
    judgements, grades = _grades(ranking, relevance, k)
    best = _best_grades(judgements, k)
    discounts = np.log2(np.arange(2, k + 2))

    def discounted(grades):
        return (GAINS[gain](grades) / discounts[: grades.shape[1]]).sum(axis=1)

    return _per_query(discounted(grades), judgements, discounted(best))


def _best_grades(judgements, k):
    """The grades (n_queries, k) of the best ranking, clipped at 0."""
    best = np.zeros((judgements.n_queries, k))
    # sorted by grade within each query, entries keep the places that they have now
    order = np.lexsort((-judgements.grade, judgements.query))
    place = judgements.place
    first = place < k
    best[judgements.query[first], place[first]] = np.maximum(judgements.grade[order][first], 0)
    return best


def reciprocal_rank(ranking: Any, relevance: Any, k: int = 10) -> np.ndarray:
    """1 / rank of the first relevant document, 0 if none is among the first ``k``.

    Takes the same arguments as `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import reciprocal_rank
    >>> reciprocal_rank([[7, 3], [7, 1]], [[0, 3], [1, 2]])
    array([0.5, 0. ])
    """
    judgements, grades = _grades(ranking, relevance, k)
    first = 1.0 + (grades > 0).argmax(axis=1)
    return _per_query((grades > 0).any(axis=1) / first, judgements)


def average_precision(ranking: Any, relevance: Any, k: int | None = None) -> np.ndarray:
    """Mean over the relevant documents of the precision at their rank, 0 for those not among
    the first ``k`` (default: the whole ranking).

    Takes the same arguments as `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import average_precision
    >>> average_precision([[7, 3, 5]], [[0, 3], [0, 5]])
    array([0.58333333])
    """
    judgements, grades = _grades(ranking, relevance, k)
    relevant = grades > 0
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return _per_query((precision * relevant).sum(axis=1), judgements, judgements.n_relevant)


def recall(ranking: Any, relevance: Any, k: int = 100) -> np.ndarray:
    """Fraction of the relevant documents among the first ``k``.

    Takes the same arguments as `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import recall
    >>> recall([[7, 3, 5]], [[0, 3], [0, 6]])
    array([0.5])
    """
    judgements, grades = _grades(ranking, relevance, k)
    return _per_query((grades > 0).sum(axis=1), judgements, judgements.n_relevant)


def hit_rate(ranking: Any, relevance: Any, k: int = 10) -> np.ndarray:
    """1 if a relevant document is among the first ``k``, else 0.

    Takes the same arguments as `ndcg`.

    Examples
    --------
    >>> from conemetric.ranking.measures import hit_rate
    >>> hit_rate([[7, 3], [7, 1]], [[0, 3], [1, 2]])
    array([1., 0.])
    """
    judgements, grades = _grades(ranking, relevance, k)
    return _per_query((grades > 0).any(axis=1), judgements)


def judged(ranking: Any, relevance: Any) -> tuple[np.ndarray, Judgements]:
    """A ranking and the judgements of its queries, validated."""
    ranking = check_ranking(ranking)
    judgements = relevance
    if not isinstance(relevance, Judgements):
        n_documents = _n_documents(ranking, relevance)
        judgements = check_relevance(relevance, len(ranking), n_documents)
        _refuse_twice(ranking)
    if judgements.n_queries != len(ranking):
        raise ValueError(
            f"ranking has {len(ranking)} rows for judgements of {judgements.n_queries} queries; "
            "pass one row for each."
        )
    if ranking.max(initial=-1) >= judgements.n_documents:
        raise ValueError(
            f"ranking names document {ranking.max()}, but relevance is about "
            f"{judgements.n_documents} documents; number both alike, from 0."
        )
    return ranking, judgements


def _n_documents(ranking, relevance):
    """How many documents there are, as far as a ranking and judgements tell."""
    if hasattr(relevance, "tocoo"):
        return relevance.shape[1]
    n_documents = int(ranking.max(initial=0)) + 1
    rows = np.asarray(to_numpy(relevance))
    if rows.ndim == 2 and rows.shape[1] > 1 and rows.dtype.kind in "iuf":
        numbers = rows[:, 1][abs(rows[:, 1]) < np.inf]  # others are refused later
        n_documents = max(n_documents, int(numbers.max(initial=0)) + 1)
    return n_documents


def _refuse_twice(ranking):
    """Refuse a ranking that names a document more than once: it would count each time."""
    ordered = np.sort(ranking, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        query = int(twice.any(axis=1).argmax())
        raise ValueError(f"ranking[{query}] names a document twice; keep its first place only.")


def _grades(ranking, relevance, k):
    """The judgements, and the grades of the first ``k`` of each ranking, clipped at 0."""
    if k is not None:
        check_depth(k)
    ranking, judgements = judged(ranking, relevance)
    return judgements, np.maximum(judgements.grades_of(ranking[:, :k]), 0)


def _per_query(values, judgements, total=1.0):
    """``values / total``, NaN for queries without a relevant document."""
    answered = judgements.n_relevant > 0
    return np.where(answered, values / np.where(answered, total, 1.0), np.nan)
