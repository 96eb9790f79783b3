"""Measures of judged retrieval: worked by hand, and against two other implementations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import average_precision_score, ndcg_score

from conemetric.core import slices
from conemetric.evaluation.statistics import paired_difference
from conemetric.ranking import measures as measures
from conemetric.ranking.judgements import check_relevance


def random_case(seed, n_queries=12, n_documents=60):
    """A complete ranking without ties, its scores, and judgements with grades -1 to 3."""
    rng = np.random.default_rng(seed)
    scores = rng.permuted(np.tile(np.arange(n_documents), (n_queries, 1)), axis=1)
    grades = rng.integers(-1, 4, size=scores.shape)
    judged = rng.uniform(size=scores.shape) < 0.2
    judged[:, 0] = True
    grades[:, 0] = 1  # at least one relevant document each
    rows = np.argwhere(judged)
    relevance = np.column_stack([rows, grades[judged]])
    return np.argsort(-scores, axis=1), scores, np.where(judged, grades, 0).clip(0), relevance


def test_worked_by_hand():
    """Grades 0 2 1 - 3 in the order found, and a relevant document that was not: as
    trec_eval counts, misses included.
    """
    ranking = [[10, 11, 12, 13, 14]]
    relevance = [[0, 10, 0], [0, 11, 2], [0, 12, 1], [0, 14, 3], [0, 20, 1]]
    log = np.log2
    reached = 3 / log(3) + 1 / log(4) + 7 / log(6)
    best = 7 + 3 / log(3) + 1 / log(4) + 1 / log(5)
    assert measures.ndcg(ranking, relevance, 5) == pytest.approx(reached / best)
    linear = (2 / log(3) + 1 / log(4) + 3 / log(6)) / (3 + 2 / log(3) + 1 / log(4) + 1 / log(5))
    assert measures.ndcg(ranking, relevance, 5, gain="linear") == pytest.approx(linear)
    assert measures.reciprocal_rank(ranking, relevance) == 0.5
    assert measures.average_precision(ranking, relevance) == pytest.approx(
        (1 / 2 + 2 / 3 + 3 / 5) / 4
    )
    assert measures.recall(ranking, relevance, 2) == 0.25
    assert measures.recall(ranking, relevance, 100) == 0.75
    assert measures.hit_rate(ranking, relevance, 1) == 0
    assert measures.hit_rate(ranking, relevance, 2) == 1


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn(seed):
    ranking, scores, grades, relevance = random_case(seed)
    for k in (1, 5, 10, 60):
        expected = [ndcg_score([g], [s], k=k) for g, s in zip(grades, scores, strict=True)]
        assert_allclose(measures.ndcg(ranking, relevance, k, gain="linear"), expected)
        expected = [ndcg_score([2.0**g - 1], [s], k=k) for g, s in zip(grades, scores, strict=True)]
        assert_allclose(measures.ndcg(ranking, relevance, k), expected)
    expected = [average_precision_score(g > 0, s) for g, s in zip(grades, scores, strict=True)]
    assert_allclose(measures.average_precision(ranking, relevance), expected)


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_ranx(seed):
    """Ranx is itself held to trec_eval."""
    ranx = pytest.importorskip("ranx")
    ranking, scores, _, relevance = random_case(seed)
    qrels, run = {}, {}
    for query, document, grade in relevance.tolist():
        qrels.setdefault(str(query), {})[str(document)] = max(grade, 0)
    for query, documents in enumerate(ranking[:, :20].tolist()):
        run[str(query)] = {str(d): float(scores[query, d]) for d in documents}
    names = {
        "ndcg_burges@10": measures.ndcg(ranking, relevance, 10),
        "ndcg@10": measures.ndcg(ranking, relevance, 10, gain="linear"),
        "mrr@10": measures.reciprocal_rank(ranking, relevance, 10),
        "map@20": measures.average_precision(ranking, relevance, 20),
        "recall@15": measures.recall(ranking, relevance, 15),
        "hit_rate@5": measures.hit_rate(ranking, relevance, 5),
    }
    theirs = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), list(names), return_mean=False)
    order = np.argsort([str(query) for query in range(len(ranking))])
    for name, ours in names.items():
        assert_allclose(ours[order], theirs[name], err_msg=name)


def test_judgements_in_any_form_and_queries_without_any():
    ranking, _, _, relevance = random_case(0)
    more = np.vstack([ranking, ranking[:1]])  # a query nobody judged
    ours = measures.ndcg(more, relevance)
    assert np.isnan(ours[-1])
    assert not np.isnan(ours[:-1]).any()
    shape = (len(more), 60)
    matrix = sparse.csr_array((relevance[:, 2], tuple(relevance[:, :2].T)), shape)
    assert_array_equal(measures.ndcg(more, matrix), ours)
    assert_array_equal(measures.ndcg(more, check_relevance(relevance, *shape)), ours)


@pytest.mark.parametrize("similarity", ["cosine", "inner", "euclidean"])
def test_ranks_as_a_full_sort_does_in_any_number_of_blocks(similarity, asarray, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    Q, D = rng.normal(size=(7, 5)).astype(dtype), 3 + rng.normal(size=(40, 5)).astype(dtype)
    D[5] = D[3]  # a tie goes to the lower number
    q, d = Q.astype(float), D.astype(float)
    scores = {
        "cosine": q @ (d / np.linalg.norm(d, axis=1, keepdims=True)).T,
        "inner": q @ d.T,
        "euclidean": -((q[:, None] - d) ** 2).sum(2),
    }[similarity]
    expected = np.argsort(-scores, axis=1, kind="stable")
    for block in (1, 100, 1 << 20):
        monkeypatch.setattr(slices, "MAX_HELD", block)
        for k in (1, 6, 99):
            found = measures.rank(asarray(Q), asarray(D), k, similarity)
            assert_array_equal(found, expected[:, :k])


def test_ties_at_the_last_place_go_to_the_lower_number(asarray):
    documents = np.zeros((50, 2))
    documents[40] = 1
    found = measures.rank(asarray(np.ones((3, 2))), asarray(documents), 4, "inner")
    assert_array_equal(found, np.tile([40, 0, 1, 2], (3, 1)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.ndcg([0, 1], [[0, 1]]), "one row for each query"),
        (lambda: measures.ndcg([[0.5]], [[0, 1]]), "dtype float64"),
        (lambda: measures.ndcg([[0]], [[0, 1]], gain="cubic"), "gain='cubic'"),
        (lambda: measures.ndcg([[0]], [[0, 1]], k=0), "k=0"),
        (lambda: measures.recall([[0]], [[1, 1]]), "queries that are not there"),
        (lambda: measures.rank(np.ones((2, 3)), np.ones((2, 4))), "same number of features"),
        (lambda: measures.rank(np.ones((2, 3)), np.ones((2, 3)), 0), "k=0"),
        (lambda: measures.rank(np.ones((2, 3)), np.ones((2, 3)), 1, "dot"), "similarity='dot'"),
        (lambda: measures.ndcg([[0]], check_relevance([[0, 1]], 2, 2)), "2 queries"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_paired_difference_is_the_exact_randomisation_test_on_few_queries():
    """All 2^n sign patterns can be listed, so the p-value is a count."""
    rng = np.random.default_rng(0)
    before, after = rng.uniform(size=(2, 8))
    d = after - before
    signs = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    means = (signs * d).mean(axis=1)
    expected = min(
        1, 2 * min((means >= d.mean() - 1e-12).mean(), (means <= d.mean() + 1e-12).mean())
    )
    result = paired_difference(before, after)
    assert result.difference == pytest.approx(d.mean())
    assert result.p_value == pytest.approx(expected)
    assert result.low < d.mean() < result.high
    assert result.n == 8


def test_paired_difference_leaves_out_nan_covers_the_truth_and_names_bad_input():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(60):
        before = rng.normal(size=80)
        after = before + 0.1 + 0.5 * rng.normal(size=80)
        after[:3] = np.nan
        result = paired_difference(before, after, n_resamples=299)
        assert result.n == 77
        covered += result.low <= 0.1 <= result.high
    assert 50 <= covered <= 60
    equal = paired_difference(before, before)
    assert (equal.difference, equal.low, equal.high, equal.p_value) == (0, 0, 0, 1)
    with pytest.raises(ValueError, match="at least 2"):
        paired_difference([1.0], [2.0])
    with pytest.raises(ValueError, match="one value per query"):
        paired_difference([1.0, 2.0], [2.0])


@pytest.mark.parametrize(
    "measure", ["ndcg", "average_precision", "recall", "reciprocal_rank", "hit_rate"]
)
def test_a_document_listed_twice_is_refused(measure):
    """It would count twice: an nDCG of 1.6, and a cut-off that promises too much."""
    relevance = [[0, 1], [1, 3], [1, 4]]
    with pytest.raises(ValueError, match=r"ranking\[1\] names a document twice"):
        getattr(measures, measure)([[1, 2, 3], [3, 5, 3]], relevance)
    getattr(measures, measure)([[1, 2, -1], [3, -1, -1]], relevance)
