"""Judgements to triplets: every rule against a plain loop, and errors for bad input."""

import warnings

import numpy as np
import pytest
from cases import each
from judged import collection
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.core import slices
from conemetric.core.arrays import to_numpy
from conemetric.ranking.judgements import (
    check_relevance,
    graded_triplets,
    judgements_from_log,
    random_negatives,
)
from conemetric.ranking.measures import rank
from conemetric.ranking.top_k import search


def random_judgements(seed):
    """Few documents, so that every corner occurs: all judged, none judged, ties."""
    rng = np.random.default_rng(seed)
    n_queries, n_documents = (int(n) for n in (rng.integers(1, 6), rng.integers(2, 15)))
    rows = np.column_stack([rng.integers(0, n_queries, 14), rng.integers(0, n_documents, 14)])
    rows = np.unique(rows, axis=0)
    rows = np.column_stack([rows, rng.integers(-1, 4, len(rows))])
    rows[0, 2] = 1
    shuffled = rng.permutation(rows)
    grades = {(q, d): g for q, d, g in rows.tolist()}
    return check_relevance(shuffled, n_queries, n_documents), grades, rows


@each("seed", range(60))
def test_random_negatives_are_unjudged_and_different(seed):
    judgements, grades, _ = random_judgements(seed)
    n = seed % 8
    negatives = random_negatives(judgements, n, seed)
    for query in range(judgements.n_queries):
        judged = {d for q, d in grades if q == query}
        found = negatives[query][negatives[query] >= 0].tolist()
        assert len(set(found)) == len(found) == min(n, judgements.n_documents - len(judged))
        assert not set(found) & judged
        assert all(0 <= d < judgements.n_documents for d in found)


def test_random_negatives_are_uniform_and_a_querys_own():
    judgements = check_relevance([[q, 3] for q in range(4000)], 4000, 11)
    negatives = random_negatives(judgements, 2, seed=0)
    counts = np.bincount(negatives.ravel(), minlength=11)
    assert counts[3] == 0
    assert abs(counts[counts > 0] - 800).max() < 4 * 800**0.5
    fewer = random_negatives(judgements.select(np.arange(100)), 2, seed=0)
    assert_array_equal(fewer, negatives[:100])
    assert (random_negatives(judgements, 2, seed=1) != negatives).any()


@each("seed", range(60))
def test_graded_triplets_are_those_of_a_plain_loop(seed):
    judgements, grades, _ = random_judgements(seed)
    negatives = random_negatives(judgements, seed % 5, seed)
    triplets = [tuple(row) for row in graded_triplets(judgements, negatives).tolist()]
    expected = []
    for (query, better), grade in grades.items():
        if grade <= 0:
            continue
        expected += [(query, better, int(worse)) for worse in negatives[query] if worse >= 0]
        lower = [d for (q, d), g in grades.items() if q == query and g < grade]
        if len(lower) > negatives.shape[1]:  # any so many of them
            lower = [t[2] for t in triplets if t[:2] == (query, better) and t[2] in lower]
            assert len(lower) == len(set(lower)) == negatives.shape[1]
        expected += [(query, better, worse) for worse in lower]
    assert sorted(triplets) == sorted(expected)


@each("seed", range(10))
def test_grades_of_a_ranking_and_of_fewer_queries(seed):
    judgements, grades, _ = random_judgements(seed)
    rng = np.random.default_rng(seed)
    ranking = rng.integers(-1, judgements.n_documents, size=(judgements.n_queries, 3))
    expected = [[grades.get((q, d), 0) for d in row] for q, row in enumerate(ranking.tolist())]
    assert_array_equal(judgements.grades_of(ranking), expected)
    some = rng.permutation(judgements.n_queries)[:2]
    assert_array_equal(judgements.select(some).grades_of(ranking[some]), np.array(expected)[some])
    assert_array_equal(judgements.select(some).n_relevant, judgements.n_relevant[some])


def test_hard_negatives_are_the_nearest_unjudged(asarray, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    Q, D = rng.normal(size=(6, 4)).astype(dtype), rng.normal(size=(30, 4)).astype(dtype)
    relevance = np.column_stack([rng.integers(0, 6, 40), rng.integers(0, 30, 40)])
    judgements = check_relevance(relevance, 6, 30)
    distances = ((Q[:, None].astype(float) - D) ** 2).sum(2)
    distances[judgements.query, judgements.document] = np.inf
    excluded = judgements.start, judgements.document
    for block in (1, 70, 1 << 20):
        monkeypatch.setattr(slices, "MAX_HELD", block)
        found = to_numpy(search(asarray(Q), asarray(D), 5, excluded=excluded).documents)
        assert_array_equal(found, np.argsort(distances, axis=1, kind="stable")[:, :5])


def test_too_few_documents_left_give_minus_one(asarray):
    judgements = check_relevance([[0, 0], [0, 2]], 2, 3)
    documents = asarray(np.array([[0.0], [1.0], [2.0]]))
    excluded = judgements.start, judgements.document
    found = search(documents[:2], documents, 9, excluded=excluded).documents
    assert_array_equal(to_numpy(found), [[1, -1, -1], [1, 0, 2]])


def test_all_forms_of_relevance_agree():
    rows = np.array([[1, 2, 3], [0, 0, 1], [1, 0, 0]])
    matrix = sparse.coo_array((rows[:, 2], (rows[:, 0], rows[:, 1])), (2, 3))
    for relevance in (rows, rows.tolist(), rows.astype(float), matrix, matrix.tocsr()):
        judgements = check_relevance(relevance, 2, 3)
        assert_array_equal(judgements.start, [0, 1, 3])
        assert_array_equal(judgements.document, [0, 0, 2])
        assert_array_equal(judgements.grade, [1, 0, 3])  # a stored zero stays judged
    assert_array_equal(check_relevance(rows[:, :2], 2, 3).grade, [1, 1, 1])
    twice = check_relevance([[0, 1, 1], [0, 1, 2], [0, 1, 0]], 1, 2)
    assert_array_equal(twice.grade, [2])


@pytest.mark.parametrize(
    ("relevance", "message"),
    [
        ([0, 1], "pass integer rows"),
        ([["a", "b"]], "pass integer rows"),
        ([[0, 1, 2, 3]], "pass integer rows"),
        ([[0.5, 1]], "fractions"),
        ([[0, 9]], r"1 of the 1 rows of relevance name documents.*\[0, 9\].*from 0 to 4"),
        ([[0, 1], [-1, 1]], r"name queries.*relevance\[1\]"),
        ([[0, 1, 0]], "none with a grade above 0"),
        ([[0, 1, np.nan]], "NaN"),
        (np.empty((0, 2), int), "0 judgements"),
        (sparse.csr_array((2, 5)), r"shape \(2, 5\)"),
    ],
)
def test_bad_relevance_is_named(relevance, message):
    with pytest.raises(ValueError, match=message):
        check_relevance(relevance, 3, 5)


def test_a_log_by_hand():
    """Counts add up, a thumb down takes away, and the ranking shown counts 1 / rank."""
    log = [[0, 3, 1], [0, 3, 2], [0, 1, -1], [2, 0, 5], [1, 2, -2]]
    shown = [[1, 0], [2, 3], [3, -1]]
    grades = judgements_from_log(log, shown, 4, prior=2.0)
    counts = {(0, 3): 3.0, (0, 1): 1.0, (0, 0): 1.0, (2, 0): 5.0, (2, 3): 2.0}
    wanted = np.zeros((3, 4))
    for place, count in counts.items():
        wanted[place] = np.log2(1 + count)
    assert_allclose(grades.toarray(), wanted)
    judged = check_relevance(grades, 3, 4)
    assert judged.n_relevant.tolist() == [3, 0, 2]  # a query with a thumb down alone says nothing
    assert_allclose(2.0**judged.grade - 1, [1, 1, 3, 0, 5, 2])
    alone = judgements_from_log([[0, 3], [0, 3]], shown, 4, prior=0)
    assert alone.toarray()[0].tolist() == [0, 0, 0, np.log2(3)]


@pytest.mark.costly
@pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric])
def test_a_log_that_repeats_the_ranking_changes_nothing_and_another_one_teaches(kind):
    Q, D, relevance = collection(n_queries=60)
    shown = rank(Q, D, 5)
    first = np.column_stack([np.arange(60), shown[:, 0], np.full(60, 4)])
    with pytest.warns(UserWarning, match="the embedding is left as it is"):
        kept = kind(random_state=0).fit(Q, D, judgements_from_log(first, shown, len(D)))
    assert kept.C_ == 0
    clicks = np.column_stack([relevance[:, :2], 5 * relevance[:, 2]])
    taught = kind(random_state=0).fit(Q, D, judgements_from_log(clicks, shown, len(D)))
    assert taught.C_ > 0
    assert taught.score(Q, D, relevance) > kept.score(Q, D, relevance) + 0.03


@pytest.mark.parametrize(
    ("log", "options", "message"),
    [
        ([[0, 9, 1]], {}, r"log\[0\] = \[0, 9, 1\]"),
        ([[0, 1, np.nan]], {}, "counts that are NaN"),
        ([[0, 1.5]], {}, "log holds fractions"),
        ([[0, 1]], {"prior": -1}, "prior=-1"),
        ([[0, 1]], {"ranking": [[7]]}, "numbers of the 4 documents"),
        ([[0, 1]], {"ranking": [[0.5]]}, "dtype float64"),
    ],
)
def test_a_bad_log_is_named(log, options, message):
    with pytest.raises(ValueError, match=message):
        judgements_from_log(log, **{"ranking": [[0, 1]], "n_documents": 4, **options})


def test_grades_that_do_not_conflict_are_taken_without_a_word():
    rows = [[0, 3, 2.0], [0, 3, 2.0], [0, 4, 1.0], [1, 4, 3.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judgements = check_relevance(rows, 2, 5)
    assert judgements.n_relevant.tolist() == [2, 1]
    with pytest.warns(UserWarning, match="document 3 for query 0 both 2 and 1 "):
        check_relevance([[0, 3, 1.0], *rows], 2, 5)
