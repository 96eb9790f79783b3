"""From relevance judgements to graded triplets (query, better document, worse document).

A grade of zero or less means not relevant. Most documents are unjudged, and some of those nearest
to a query would have been judged relevant: negatives therefore are the nearest unjudged documents
of a query (hard) and random unjudged ones, besides all documents judged less relevant.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from ..core.arrays import to_numpy
from ..core.warn import warn_user


@dataclass(frozen=True)
class ListedDocuments:
    """``document[start[i]:start[i + 1]]`` are those of query i, distinct and ascending."""

    start: np.ndarray
    document: np.ndarray
    n_documents: int
    _beside: ClassVar[str]  # the field with a value, or a row of them, for each entry

    @property
    def n_queries(self) -> int:
        return len(self.start) - 1

    @property
    def counts(self) -> np.ndarray:
        """Documents of each query."""
        return np.diff(self.start)

    @cached_property
    def query(self) -> np.ndarray:
        """The query of each entry."""
        return np.repeat(np.arange(self.n_queries), self.counts)

    @property
    def place(self) -> np.ndarray:
        """The place of each entry among those of its query."""
        return np.arange(len(self.document)) - self.start[self.query]

    @cached_property
    def _key(self):
        return self.query * self.n_documents + self.document

    def at(self, values: np.ndarray, query: np.ndarray, document: np.ndarray) -> np.ndarray:
        """The ``values`` of entries for pairs of a query and a document; 0 if not listed."""
        wanted = query * self.n_documents + document
        place = np.searchsorted(self._key, wanted)
        found = (document >= 0) & (np.append(self._key, -1)[place] == wanted)
        values = np.append(values, np.zeros((1, *values.shape[1:])), axis=0)
        return values[np.where(found, place, -1)]

    def select(self, queries: np.ndarray) -> Self:
        """Those of some queries, renumbered in this order."""
        counts = self.counts[queries]
        start = np.concatenate([[0], np.cumsum(counts)])
        entry = np.arange(start[-1]) + np.repeat(self.start[queries] - start[:-1], counts)
        values = getattr(self, self._beside)[entry]
        return replace(self, start=start, document=self.document[entry], **{self._beside: values})


@dataclass(frozen=True)
class Judgements(ListedDocuments):
    """Judged documents, their grades in float64, positive if relevant."""

    grade: np.ndarray
    _beside = "grade"

    @cached_property
    def n_relevant(self) -> np.ndarray:
        """Relevant documents of each query."""
        return np.bincount(self.query[self.grade > 0], minlength=self.n_queries)

    def grades_of(self, ranking: Any) -> np.ndarray:
        """Grades of a ranking (n_queries, k); 0 for unjudged documents and for -1."""
        return self.at(self.grade, np.arange(self.n_queries)[:, None], to_numpy(ranking))

    def holds(self, ranking: np.ndarray) -> np.ndarray:
        """Which documents of a ranking (n_queries, k) are judged."""
        judged = np.ones(len(self.document), bool)
        return self.at(judged, np.arange(self.n_queries)[:, None], ranking) > 0


def check_relevance(relevance: Any, n_queries: int, n_documents: int) -> Judgements:
    """Validate judgements and sort them by query and document.

    ``relevance`` holds integer rows [query, document] or [query, document, grade] (all
    relevant without grades), or is a sparse matrix of grades (n_queries, n_documents), in
    which a stored zero means judged not relevant. If a pair is graded more than once, the
    highest grade counts, with a warning if the grades differ.
    """
    if sparse.issparse(relevance):
        check_shape(relevance, "relevance", n_queries, n_documents)
        entries = sparse.coo_array(relevance)
        query, document = np.asarray(entries.coords, np.int64)
        grade = np.asarray(entries.data, np.float64)
    else:
        query, document, grade = _from_rows(relevance, n_queries, n_documents)
    if not np.isfinite(grade).all():
        raise ValueError("relevance has grades that are NaN or infinite; drop those rows.")
    if not (grade > 0).any():
        raise ValueError(
            f"relevance has {len(grade)} judgements and none with a grade above 0; pass at least "
            "one relevant document."
        )
    # of a pair that is graded twice the highest grade comes first, and is the one that counts
    order = np.lexsort((-grade, document, query))
    query = query[order]
    document = document[order]
    grade = grade[order]
    first = np.ones(len(query), bool)
    first[1:] = (query[1:] != query[:-1]) | (document[1:] != document[:-1])
    conflicts = np.flatnonzero(~first & (grade != np.roll(grade, 1)))
    if len(conflicts):
        i = conflicts[0]
        pairs = len(np.unique(np.cumsum(first)[conflicts]))
        warn_user(
            f"relevance grades document {document[i]} for query {query[i]} both {grade[i - 1]:g} and "
            f"{grade[i]:g} (such pairs: {pairs}); the highest grade counts."
        )
    start = np.searchsorted(query[first], np.arange(n_queries + 1))
    return Judgements(start, document[first], n_documents, grade[first])


def check_shape(matrix: Any, name: str, n_queries: int, n_documents: int) -> None:
    """Refuse a sparse matrix that is not one of queries and documents."""
    if matrix.shape != (n_queries, n_documents):
        raise ValueError(
            f"{name} has shape {matrix.shape}; it needs one row for each of the {n_queries} queries "
            f"and one column for each of the {n_documents} documents."
        )


def check_ranking(ranking: Any) -> np.ndarray:
    """Validate document numbers (n_queries, depth)."""
    ranking = np.asarray(to_numpy(ranking))
    if ranking.ndim != 2 or ranking.dtype.kind not in "iu" or ranking.shape[1] == 0:
        raise ValueError(
            f"ranking has shape {ranking.shape} and dtype {ranking.dtype}; pass document numbers, "
            "one row for each query."
        )
    return ranking


def judgements_from_log(
    log: Any, ranking: Any, n_documents: int, prior: float = 1.0
) -> sparse.csr_array:
    """Grades from a log of clicks or thumbs, as ``relevance`` for ``fit``, that begin at the
    ranking which people were shown.

    A document at rank r of that ranking counts as if it had been clicked prior / r times before
    the log begins, so that one click far down does not outweigh the first document, and several
    do. The grade is log2(1 + count), in which the gain of nDCG is the count itself. Queries
    without a positive count are left out: they say nothing.

    Parameters
    ----------
    log : array-like (r, 2) or (r, 3)
        Rows [query, document] or [query, document, count], as stored: rows of a pair add up, and
        a thumb down counts -1.
    ranking : integer array (n_queries, depth)
        The first documents of every query in the ranking in use, as from
        `conemetric.ranking.measures.rank`; -1 for none.
    n_documents : int
    prior : float, default=1.0
        Clicks that the first document of the ranking has beforehand; 0 for none.

    Returns
    -------
    sparse matrix (n_queries, n_documents)
        A stored zero means judged not relevant.

    Examples
    --------
    >>> from conemetric.ranking.judgements import judgements_from_log
    >>> log = [[0, 2, 3], [0, 1, -1]]  # three clicks on document 2, a thumb down for 1
    >>> judgements_from_log(log, [[0, 1, 2], [0, 1, 2]], 3).toarray().round(2)
    array([[1.  , 0.  , 2.12],
           [0.  , 0.  , 0.  ]])
    """
    ranking = check_ranking(ranking)
    if ranking.max(initial=-1) >= n_documents:
        numbers = f"numbers of the {n_documents} documents, from 0"
        raise ValueError(f"ranking names document {ranking.max()}; pass {numbers}.")
    if not 0 <= prior < np.inf:
        raise ValueError(f"prior={prior!r} must be a number of clicks, at least 0.")
    shape = (len(ranking), n_documents)
    query, document, count = _from_rows(log, *shape, "log")
    if not np.isfinite(count).all():
        raise ValueError("log has counts that are NaN or infinite; drop those rows.")
    counts = sparse.csr_array((count, (query, document)), shape)  # adds up
    has_count = counts.max(axis=1).toarray() > 0
    row, place = np.nonzero((ranking >= 0) & has_count[:, None])
    beforehand = prior / (1.0 + place)
    grades = counts + sparse.csr_array((beforehand, (row, ranking[row, place])), shape)
    grades.data = np.log2(1 + np.maximum(grades.data, 0.0))
    return grades


def _from_rows(relevance, n_queries, n_documents, name="relevance"):
    """Queries, documents and grades of rows, all relevant without grades."""
    rows = np.asarray(to_numpy(relevance))
    if rows.ndim != 2 or rows.shape[1] not in (2, 3) or rows.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} has shape {rows.shape} and dtype {rows.dtype}; pass integer rows "
            "[query, document] or [query, document, grade], or a sparse matrix."
        )
    numbers = rows[:, :2]  # integers that a float holds exactly, whatever their type
    if not ((abs(numbers) < 2.0**53).all() and (numbers == np.round(numbers)).all()):
        raise ValueError(
            f"{name} holds fractions or NaN in its first two columns; pass the row numbers of "
            "queries and documents."
        )
    query, document = numbers.T.astype(np.int64)
    _refuse_outside(rows, query, n_queries, "queries", name)
    _refuse_outside(rows, document, n_documents, "documents", name)
    grade = np.ones(len(rows))
    if rows.shape[1] == 3:
        grade = rows[:, 2].astype(np.float64)
    return query, document, grade


def _refuse_outside(rows, column, n, what, name):
    """Refuse rows that name other numbers than those of the n queries or documents."""
    outside = (column < 0) | (column >= n)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"{int(outside.sum())} of the {len(rows)} rows of {name} name {what} that are "
            f"not there, first {name}[{first}] = {rows[first].tolist()}; use numbers from "
            f"0 to {n - 1}."
        )


def random_negatives(judgements: Judgements, n: int, seed: int) -> np.ndarray:
    """``n`` distinct random unjudged documents of every query; -1 where there are too few.

    One is drawn from each of ``n`` equal stretches of the unjudged documents. The draw for
    a query depends only on the seed and the query's number.
    """
    unjudged = (judgements.n_documents - judgements.counts)[:, None]
    first = np.arange(n) * unjudged // max(n, 1)
    last = np.arange(1, n + 1) * unjudged // max(n, 1)
    drawn = np.random.default_rng(seed).random((judgements.n_queries, n))
    place = first + (drawn * (last - first)).astype(np.int64)
    # the p-th unjudged document comes after the judged ones with document - i <= p, where i
    # counts the judged documents of the query
    size = judgements.n_documents + 1
    key = judgements.query * size + judgements.document - judgements.place
    wanted = np.arange(judgements.n_queries)[:, None] * size + place
    passed = np.searchsorted(key, wanted, side="right") - judgements.start[:-1, None]
    return np.where(last > first, place + passed, -1)


def graded_triplets(judgements: Judgements, negatives: Any) -> np.ndarray:
    """Triplets [query, better, worse] (m, 3): each relevant document against the query's
    negatives, and against its documents with a lower grade.

    ``negatives`` (n_queries, k) holds unjudged documents, -1 for none. At most k documents
    with a lower grade are compared with a relevant one, spread evenly over the grades.
    """
    negatives = to_numpy(negatives)
    relevant = np.flatnonzero(judgements.grade > 0)
    query = judgements.query[relevant]
    unjudged = _triplets(query, judgements.document[relevant], negatives[query])
    order = np.lexsort((judgements.grade, judgements.query))
    grade = judgements.grade[order]
    query = judgements.query[order]
    document = judgements.document[order]
    new = np.ones(len(order), bool)
    new[1:] = (grade[1:] != grade[:-1]) | (query[1:] != query[:-1])
    # how many documents of the query have a lower grade: those in front of the first with this one
    n_lower = np.flatnonzero(new)[np.cumsum(new) - 1] - judgements.start[query]
    better = np.flatnonzero((grade > 0) & (n_lower > 0))
    n_lower = n_lower[better, None]
    most = negatives.shape[1]
    n_taken = np.minimum(n_lower, most)
    step = np.arange(most)
    place = judgements.start[query[better], None] + step * n_lower // np.maximum(n_taken, 1)
    worse = np.where(step < n_taken, document[np.minimum(place, len(order) - 1)], -1)
    judged = _triplets(query[better], document[better], worse)
    return np.concatenate([unjudged, judged])


def _triplets(query, better, worse):
    """A triplet for every worse document (n, k) but -1."""
    columns = np.broadcast_arrays(query[:, None], better[:, None], worse)
    triplets = np.stack([column.ravel() for column in columns], axis=1)
    return triplets[triplets[:, 2] >= 0]
