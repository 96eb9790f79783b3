"""Changes of judged collections and of columns of scores that must not change the ranking: the
order of queries, documents and columns; repeats; units; a translation of a column.
"""

import numpy as np
import pytest
from judged import collection
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric, calibrate_cutoff, fuse

K = 8
SCALES = ("raw", "range", "spread")


def judged_columns(seed, n_queries=40, n_documents=60):
    """A collection, and two columns that list half of the documents, none of them alike."""
    Q, X, relevance = collection(seed, n_queries, n_documents)
    rng = np.random.default_rng(seed + 100)
    columns = {}
    for name in ("words", "clicks"):
        scores = rng.gamma(2.0, size=(n_queries, n_documents))
        np.add.at(scores, tuple(relevance[:, :2].T), 2.0)
        listed = rng.random(scores.shape) < 0.5
        listed[:, :2] = True  # a list has a range
        columns[name] = scores, listed
    return Q, X, relevance, columns


def as_scores(columns):
    made = {}
    for name, (scores, listed) in columns.items():
        rows, documents = np.nonzero(listed)
        entries = scores[rows, documents], (rows, documents)
        made[name] = sparse.csr_array(entries, scores.shape)
    return made


# what is changed: (Q, X, relevance, columns) and a generator -> the same, and the new number of
# each query and document


def as_it_is(Q, X, relevance, columns, rng):
    return Q, X, relevance, columns, np.arange(len(Q)), np.arange(len(X))


def queries_in_another_order(Q, X, relevance, columns, rng):
    order = rng.permutation(len(Q))
    place = np.argsort(order)
    moved = np.column_stack([place[relevance[:, 0]], relevance[:, 1:]])
    columns = {name: (s[order], listed[order]) for name, (s, listed) in columns.items()}
    return Q[order], X, moved, columns, place, np.arange(len(X))


def documents_in_another_order(Q, X, relevance, columns, rng):
    order = rng.permutation(len(X))
    place = np.argsort(order)
    moved = relevance.copy()
    moved[:, 1] = place[relevance[:, 1]]
    columns = {name: (s[:, order], listed[:, order]) for name, (s, listed) in columns.items()}
    return Q, X[order], moved, columns, np.arange(len(Q)), place


def columns_in_another_order(Q, X, relevance, columns, rng):
    names = list(columns)[::-1]
    everything = np.arange(len(Q)), np.arange(len(X))
    return Q, X, relevance, {name: columns[name] for name in names}, *everything


def judgements_shuffled_and_repeated(Q, X, relevance, columns, rng):
    twice = np.concatenate([relevance, relevance])
    everything = np.arange(len(Q)), np.arange(len(X))
    return Q, X, rng.permutation(twice), columns, *everything


def columns_in_other_units(Q, X, relevance, columns, rng):
    columns = {name: (1000.0 * s, listed) for name, (s, listed) in columns.items()}
    return Q, X, relevance, columns, np.arange(len(Q)), np.arange(len(X))


def columns_translated(Q, X, relevance, columns, rng):
    shift = rng.normal(size=(len(Q), 1))  # another one for each query
    columns = {name: (s + 10 * shift, listed) for name, (s, listed) in columns.items()}
    return Q, X, relevance, columns, np.arange(len(Q)), np.arange(len(X))


def columns_scaled_by_query(Q, X, relevance, columns, rng):
    factor = rng.uniform(0.1, 10, size=(len(Q), 1))
    columns = {name: (s * factor, listed) for name, (s, listed) in columns.items()}
    return Q, X, relevance, columns, np.arange(len(Q)), np.arange(len(X))


ALWAYS = (
    queries_in_another_order,
    documents_in_another_order,
    columns_in_another_order,
    judgements_shuffled_and_repeated,
    columns_in_other_units,
)
RELATIVE = (columns_translated, columns_scaled_by_query)  # not for raw scores
CASES = [(change, how) for change in ALWAYS for how in SCALES] + [
    (change, how) for change in RELATIVE for how in SCALES[1:]
]


def ids(value):
    return value if isinstance(value, str) else value.__name__


@pytest.mark.parametrize(("change", "how"), CASES, ids=ids)
def test_a_fusion_ranks_alike(change, how, seed):
    made = judged_columns(seed)
    *_, relevance, columns = made
    fusion = fuse(as_scores(columns), relevance, normalization=how)
    found, _ = fusion.rank(as_scores(columns), K)
    *_, moved, changed, query, document = change(*made, np.random.default_rng(seed))
    again = fuse(as_scores(changed), moved, normalization=how)
    ranking, _ = again.rank(as_scores(changed), K)
    assert_array_equal(ranking[query], document[found])
    assert_allclose([c.mean for c in again.candidates[2:]], [c.mean for c in fusion.candidates[2:]])
    total = sum(fusion.weights.values()), sum(again.weights.values())
    for name in fusion.weights:
        assert again.weights[name] / total[1] == pytest.approx(fusion.weights[name] / total[0])


@pytest.mark.cases(6)
@pytest.mark.parametrize(("change", "how"), CASES, ids=ids)
@pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric])
def test_a_learned_sum_ranks_alike(kind, change, how, seed):
    """All documents are negatives, and all comparisons set the units, so that no draw depends on
    any order.
    """
    made = judged_columns(seed, n_queries=8, n_documents=14)
    options = {"n_hard": 0, "n_random": 14, "normalization": how, "tol": 1e-8, "random_state": 0}
    fitted = kind(0.3, **options).fit(*made[:3], as_scores(made[3]))
    found, scores = fitted.rank(*made[:2], as_scores(made[3]), K)
    Q, X, moved, changed, query, document = change(*made, np.random.default_rng(seed))
    again = kind(0.3, **options).fit(Q, X, moved, as_scores(changed))
    ranking, values = again.rank(Q, X, as_scores(changed), K)
    assert again.objective_ == pytest.approx(fitted.objective_, rel=1e-6)
    size = abs(scores).max()
    assert_allclose(values[query], scores, atol=2e-3 * size)
    clear = (-np.diff(scores, axis=1) > 1e-2 * size).all(axis=1)  # rows without near ties
    assert_array_equal(ranking[query][clear], document[found][clear])


@pytest.mark.parametrize("change", ALWAYS[:2], ids=ids)
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_cutoff_counts_alike(change, repeats, seed):
    """In any order; and a repeated query counts again, so that the promise gets better."""
    rng = np.random.default_rng(seed)
    made = judged_columns(seed, n_queries=80)
    Q, X, relevance, _ = made
    ranking = np.argsort(-(Q @ X.T), axis=1)
    cutoff = calibrate_cutoff(ranking, relevance, alpha=0.3)
    _, _, moved, _, query, document = change(*made, rng)
    again = np.empty_like(ranking)
    again[query] = document[ranking]
    n = len(again)
    copies = [moved + np.array([i * n, 0, 0]) for i in range(repeats)]
    second = calibrate_cutoff(np.tile(again, (repeats, 1)), np.concatenate(copies), alpha=0.3)
    assert second.n_queries == repeats * cutoff.n_queries
    assert (second.k == cutoff.k) if repeats == 1 else (second.k <= cutoff.k)
    if repeats == 1:
        assert second == cutoff
