"""Columns of scores alone: their weights and normalisation, chosen by nDCG@10."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from .candidates import DEPTH, Candidate, Setting, best_candidate, crossed_mix
from .columns import AUTO, Pool, check_scores, picked
from .judgements import check_relevance
from .measures import ndcg
from .top_k import Ranking, check_depth

N_FOLDS = 4  # of queries that tune weights or judge them
RANK_SHIFT = 60  # of reciprocal ranks: Cormack, Clarke and Buettcher, SIGIR 2009


@dataclass(frozen=True)
class Fusion:
    """A sum of weighted and normalised columns; see `fuse`.

    Attributes
    ----------
    weights : dict of str to float
    normalization : str
        "raw", "range" or "spread" (`conemetric.ranking.columns`).
    candidates : list of Candidate
        Everything tried and its nDCG@10 on the queries, every single column first; gains are
        over the best of these.
    """

    weights: dict[str, float]
    normalization: str
    candidates: list[Candidate] = field(repr=False)

    def rank(self, scores: Mapping[str, Any], k: int = 10) -> Ranking:
        """The first ``k`` documents of every query.

        Parameters
        ----------
        scores : dict of str to sparse matrix (n_queries, n_documents)
            The columns, as in `fuse`; those with weight 0 may be left out.
        k : int, default=10

        Returns
        -------
        documents, scores : arrays (n_queries, k)
            Best first; -1 and minus infinity where no column lists more.
        """
        check_depth(k)
        used = {name: weight for name, weight in self.weights.items() if weight}
        columns = _checked_columns(picked(scores, used, self.weights))
        return _pool(columns).rank(self.normalization, np.array([*used.values()]), k)


def fuse(scores: Mapping[str, Any], relevance: Any, *, normalization: str = AUTO) -> Fusion:
    """Weights of several columns of scores, chosen by nDCG@10 of judged queries.

    Each column alone is a candidate, and so is a sum for every normalisation, its weights
    tuned one after the other and evaluated on queries that did not tune them; the best of those
    that are significantly better than the best single column wins (`conemetric.ranking.candidates`), else that column.

    Parameters
    ----------
    scores : dict of str to sparse matrix (n_queries, n_documents)
        Stored entries are the documents that a column lists.
    relevance : integer array-like (r, 2) or (r, 3), or sparse matrix
        As in `QueryAdapter.fit`.
    normalization : {"auto", "raw", "range", "spread"}, default="auto"
        The one that the search system uses (`conemetric.export.to_hybrid_query`), or the best.

    Returns
    -------
    Fusion

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from conemetric import fuse
    >>> rng = np.random.default_rng(0)
    >>> relevant = rng.integers(40, size=30)
    >>> hints = [rng.normal(size=(30, 40)) for _ in range(2)]
    >>> for hint in hints:
    ...     hint[np.arange(30), relevant] += 1.5
    >>> columns = {"bm25": csr_array(hints[0]), "dense": csr_array(hints[1])}
    >>> fusion = fuse(columns, np.column_stack([np.arange(30), relevant]))
    >>> sorted(fusion.weights), fusion.rank(columns, k=3)[0].shape
    (['bm25', 'dense'], (30, 3))
    """
    columns = _checked_columns(scores)
    kinds = columns.tried(normalization)
    judgements = check_relevance(relevance, columns.n_queries, columns.n_documents)
    answered = np.flatnonzero(judgements.n_relevant > 0)
    columns = columns.select(answered)
    judgements = judgements.select(answered)
    pool = _pool(columns)
    alone = np.eye(len(columns.names))

    def values_of(how, weights):
        ranking, _ = pool.rank(how, weights, DEPTH)
        return ndcg(ranking, judgements, DEPTH)

    values = [values_of(kinds[0], column) for column in alone]
    best = int(np.argmax([each.mean() for each in values]))

    def candidate(how, weights, of_queries):
        setting = Setting(0.0, 0.0, 0, 0, how, tuple(weights.tolist()), 0.0)
        return Candidate.from_values(setting, of_queries, values[best])

    candidates = [candidate(kinds[0], *each) for each in zip(alone, values, strict=True)]
    chosen = list(candidates)  # from which one is chosen: a mix only if it surely gains
    folds = _folds(pool, kinds[0], alone, values)
    for how in kinds:
        spreads = pool.spreads(how)
        # the best column keeps its weight of 1, since only the ratios of weights matter
        sizes = np.where(alone[best] > 0, 0.0, spreads[best] / spreads)
        mix = candidate(how, *crossed_mix(partial(values_of, how), sizes, alone[best], folds))
        candidates.append(mix)
        if mix.is_sure:
            chosen.append(mix)
    setting = best_candidate(chosen).setting
    weights = dict(zip(columns.names, setting.weights, strict=True))
    return Fusion(weights, str(setting.normalization), candidates)


def _folds(pool, how, alone, values):
    """Masks of the queries of each fold, dealt out by what does not depend on the order of queries or
    columns: values and scores of the columns alone; none of few queries.
    """
    if len(values[0]) <= N_FOLDS:
        return []
    ordered = sorted(range(len(alone)), key=lambda c: values[c].mean())
    heights = []
    for c in ordered:
        _, scores = pool.rank(how, alone[c], DEPTH)
        heights.append(scores.sum(axis=1))
    # by the values of the last column first, and the heights only where these tie
    keys = heights + [values[c] for c in ordered]
    number = np.argsort(np.lexsort(keys)) % N_FOLDS
    return [number == fold for fold in range(N_FOLDS)]


def reciprocal_ranks(column: Any, shift: float = RANK_SHIFT) -> sparse.csr_array:
    """A column of 1 / (shift + rank) of the documents that ``column`` lists, the best of a query
    having rank 1: their plain sum is reciprocal rank fusion, and `fuse` learns its weights.

    Parameters
    ----------
    column : sparse matrix (n_queries, n_documents)
    shift : float, default=60

    Returns
    -------
    sparse matrix (n_queries, n_documents)

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from conemetric.ranking.fusion import reciprocal_ranks
    >>> (1 / reciprocal_ranks(csr_array([[0.0, 7.0, 9.0]])).toarray()[0, 1:]).round()
    array([62., 61.])
    """
    column = sparse.csr_array(column, dtype=np.float64, copy=True)
    column.sum_duplicates()
    query = np.repeat(np.arange(column.shape[0]), np.diff(column.indptr))
    order = np.lexsort((column.indices, -column.data, query))
    ranks = np.empty(column.nnz)
    ranks[order] = 1.0 + np.arange(column.nnz) - column.indptr[query]
    return sparse.csr_array((1 / (shift + ranks), column.indices, column.indptr), column.shape)


def _checked_columns(scores):
    """Validated columns, all of them sparse matrices of the shape of the first."""
    shape = (0, 0)
    if isinstance(scores, Mapping):
        first = next(iter(scores.values()), None)
        shape = getattr(first, "shape", shape)
    return check_scores(scores, *shape)


def _pool(columns):
    """The documents listed; there is no embedding."""
    none = np.zeros(columns.listed.shape)
    return Pool(columns, columns.listed, none, np.arange(columns.n_documents))
