"""Ask who is near whom."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, check_random_state

from ..core.arrays import is_torch, like, namespace, on_device, to_numpy
from ..core.sparse_rows import SparseRows
from . import cells, exact, sparse
from .query import Labelled, Nearest, Question
from .ties import labelled_keys, row_keys, rows_of, tie_numbers

FEWEST_IMPOSTORS, MOST_IMPOSTORS = 3, 10  # of n_impostors="auto"
EXACT_WORK = 2e12  # n^2 D up to which "auto" searches exactly
NEARER = 1 - 1e-6  # part of another distance below which rounding cannot have put one


class Neighbours(NamedTuple):
    """Who is near each point of a labelled set.

    Attributes
    ----------
    targets, impostors : integer arrays (n, k)
        Points of the same and of other labels, nearest first, in the library of X; -1
        where there are too few.
    recall : float or None
        Share of the true neighbours that was found: 1.0 by an exact search, measured on
        a random sample of points by an approximate one, None where the user found them.
    """

    targets: Any
    impostors: Any
    recall: float | None = 1.0


def neighbours_by_label(
    X, y, n_targets, n_impostors, method="exact", random_state=None, references=None
) -> Neighbours:
    """Nearest points of the same and of other labels of every point; which of several at
    the same distance, their values decide and not the order of rows (see `ties`).

    Parameters
    ----------
    X : array (n, D), float32 or float64, NumPy or PyTorch, or SparseRows
    y : integer array (n,)
        Labels, as `constraints.check_labels` encodes them; -1 where a point has none and
        is neither given neighbours nor anyone's.
    n_targets, n_impostors : int
        How many neighbours to find with the same and with another label.
        ``n_impostors="auto"`` finds as many as two points in three have nearer than
        their farthest target, but at least 3 and at most 10: where classes overlap so
        much, three impostors are a small and noisy part of those to be pushed away.
    method : {"exact", "approximate", "auto"}, default="exact"
        "auto" is exact while n^2 D is at most `EXACT_WORK`, half a minute on two cores.
        On a device, and among sparse points, every search is exact.
    random_state : int, RandomState or None, default=None
        Draws the sample and the cells of an approximate search; None draws the same
        ones every time.
    references : integer array, default=None
        Rows, all with a label, among which neighbours are searched, exactly; None means all.

    Returns
    -------
    Neighbours

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.neighbours import neighbours_by_label
    >>> X = np.array([[0.0], [1.0], [3.0], [3.5]])
    >>> found = neighbours_by_label(X, np.array([0, 0, 1, 1]), n_targets=1, n_impostors=1)
    >>> found.targets.ravel(), found.impostors.ravel()
    (array([1, 0, 3, 2]), array([2, 2, 1, 1]))
    """
    automatic = n_impostors == "auto"
    most = MOST_IMPOSTORS if automatic else n_impostors
    if min(n_targets, most) < 1:
        raise ValueError(
            f"n_targets={n_targets} and n_impostors={n_impostors} must both be at least 1."
        )
    labelled = np.flatnonzero(to_numpy(y) >= 0)
    if len(labelled) < len(y):
        if references is not None:
            references = np.searchsorted(labelled, references)
        return _among(labelled, X, y, n_targets, n_impostors, method, random_state, references)
    points, n = Labelled(X, to_numpy(y)), len(y)
    question = Question(points, points, n_targets, most, np.arange(n))
    if references is not None:
        question = _among_references(references, question)
    rows = np.arange(n) if references is None else references
    numbers = tie_numbers(row_keys(question.references.X), rows, n)
    question, recall = question._replace(numbers=numbers), 1.0
    if references is None and method != "exact" and _worth_approximating(X, method):
        random_state = check_random_state(0 if random_state is None else random_state)
        nearest, recall = _approximately(_on_host(question), random_state)
        nearest = _in_library_of(X, nearest)
    else:
        nearest = answer(question)
    enough = (
        enough_impostors(to_numpy(nearest.same_distances), to_numpy(nearest.other_distances))
        if automatic
        else most
    )
    return Neighbours(rows_of(nearest.same, n), rows_of(nearest.other[:, :enough], n), recall)


def _among(rows, X, y, *options):
    """The neighbours of these rows among themselves, in arrays with a row for every point."""
    found = neighbours_by_label(X[like(rows, X, namespace(X).int64)], to_numpy(y)[rows], *options)

    def spread(near):
        at = like(rows, near)
        out = namespace(near).full(
            (len(y), near.shape[1]), -1, dtype=near.dtype, device=near.device
        )
        out[at] = namespace(near).where(near >= 0, at[near], -1)
        return out

    return Neighbours(spread(found.targets), spread(found.impostors), found.recall)


def _approximately(question, random_state):
    """The approximate answer about points among themselves, in the order of their keys:
    who is drawn for a centre, and who comes first into a full list, is a tie as well.
    """
    order = np.argsort(labelled_keys(*question.queries), kind="stable")
    points = Labelled(*(part[order] for part in question.queries))
    ordered = question._replace(queries=points, references=points, numbers=None)
    found, recall = cells.search(ordered, random_state)
    place, numbers = np.argsort(order), np.append(question.numbers[order], -1)
    same, other = (numbers[part[place]] for part in found[:2])
    same_distances, other_distances = (part[place] for part in found[2:4])
    return Nearest(same, other, same_distances, other_distances, found.n_again), recall


def _worth_approximating(X, method):
    if isinstance(X, SparseRows) or on_device(X):
        return False
    return method == "approximate" or X.shape[0] ** 2 * X.shape[1] > EXACT_WORK


def enough_impostors(target_distances, impostor_distances):
    """As many impostors as two points in three have nearer than their farthest target,
    from the distances of the nearest on the host (infinite where there is none).
    """
    return enough_of(nearer_impostors(target_distances, impostor_distances))


def nearer_impostors(target_distances, impostor_distances):
    """How many points have 0, 1, 2, ... impostors nearer than their farthest target; those
    without a target do not count.
    """
    farthest = np.where(target_distances < np.inf, target_distances, -np.inf).max(1)
    nearer = (impostor_distances < NEARER * farthest[:, None]).sum(1)
    return np.bincount(nearer[farthest >= 0], minlength=impostor_distances.shape[1] + 1)


def enough_of(counts):
    """`enough_impostors`, from what `nearer_impostors` counts."""
    place = int(np.ceil(2 / 3 * (counts.sum() - 1)))
    return max(FEWEST_IMPOSTORS, int(np.searchsorted(np.cumsum(counts), place, side="right")))


def _among_references(references, question):
    """The question about some of the points as references."""
    (X, y), place = question.queries, np.full(len(question.own), -1)
    place[references] = np.arange(len(references))
    rows = X[like(references, X, namespace(X).int64)]
    return question._replace(references=Labelled(rows, y[references]), own=place)


def answer(question: Question) -> Nearest:
    """Answer exactly where the points are: on the host, or on their device.

    Examples
    --------
    Rows of one block against those of another:

    >>> import numpy as np
    >>> from conemetric.neighbours import Labelled, Question, answer
    >>> here = Labelled(np.array([[0.0], [2.0]]), np.array([0, 1]))
    >>> there = Labelled(np.array([[1.0], [5.0], [6.0]]), np.array([0, 0, 1]))
    >>> found = answer(Question(here, there, 1, 1, own=np.array([-1, -1])))
    >>> found.same.ravel(), found.other_distances.ravel()
    (array([0, 2]), array([6., 1.]))
    """
    X = question.queries.X
    namespace(X, question.references.X)
    if isinstance(X, SparseRows):
        return sparse.search(question)
    if on_device(X):
        from . import gpu

        return gpu.search(question)
    return _in_library_of(X, exact.search(_on_host(question)))


def nearest(queries, references, k, keys=None):
    """The ``k`` nearest references of every query, nearest first.

    Parameters
    ----------
    queries : array-like, tensor or sparse matrix (q, D)
    references : the same (n, D), or None
        None: the queries themselves, each without itself.
    k : int
    keys : array (n,), uint64, default=None
        Of ties the reference with the lower key comes first (default: `ties.row_keys`
        of the references).

    Returns
    -------
    numbers : integer array (q, k)
    distances : float64 array (q, k)
        In the library of the queries.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.neighbours import nearest
    >>> numbers, distances = nearest(np.array([[0.0], [1.0], [3.0]]), None, k=1)
    >>> numbers.ravel(), distances.ravel()
    (array([1, 0, 1]), array([1., 1., 2.]))
    """
    asked = _unlabelled(queries)
    searched, own = asked, np.arange(len(asked.y))
    if references is not None:
        searched, own = _unlabelled(references), np.full(len(asked.y), -1)
    n_there = len(searched.y) - (references is None)
    if not 1 <= k <= n_there:
        raise ValueError(f"k={k} must be from 1 to the {n_there} points that there are to find.")
    n = len(searched.y)
    numbers = tie_numbers(row_keys(searched.X) if keys is None else keys, np.arange(n), n)
    found = answer(Question(asked, searched, k, 0, own, numbers))
    return rows_of(found.same, n), found.same_distances


def _unlabelled(X):
    if not is_torch(X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        X = SparseRows(X) if issparse(X) else X
    return Labelled(X, np.zeros(X.shape[0], np.int64))


def _on_host(question):
    """The question about NumPy arrays; no copies are made of tensors that are on the host."""
    queries, references = (Labelled(to_numpy(X), y) for X, y in question[:2])
    alone = question.references is question.queries
    return question._replace(queries=queries, references=queries if alone else references)


def _in_library_of(X, nearest):
    xp = namespace(X)
    same, other = (like(part, X, xp.int64) for part in nearest[:2])
    same_distances, other_distances = (like(part, X, xp.float64) for part in nearest[2:4])
    return Nearest(same, other, same_distances, other_distances, nearest.n_again)
