"""Columns alone, and the cut-off with a promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import binom

from conemetric import QueryAdapter, calibrate_cutoff, fuse
from conemetric.ranking.columns import check_scores
from conemetric.ranking.fusion import reciprocal_ranks
from conemetric.ranking.measures import ndcg


def columns(seed, strengths, n_queries=60, n_documents=80, shift=0.0):
    """Columns that know the relevant documents more or less, and the judgements."""
    rng = np.random.default_rng(seed)
    relevant = rng.integers(n_documents, size=n_queries)
    scores = {}
    for i, strength in enumerate(strengths):
        dense = rng.normal(size=(n_queries, n_documents)) * 3.0**i + shift
        dense[np.arange(n_queries), relevant] += strength * 3.0**i
        scores[f"column {i}"] = sparse.csr_array(dense)
    return scores, np.column_stack([np.arange(n_queries), relevant])


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_a_mix_of_equally_good_columns_beats_each(seed, shift):
    scores, relevance = columns(seed, (2.0, 2.0), n_queries=200, shift=shift)
    fusion = fuse(scores, relevance)
    assert all(weight > 0 for weight in fusion.weights.values())
    means = [candidate.mean for candidate in fusion.candidates]
    assert max(means[2:]) > max(means[:2])
    tried = {candidate.setting.normalization for candidate in fusion.candidates[2:]}
    assert tried == ({"raw", "range", "spread"} if shift else {"range", "spread"})
    new, judged = columns(seed + 50, (2.0, 2.0), n_queries=200, shift=shift)
    alone = [
        ndcg(fuse({name: column}, judged).rank({name: column})[0], judged).mean()
        for name, column in new.items()
    ]
    assert ndcg(fusion.rank(new)[0], judged).mean() > max(alone) - 0.02


def test_a_single_column_wins_ties(seed):
    scores, relevance = columns(seed, (30.0, 0.0))
    fusion = fuse(scores, relevance)
    assert fusion.weights == {"column 0": 1.0, "column 1": 0.0}
    found, values = fusion.rank({"column 0": scores["column 0"]}, k=3)
    assert_array_equal(found[:, 0], relevance[:, 1])
    assert found.shape == values.shape == (60, 3)
    assert (np.diff(values, axis=1) <= 0).all()


def test_columns_are_named_when_missing_or_of_another_shape():
    scores, relevance = columns(0, (2.0, 2.0))
    fusion = fuse(scores, relevance)
    with pytest.raises(ValueError, match="scores lacks 'column 1'"):
        fusion.rank({"column 0": scores["column 0"]})
    with pytest.raises(TypeError, match=r"scipy\.sparse"):
        fuse({"callable": lambda query, document: query}, relevance)
    with pytest.raises(ValueError, match="needs one row for each"):
        fuse({"a": scores["column 0"], "b": scores["column 1"][:3]}, relevance)
    with pytest.raises(TypeError, match="dict of columns"):
        fuse([], relevance)


def test_normalisation_by_hand():
    matrix = sparse.csr_array(np.array([[0, 2.0, 4.0, 8.0], [5.0, 0, 0, 0], [0, 0, 0, 0]]))
    made = check_scores({"a": matrix, "b": 2 * matrix[:, ::-1]}, 3, 4)
    assert_array_equal(made.document, [0, 1, 2, 3, 0, 3])
    spread = np.std([2.0, 4.0, 8.0])
    wanted = {
        "raw": [0, 2, 4, 8, 5, 0],
        "range": [0, 0, 1 / 3, 1, 0, 0],
        "spread": [0, 0, 2 / spread, 6 / spread, 0, 0],
    }
    for how, values in wanted.items():
        assert_allclose(made.normalized(how)[:, 0], values)
    pairs = np.array([0, 0, 1, 2]), np.array([3, 0, 0, 1])
    assert_allclose(made.at(made.normalized("raw"), *pairs)[:, 0], [8, 0, 5, 0])
    assert_array_equal(made.select(np.array([1])).document, [0, 3])
    assert check_scores({"a": -1 * matrix}, 3, 4).tried("auto") == ("range", "spread")


@pytest.mark.parametrize("tolerated", [0.0, 0.5])
def test_the_cutoff_is_the_smallest_that_keeps_its_promise(seed, tolerated):
    rng = np.random.default_rng(seed)
    n, depth, alpha = 150, 40, 0.1
    ranking = np.argsort(rng.random((n, 60)), axis=1)[:, :depth]
    rows = np.arange(n)
    relevance = []
    for first in (0, 3):  # two relevant documents, the second a little later
        place = np.minimum(rng.geometric(0.2, n) + first, depth - 2)
        relevance.append(np.column_stack([rows, ranking[rows, place]]))
    relevance = np.concatenate(relevance)
    cutoff = calibrate_cutoff(ranking, relevance, alpha=alpha, tolerated=tolerated)

    def missed(k):
        total = 0
        for q in range(n):
            wanted = set(relevance[relevance[:, 0] == q, 1].tolist())
            lost = len(wanted - set(ranking[q, :k].tolist()))
            total += lost > tolerated * len(wanted)
        return total

    assert cutoff.n_missed == missed(cutoff.k)
    assert cutoff.n_queries == n
    # exactly: so few errors are improbable if the rate is alpha, and one more is not at k - 1
    assert binom.cdf(missed(cutoff.k), n, alpha) <= 0.05
    if cutoff.k > 1:
        assert binom.cdf(missed(cutoff.k - 1), n, alpha) > 0.05


def test_the_promise_holds_for_new_queries():
    """Depths are drawn alike: at most 5 % of calibrations may break the promise."""
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(200):
        n, depth = 60, 50
        place = np.minimum(rng.geometric(0.1, n) - 1, depth - 1)
        ranking = np.tile(np.arange(depth), (n, 1))
        cutoff = calibrate_cutoff(ranking, np.column_stack([np.arange(n), place]), alpha=0.2)
        broken += 0.9**cutoff.k > 0.2  # P(place >= k)
    assert broken <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (20, {}, r"20 queries.*that takes 29"),
        (200, {"alpha": 0.01}, r"200 queries.*that takes 299"),
        (40, {"alpha": 0.0}, "alpha"),
        (40, {"tolerated": 1.0}, "tolerated=1"),
        (40, {"confidence": 1.5}, "confidence"),
    ],
)
def test_a_promise_that_cannot_be_kept_says_what_it_takes(n, options, message):
    ranking = np.tile(np.arange(5), (n, 1))
    with pytest.raises(ValueError, match=message):
        calibrate_cutoff(ranking, np.column_stack([np.arange(n), [0] * n]), **options)


def test_rankings_that_are_too_short_are_refused():
    ranking = np.tile(np.arange(5), (40, 1))
    with pytest.raises(ValueError, match="40 of 40 queries are missed at the deepest cut-off, 5"):
        calibrate_cutoff(ranking, np.column_stack([np.arange(40), [9] * 40]))


@pytest.mark.parametrize("kind", ["csr", "coo"])
def test_repeated_entries_have_one_rank(kind):
    """Their sum is the score, as everywhere else."""
    data, rows, columns = [1.0, 1.0, 1.5, 5.0], [0, 0, 0, 1], [2, 2, 0, 1]
    made = sparse.coo_array((data, (rows, columns)), (2, 4))
    if kind == "csr":
        made = sparse.csr_array((data, [2, 2, 0, 1], [0, 3, 4]), (2, 4))
    assert_allclose(reciprocal_ranks(made).toarray(), [[1 / 62, 0, 1 / 61, 0], [0, 1 / 61, 0, 0]])
    assert made.nnz == 4  # what was given stays


@pytest.mark.parametrize("unit", [2.0**-660, 2.0**660])
@pytest.mark.parametrize("normalization", ["raw", "range", "spread"])
def test_units_of_scores_change_no_ranking(unit, normalization):
    given, relevance = columns(0, (2.0, 1.0), shift=40.0)
    rng = np.random.default_rng(0)
    Q, X = rng.normal(size=(60, 5)), rng.normal(size=(80, 5))
    adapter = QueryAdapter(1.0, normalization=normalization, random_state=0)
    fusions, adapted = [], []
    for scores in (given, {name: unit * column for name, column in given.items()}):
        with np.errstate(all="raise", under="ignore"):
            fusion = fuse(scores, relevance, normalization=normalization)
            fusions.append(fusion.rank(scores)[0])
            adapted.append(adapter.fit(Q, X, relevance, scores).rank(Q, X, scores)[0])
    assert_array_equal(*fusions)
    assert_array_equal(*adapted)
