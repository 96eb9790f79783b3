"""Bad input to everything public that ranks: refused before work, with argument, value, remedy."""

import warnings

import numpy as np
import pytest
from cases import each
from judged import collection, part
from scipy import sparse

from conemetric import (
    FrobMetric,
    QueryAdapter,
    RelevanceMetric,
    calibrate_cutoff,
    fuse,
)
from conemetric.ranking import measures
from conemetric.storage import LearnedMap

KINDS = pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric])
Q, X, RELEVANCE = collection()
DENSE = np.random.default_rng(0).random((60, 120))
COLUMN = sparse.csr_array(DENSE)


@pytest.fixture(scope="module")
def rankers():
    """Everything with ``rank(scores=...)``, learned with one column, as functions of scores, k."""
    known = {"words": COLUMN}
    estimators = [
        kind(0.3, random_state=0).fit(Q, X, RELEVANCE, known)
        for kind in (QueryAdapter, RelevanceMetric)
    ]
    for estimator in estimators:
        estimator.normalization_, estimator.score_weights_["words"] = "raw", 0.5
    estimators += [LearnedMap.from_estimator(estimator) for estimator in estimators]
    functions = [lambda s, k=5, e=e: e.rank(Q, X, s, k) for e in estimators]
    fusion = fuse({"words": COLUMN}, RELEVANCE)
    return {
        **dict(zip(("adapter", "metric", "adapter file", "metric file"), functions, strict=True)),
        "fusion": lambda s, k=5: fusion.rank(s, k),
    }


RANKERS = pytest.mark.parametrize(
    "name", ["adapter", "metric", "adapter file", "metric file", "fusion"]
)
# columns that nothing accepts, by what the message says
BAD_COLUMNS = {
    "dense": ({"words": DENSE}, "scipy.sparse matrix"),
    "rows": ({"words": COLUMN[:7]}, r"shape \(7, 120\)"),
    "nan": ({"words": COLUMN * np.nan}, "NaN or infinite"),
    "infinite": ({"words": COLUMN * np.inf}, "NaN or infinite"),
    "complex": ({"words": COLUMN * 1j}, "dtype complex128"),
    "no dict": (COLUMN, "pass a dict of columns"),
}


@RANKERS
@each("case", [*BAD_COLUMNS, "missing", "none", "unknown"])
def test_columns_at_rank_time(rankers, name, case):
    if name == "fusion" and case == "rows":
        return  # a fusion knows no other shape
    scores, message = {
        **BAD_COLUMNS,
        "missing": ({}, "scores lacks 'words'"),
        "none": (None, "scores lacks 'words'"),
        "unknown": ({"words": COLUMN, "wrods": COLUMN}, "scores names 'wrods'.*'words'"),
    }[case]
    with pytest.raises((TypeError, ValueError), match=message):
        rankers[name](scores)


@pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric, fuse])
@pytest.mark.parametrize("how", ["raw", "range", "spread"])
@each("score", [-0.01, -5.0, 1e9, 1e308, -1e308])
@pytest.mark.costly
def test_every_finite_score_is_ranked_by(kind, how, score):
    """Also those that no training query had; before, one negative score refused the whole batch."""
    if kind is fuse:
        model = fuse({"words": COLUMN}, RELEVANCE, normalization=how)
        given = ()
    else:
        model = kind(0.3, normalization=how, random_state=0).fit(Q, X, RELEVANCE, {"words": COLUMN})
        given = Q, X
    served = COLUMN.copy()
    served.data[3] = score  # document 3 of query 0
    found, scores = model.rank(*given, {"words": served}, k=120)
    usual, _ = model.rank(*given, {"words": COLUMN}, k=120)
    assert np.isfinite(scores).all()
    assert sorted(found[0]) == list(range(120))
    np.testing.assert_array_equal(found[1:], usual[1:])
    if abs(score) > 1e8 and (how == "raw" or kind is fuse):  # other scales are bounded
        assert found[0, 0 if score > 0 else -1] == 3


@KINDS
def test_feedback_takes_negative_scores_in_the_scale_that_was_learned(kind):
    model = kind(0.3, normalization="raw", random_state=0).fit(Q, X, RELEVANCE, {"words": COLUMN})
    served = COLUMN.copy()
    served.data[::50] = -0.01
    model.partial_fit(Q, X, RELEVANCE, {"words": served})
    assert model.certificate_.relative_gap <= 1e-3
    assert model.normalization_ == "raw"


@RANKERS
@pytest.mark.parametrize("k", [0, -3, "x", 2.5, None, True])
def test_depths(rankers, name, k):
    with pytest.raises(ValueError, match=f"k={k!r} must be an integer of at least 1"):
        rankers[name]({"words": COLUMN}, k)


@RANKERS
def test_more_documents_than_there_are(rankers, name):
    found, scores = rankers[name]({"words": COLUMN}, 1000)
    assert found.shape == scores.shape
    assert found.shape[1] == (1000 if name == "fusion" else 120)
    assert sorted(found[0, :120]) == list(range(120))
    assert (found[:, 120:] == -1).all()


@RANKERS
def test_queries_that_no_column_lists(rankers, name):
    found, scores = rankers[name]({"words": sparse.csr_array(COLUMN.shape)}, 4)
    assert found.shape == scores.shape == (60, 4)
    assert (found == -1).all() == (name == "fusion")


@KINDS
@pytest.mark.parametrize("C", ["auto", 0.3])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.costly
def test_a_column_without_information_gets_no_weight(kind, C, beside):
    """It lists nothing, or all alike."""
    few = part((Q, X, RELEVANCE), np.arange(16))
    for column in (sparse.csr_array((16, 120)), sparse.csr_array(np.ones((16, 120)))):
        scores = {"none": column, **({"words": COLUMN[:16]} if beside else {})}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = kind(C, random_state=0).fit(*few, scores)
        assert fitted.score_weights_["none"] == pytest.approx(0, abs=1e-12)
        assert fitted.rank(few[0], X, scores, 3)[0].min() >= 0


@KINDS
@pytest.mark.parametrize("C", ["auto", 0.3])
@each(
    ("scores", "message"),
    [
        *BAD_COLUMNS.values(),
        ({}, "pass a dict of columns"),
        ({"embedding": COLUMN}, "rename it"),
        ({3: COLUMN}, r"names \[3\]"),
        ({"words": lambda query, document: query * 1.0}, "words'. is function; .*engine_scores"),
    ],
)
def test_columns_at_fit_time(kind, C, scores, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kind(C, random_state=0).fit(Q, X, RELEVANCE, scores)


@KINDS
def test_raw_scores_below_zero(kind):
    with pytest.raises(ValueError, match=r"normalization='raw' does not suit.*range, spread"):
        kind(0.3, normalization="raw").fit(Q, X, RELEVANCE, {"words": -1 * COLUMN})
    with pytest.raises(ValueError, match="'normalization' parameter"):
        kind(0.3, normalization="none").fit(Q, X, RELEVANCE, {"words": COLUMN})


@KINDS
@pytest.mark.parametrize("scores", [None, {"words": COLUMN}])
@pytest.mark.parametrize("forget", [-0.1, 1.0, np.nan, "x", None])
def test_forgetting(kind, scores, forget):
    with pytest.raises(ValueError, match=f"forget={forget!r}"):  # also at the first call
        kind(0.3).partial_fit(Q, X, RELEVANCE, scores, forget=forget)
    fitted = kind(0.3, normalization="raw", random_state=0).fit(Q, X, RELEVANCE, scores)
    before = np.array(fitted.components_)
    with pytest.raises(ValueError, match=f"forget={forget!r} must be a number between 0 and 1"):
        fitted.partial_fit(Q, X, RELEVANCE, scores, forget=forget)
    with pytest.raises(ValueError, match="scores names 'other'"):
        fitted.partial_fit(Q, X, RELEVANCE, {**(scores or {}), "other": COLUMN})
    if scores:
        with pytest.raises(ValueError, match="scores lacks 'words'"):
            fitted.partial_fit(Q, X, RELEVANCE)
    np.testing.assert_array_equal(fitted.components_, before)


BAD_RELEVANCE = {
    "flat": ([1, 2, 3], r"relevance has shape \(3,\)"),
    "empty": ([], r"relevance has shape \(0,\)"),
    "no rows": (np.zeros((0, 2), int), "0 judgements"),
    "one column": ([[1], [2]], r"relevance has shape \(2, 1\)"),
    "words": ([["a", "b"]], "dtype <U1"),
    "fractions": ([[0.5, 1]], "fractions"),
    "missing": ([[np.nan, 1]], "fractions"),
    "not a number": ([[0, np.nan]], "fractions"),
    "query": ([[60, 1]], "queries that are not there"),
    "negative": ([[0, -1]], "documents that are not there"),
    "infinite": ([[0, np.inf]], "fractions or NaN"),
    "huge": ([[0, 1e300]], "fractions or NaN"),
    "grades": ([[0, 1, np.nan]], "NaN or infinite"),
    "irrelevant": ([[0, 1, 0]], "none with a grade above 0"),
}
RANKING = np.tile(np.arange(20), (60, 1))


@each("case", BAD_RELEVANCE)
@pytest.mark.parametrize(
    "use",
    [
        lambda relevance: calibrate_cutoff(RANKING, relevance),
        lambda relevance: fuse({"words": COLUMN}, relevance),
        lambda relevance: measures.ndcg(RANKING, relevance),
        lambda relevance: measures.average_precision(RANKING, relevance),
        lambda relevance: QueryAdapter(0.3).fit(Q, X, relevance),
        lambda relevance: RelevanceMetric(0.3).fit(Q, X, relevance),
    ],
)
def test_relevance(use, case):
    relevance, message = BAD_RELEVANCE[case]
    with pytest.raises(ValueError, match=message):
        use(relevance)


@pytest.mark.parametrize("measure", [measures.ndcg, calibrate_cutoff])
@pytest.mark.parametrize(
    ("ranking", "relevance", "message"),
    [
        (np.arange(20), RELEVANCE, r"ranking has shape \(20,\)"),
        (np.zeros((60, 0), int), RELEVANCE, r"ranking has shape \(60, 0\)"),
        (RANKING * 1.0, RELEVANCE, "dtype float64"),
        (RANKING[:7], sparse.csr_array(np.ones((60, 120))), r"relevance has shape \(60, 120\)"),
        (RANKING + 10, sparse.csr_array(np.ones((60, 25))), "ranking names document 29"),
    ],
)
def test_rankings(measure, ranking, relevance, message):
    with pytest.raises(ValueError, match=message):
        measure(ranking, relevance)


@pytest.mark.parametrize("name", ["alpha", "confidence", "tolerated"])
@pytest.mark.parametrize("value", [-0.1, 1.0, "x", None, np.nan])
def test_shares_of_a_cutoff(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} must be a number between 0 and 1"):
        calibrate_cutoff(RANKING, RELEVANCE, **{name: value})


@pytest.mark.parametrize("k", [0, "x", 1.5])
def test_depths_of_measures(k):
    for use in (
        lambda: measures.ndcg(RANKING, RELEVANCE, k),
        lambda: measures.recall(RANKING, RELEVANCE, k),
        lambda: measures.rank(Q, X, k),
    ):
        with pytest.raises(ValueError, match=f"k={k!r} must be an integer"):
            use()


@pytest.mark.parametrize("normalization", [None, "none", "rank 60"])
def test_normalisations_of_a_fusion(normalization):
    with pytest.raises(ValueError, match=f"normalization={normalization!r} does not suit"):
        fuse({"words": COLUMN}, RELEVANCE, normalization=normalization)


def test_only_learned_rankings_rank():
    metric = LearnedMap.from_estimator(FrobMetric().fit(X, np.arange(120) % 3))
    assert metric.score_weights_ == {} and metric.normalization_ is None
    with pytest.raises(TypeError, match="FrobMetric was not learned from judged queries"):
        metric.rank(Q, X)


@KINDS
def test_columns_for_an_estimator_without_any(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(0.3, random_state=0).fit(Q, X, RELEVANCE)
    with pytest.raises(ValueError, match=r"scores names 'words'.*no columns"):
        fitted.rank(Q, X, {"words": COLUMN})
