"""RelevanceMetric and QueryAdapter: the optimum of their programs, units, the choice on
held-out queries, all forms of judgements, errors.
"""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from judged import collection, part
from numpy.testing import assert_allclose, assert_array_equal
from oracles import bilinear_optimum, frobenius_optimum
from scipy import sparse
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from conemetric import (
    FrobMetric,
    LearnedAdapter,
    QueryAdapter,
    RelevanceMetric,
    blend,
    load_metric,
    save_metric,
)
from conemetric.core.arrays import to_numpy
from conemetric.export import to_sql
from conemetric.ranking import base, choice
from conemetric.ranking.candidates import CONFIDENCE, Setting
from conemetric.ranking.measures import ndcg, rank
from conemetric.ranking.model import RankingModel
from conemetric.ranking.program import RankingProgram
from conemetric.storage import LearnedMap

BOTH = pytest.mark.parametrize("kind", [RelevanceMetric, QueryAdapter])


def comparisons_of(estimator, data):
    """What the estimator's fit compared, as it sees it."""
    checked = estimator._validate(*data, reset=True)
    seed = np.random.RandomState(estimator.random_state).randint(2**31 - 1)
    margin = estimator._form.margins[0]
    setting = Setting(estimator.C, margin, estimator.n_hard, estimator.n_random)
    return checked, RankingProgram(estimator._form).comparisons(checked, setting, seed), setting


def program_of(estimator, checked, comparisons, setting):
    model = RankingProgram(estimator._form)
    operator = model.operator(model.mapped(checked, comparisons))
    return model.program(operator, comparisons, setting)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("C", [0.03, 3.0])
def test_metric_reaches_the_optimum_of_its_program(seed, C):
    data = collection(seed, n_queries=6, n_documents=15, D=3)
    metric = RelevanceMetric(C, n_hard=2, n_random=2, tol=1e-6, random_state=0).fit(*data)
    checked, comparisons, setting = comparisons_of(metric, data)
    points = np.vstack(checked.rows) @ comparisons.T
    triplets = comparisons.triplets + np.array([0, 6, 6])
    optimum = frobenius_optimum(
        points,
        triplets,
        C * 3 / setting.margin,
        "hinge",
        comparisons.prior / setting.margin,
        comparisons.weights,
    )
    assert metric.objective_ == pytest.approx(optimum, rel=2e-6)
    assert metric.certificate_.dual <= optimum * (1 + 1e-7)
    # and the metric stored is that optimum
    point = comparisons.inverse @ metric.components_.T
    program = program_of(metric, checked, comparisons, setting)
    assert program.certify(point, metric.multipliers_).primal == pytest.approx(optimum, rel=2e-6)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("C", [0.03, 3.0])
def test_adapter_reaches_the_optimum_of_its_program(seed, C):
    data = collection(seed, n_queries=6, n_documents=15, D=3)
    adapter = QueryAdapter(C, n_hard=2, n_random=2, tol=1e-6, random_state=0).fit(*data)
    checked, comparisons, setting = comparisons_of(adapter, data)
    mapped = [X @ comparisons.T for X in checked.rows]
    optimum = bilinear_optimum(
        *mapped,
        comparisons.triplets,
        C * 3 / setting.margin,
        comparisons.prior / setting.margin,
        weights=comparisons.weights,
    )
    assert adapter.objective_ == pytest.approx(optimum, rel=2e-6)
    assert adapter.certificate_.dual <= optimum * (1 + 1e-7)
    W = comparisons.inverse @ adapter.components_.T @ comparisons.inverse
    program = program_of(adapter, checked, comparisons, setting)
    assert program.certify(W, adapter.multipliers_).primal == pytest.approx(optimum, rel=2e-6)


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_an_embedding_that_needs_no_change_is_proven_optimal(kind, seed):
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(8, 4)) * 10.0 ** rng.uniform(-1, 1)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    own = np.column_stack([np.arange(8), np.arange(8)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = kind(1e-6, n_hard=1, n_random=0, random_state=0).fit(
            20 * documents, documents, own
        )
    assert fitted.certificate_.status == "converged"


@BOTH
def test_every_query_weighs_the_same(kind):
    data = collection()
    _, comparisons, _ = comparisons_of(kind(1.0, random_state=0), data)
    weights = np.bincount(comparisons.triplets[:, 0], comparisons.weights)
    assert_allclose(weights, 1)


@BOTH
def test_learns_and_certifies_in_every_library_and_precision(kind, asarray, dtype):
    Q, D, relevance = collection(dtype=dtype)
    fitted = kind(1.0, random_state=0).fit(asarray(Q), asarray(D), relevance)
    reference = kind(1.0, random_state=0).fit(*collection())
    assert type(fitted.components_) is type(asarray(Q))
    assert to_numpy(fitted.components_).dtype == dtype
    assert fitted.certificate_.relative_gap <= fitted.tol
    assert fitted.objective_ == pytest.approx(reference.objective_, rel=3e-3)
    score = fitted.score(asarray(Q), asarray(D), relevance)
    assert score == pytest.approx(reference.score(*collection()), abs=0.02)
    assert score > np.nanmean(ndcg(rank(Q, D, 10), relevance)) + 0.03


@BOTH
@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_units_change_nothing(kind, scale):
    Q, D, relevance = collection()
    first = kind(1.0, random_state=0, tol=1e-6).fit(Q, D, relevance)
    second = kind(1.0, random_state=0, tol=1e-6).fit(scale * Q, scale * D, relevance)
    assert second.objective_ == pytest.approx(first.objective_, rel=1e-5)
    ratio = scale if kind is RelevanceMetric else 1.0
    assert_allclose(
        ratio**2 * second.components_.T @ second.components_,
        first.components_.T @ first.components_,
        atol=1e-3 * abs(first.components_).max() ** 2,
    )


@BOTH
def test_path_begins_at_the_embedding(kind):
    """As C goes to zero, rankings become those of the embedding as it is."""
    Q, D, relevance = collection()
    fitted = kind(1e-7, random_state=0).fit(Q, D, relevance)
    mapped = fitted.transform_queries(Q), fitted.transform_documents(D)
    assert_array_equal(rank(*mapped, 20, fitted.model_.similarity), rank(Q, D, 20))
    M = fitted.components_.T @ fitted.components_
    assert_allclose(M, np.eye(6) * M[0, 0], atol=1e-4 * M[0, 0])


@BOTH
def test_auto_finds_what_helps_unseen_queries(kind):
    data = collection(n_queries=160)
    train, test = part(data, np.arange(100)), part(data, np.arange(100, 160))
    fitted = kind(random_state=0).fit(*train)
    frozen = np.nanmean(ndcg(rank(*test[:2], 10), test[2]))
    assert fitted.score(*test) > frozen + 0.03
    candidates = fitted.candidates_
    assert candidates[0].setting.C == 0
    assert candidates[0].gain == candidates[0].standard_error == 0
    best = fitted.chosen_
    assert best in candidates and best.setting == fitted.setting_
    assert fitted.C_ == best.setting.C > 0
    assert best.is_sure and best.gain > student.ppf(CONFIDENCE, 99) * best.standard_error
    assert len(best.values) == 100
    assert best.mean == pytest.approx(candidates[0].mean + best.gain)


@BOTH
def test_auto_says_when_nothing_helps(kind):
    """The embedding ranks as well as can be."""
    Q, D, _ = collection()
    relevance = np.column_stack([np.arange(60), rank(Q, D, 1)])
    with pytest.warns(UserWarning, match=r"more than its error.*left as it is"):
        fitted = kind(random_state=0).fit(Q, D, relevance)
    assert fitted.C_ == fitted.setting_.C == 0
    assert fitted.certificate_.relative_gap == 0
    assert fitted.n_iter_ == 0
    mapped = fitted.transform_queries(Q), fitted.transform_documents(D)
    assert_array_equal(rank(*mapped, 20, fitted.model_.similarity), rank(Q, D, 20))


@BOTH
def test_auto_tries_random_negatives_where_near_documents_are_relevant_unjudged(kind):
    data = collection(n_queries=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(n_hard=3, n_random=4, random_state=0).fit(*data)
        only = kind(n_hard=3, n_random=0, random_state=0).fit(*data)
    mixes = {(c.setting.n_hard, c.setting.n_random) for c in fitted.candidates_[1:]}
    assert mixes == {(3, 4), (0, 7)}
    mixes = {(c.setting.n_hard, c.setting.n_random) for c in only.candidates_[1:]}
    assert mixes == {(3, 0)}


@BOTH
@pytest.mark.costly
def test_same_seed_same_bits(kind, asarray):
    Q, D, relevance = collection(n_queries=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = (
            kind(random_state=3).fit(asarray(Q), asarray(D), relevance) for _ in range(2)
        )
    assert_array_equal(to_numpy(first.components_), to_numpy(second.components_))
    other = kind(0.3, random_state=4).fit(asarray(Q), asarray(D), relevance)
    third = kind(0.3, random_state=3).fit(asarray(Q), asarray(D), relevance)
    assert (to_numpy(other.components_) != to_numpy(third.components_)).any()


@BOTH
def test_queries_without_a_relevant_document_count_for_nothing(kind):
    Q, D, relevance = collection()
    fitted = kind(1.0, random_state=0).fit(Q, D, relevance)
    more = np.vstack([Q[:1], Q])  # a query that nobody judged comes first
    shifted = relevance + np.array([1, 0, 0])
    again = kind(1.0, random_state=0).fit(more, D, np.vstack([[0, 3, 0], shifted]))
    assert_array_equal(fitted.components_, again.components_)
    matrix = sparse.csr_array((relevance[:, 2], tuple(relevance[:, :2].T)), (60, 120))
    assert_array_equal(kind(1.0, random_state=0).fit(Q, D, matrix).components_, fitted.components_)


@BOTH
def test_judgements_alone_can_teach(kind):
    """Grades 2 before 1 before 0, without a single negative drawn."""
    Q, D, relevance = collection()
    rng = np.random.default_rng(0)
    refused = np.column_stack([np.repeat(np.arange(60), 5), rng.integers(120, size=300), [0] * 300])
    everything = np.vstack([relevance, refused])
    fitted = kind(1.0, n_hard=0, n_random=8, random_state=0).fit(Q, D, everything)
    grades = {}
    for q, d, g in everything.tolist():
        grades[q, d] = max(g, grades.get((q, d), 0))
    known = [(grades[q, b], grades.get((q, w))) for q, b, w in fitted.comparisons_.tolist()]
    assert all(worse is None or better > worse for better, worse in known)
    assert {(2, 1), (2, 0), (1, 0), (2, None), (1, None)} <= set(known)
    assert fitted.score(Q, D, relevance) > np.nanmean(ndcg(rank(Q, D, 10), relevance))


def test_adapter_leaves_documents_alone(asarray):
    Q, D, relevance = collection()
    adapter = QueryAdapter(1.0, random_state=0).fit(asarray(Q), asarray(D), relevance)
    assert_array_equal(to_numpy(adapter.transform_documents(asarray(D))), D)
    assert adapter.document_components_ is None
    # the length of queries and documents is no matter to the cosine
    rng = np.random.default_rng(0)
    longer = rng.uniform(0.5, 2, (60, 1)) * Q, rng.uniform(0.5, 2, (120, 1)) * D
    again = QueryAdapter(1.0, random_state=0).fit(*longer, relevance)
    assert_allclose(again.components_, to_numpy(adapter.components_), atol=1e-3)
    assert again.score(*longer, relevance) == pytest.approx(again.score(Q, D, relevance))
    # but to the inner product it is
    inner = QueryAdapter(1.0, similarity="inner", random_state=0).fit(*longer, relevance)
    assert abs(inner.components_ - again.components_).max() > 1e-2
    assert inner.score(*longer, relevance) > np.nanmean(ndcg(rank(*longer, 10, "inner"), relevance))


def test_shorter_metrics_are_nested_and_lead_by_spread(asarray):
    Q, D, relevance = collection()
    fit = (asarray(Q), asarray(D), relevance)
    whole = RelevanceMetric(1.0, random_state=0).fit(*fit)
    short = RelevanceMetric(1.0, n_components=2, random_state=0).fit(*fit)
    assert_allclose(to_numpy(short.components_), to_numpy(whole.components_)[:2])
    spread = to_numpy(whole.transform(asarray(D))).var(axis=0)
    assert np.all(np.diff(spread) <= 1e-9)
    covariance = np.cov(to_numpy(whole.transform(asarray(D))).T)
    assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9 * covariance.max())
    # the certificate is about the two directions kept
    assert short.certificate_.primal > whole.certificate_.primal
    assert short.certificate_.dual == pytest.approx(whole.certificate_.dual)


def test_shorter_adapters_are_nested():
    data = collection()
    whole = QueryAdapter(1.0, n_components=6, random_state=0).fit(*data)
    short = QueryAdapter(1.0, n_components=2, random_state=0).fit(*data)
    plain = QueryAdapter(1.0, random_state=0).fit(*data)
    for name in ("components_", "document_components_"):
        assert_allclose(getattr(short, name), getattr(whole, name)[:2], atol=1e-9)
    Q, D, _ = data
    scores = whole.transform_queries(Q) @ whole.transform_documents(D).T
    assert_allclose(scores, plain.transform_queries(Q) @ D.T, atol=1e-9)
    assert short.transform_documents(D).shape == (120, 2)
    second_moment = whole.transform_documents(D).T @ whole.transform_documents(D)
    assert np.all(np.diff(np.diag(second_moment)) <= 1e-9)


def test_metric_is_updated_by_new_judgements(asarray):
    """A metric as prior: without a loss it stays, and new judgements start from it."""
    data = collection(n_queries=120)
    first = RelevanceMetric(1.0, random_state=0).fit(*part(data, np.arange(60)))
    Q, D, relevance = part(data, np.arange(60, 120))
    fit = (asarray(Q), asarray(D), relevance)
    same = RelevanceMetric(1e-8, prior=first, random_state=0).fit(*fit)
    before = rank(first.transform(Q), first.transform(D), 10, "euclidean")
    mapped = to_numpy(same.transform(asarray(Q))), to_numpy(same.transform(asarray(D)))
    assert_array_equal(rank(*mapped, 10, "euclidean"), before)
    updated = RelevanceMetric(1.0, prior=first.get_mahalanobis_matrix(), random_state=0).fit(*fit)
    assert updated.score(*fit) > first.score(Q, D, relevance)
    plain = FrobMetric().fit(D, np.arange(120) % 3)
    assert RelevanceMetric(1.0, prior=plain, random_state=0).fit(*fit).C_ == 1.0


def test_metric_is_kept_in_a_file(tmp_path):
    Q, D, relevance = collection()
    metric = RelevanceMetric(1.0, random_state=0).fit(Q, D, relevance)
    save_metric(tmp_path / "metric.safetensors", metric)
    loaded = load_metric(tmp_path / "metric.safetensors")
    assert_allclose(loaded.transform(Q), metric.transform(Q), atol=1e-12)
    assert loaded.certificate == metric.certificate_


def test_adapter_is_kept_in_a_file_and_is_no_distance(tmp_path):
    Q, D, relevance = collection()
    adapter = QueryAdapter(1.0, random_state=0).fit(Q, D, relevance)
    save_metric(tmp_path / "adapter.safetensors", adapter)
    loaded = load_metric(tmp_path / "adapter.safetensors")
    assert_allclose(loaded.transform(Q), adapter.transform_queries(Q), atol=1e-12)
    assert loaded.certificate == adapter.certificate_ and type(loaded) is LearnedAdapter
    # a file names the class but no module, so that it survives a move of the class
    assert type(adapter).__module__.encode() not in (tmp_path / "adapter.safetensors").read_bytes()
    for use in (
        lambda: to_sql(loaded, "duckdb"),
        lambda: blend([loaded, loaded]),
    ):
        with pytest.raises(TypeError, match="not a distance"):
            use()
    assert not hasattr(loaded, "get_mahalanobis_matrix") and not hasattr(loaded, "pair_distance")
    with pytest.raises(ValueError, match="prior"):
        FrobMetric(prior=loaded).fit(D, np.arange(120) % 3)


def test_a_short_adapter_in_a_file_maps_documents_too(tmp_path):
    Q, D, relevance = collection()
    adapter = QueryAdapter(1.0, n_components=2, random_state=0).fit(Q, D, relevance)
    save_metric(tmp_path / "adapter.safetensors", adapter)
    loaded = load_metric(tmp_path / "adapter.safetensors")
    for ours, theirs in zip(loaded.rank(Q, D), adapter.rank(Q, D), strict=True):
        assert_allclose(ours, theirs, atol=1e-12)


@BOTH
def test_the_state_of_a_model_restores_it(kind):
    Q, D, relevance = collection()
    model = kind(1.0, n_components=4, random_state=0).fit(Q, D, relevance).model_
    again = RankingModel.from_state(model.state())
    assert_array_equal(again.rank(Q, D)[1], model.rank(Q, D)[1])
    for wrong, message in (
        ({"similarity": "hamming"}, "similarity is 'hamming'"),
        ({"weights": {"words": 1.0}}, r"weights is .*expected one of embedding"),
        ({"weights": {"embedding": -1.0}}, "weights.embedding is -1.0"),
        ({"weights": {"embedding": 1.0, "words": 1.0}}, "normalization is None"),
        ({"normalization": "middle"}, "normalization is 'middle'"),
    ):
        with pytest.raises(ValueError, match=message):
            RankingModel.from_state(model.state() | wrong)


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
def test_ties_depend_neither_on_the_order_of_documents_nor_on_the_file(similarity, seed):
    """Multiples of a document tie under the cosine, copies of one are one."""
    rng = np.random.default_rng(seed)
    Q, D, relevance = collection(seed, n_queries=12, n_documents=30)
    factors = np.exp2(rng.integers(-3, 4, 30)) if similarity == "cosine" else np.ones(30)
    D = np.concatenate([D, D[::-1] * factors[:, None], D * 8])
    adapter = QueryAdapter(1.0, similarity=similarity, random_state=0).fit(Q, D, relevance)
    found = D[adapter.rank(Q, D, k=12)[0]]
    order = rng.permutation(len(D))
    assert_array_equal(D[order][adapter.rank(Q, D[order], k=12)[0]], found)
    loaded = LearnedMap.from_estimator(adapter)
    assert_array_equal(D[loaded.rank(Q, D, k=12)[0]], found)


@BOTH
def test_conventions(kind):
    data = collection()
    estimator = kind(1.0, n_components=3, random_state=0)
    assert clone(estimator).get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        estimator.transform_queries(data[0])
    fitted = estimator.fit(*data)
    assert fitted is estimator
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.transform_queries(data[0]), fitted.transform_queries(data[0]))
    assert fitted.n_features_in_ == 6
    with pytest.raises(ValueError, match="expecting 6 features"):
        fitted.transform_queries(data[0][:, :5])
    with pytest.raises(ValueError, match="expecting 6 features"):
        fitted.score(data[0][:, :5], data[1][:, :5], data[2])


@BOTH
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("form", ["X", "X and y", "queries, documents and relevance"])
def test_fit_transform_is_refused_with_a_remedy(kind, fitted, form):
    """Its y would be the documents, and its result the mapped queries alone."""
    Q, D, relevance = collection(n_queries=10)
    estimator = kind(1.0, random_state=0)
    if fitted:
        estimator.fit(Q, D, relevance)
    arguments = {"X": (Q,), "X and y": (Q, D)}.get(form, (Q, D))
    more = {"relevance": relevance} if "relevance" in form else {}
    with pytest.raises(TypeError, match=rf"{kind.__name__}.fit\(queries, documents, relevance\)"):
        estimator.fit_transform(*arguments, **more)


@pytest.mark.parametrize("missing", sorted(base.RankingEstimator.__abstractmethods__))
def test_a_subclass_without_an_abstract_method_cannot_be_made(missing):
    methods = {name: None for name in base.RankingEstimator.__abstractmethods__ - {missing}}
    with pytest.raises(TypeError, match=missing):
        type("Incomplete", (base.RankingEstimator,), methods)()


@BOTH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_as_many_queries_as_the_choice_needs_suffice(kind):
    queries, documents, _ = collection()
    fitted = kind(random_state=0).fit(queries, documents, [[q, q] for q in range(8)])
    assert len(fitted.candidates_) > 1


@BOTH
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.ones((3, 5))}, "queries have 5 features and documents 6"),
        ({"queries": np.full((60, 6), np.nan)}, "queries contains NaN"),
        ({"relevance": [[0, 500]]}, "documents that are not there"),
        ({"relevance": [[q, q] for q in range(4)]}, "choice of C needs 8 queries.*there are 4"),
        ({"documents": np.ones((120, 6))}, "coincide"),
        (
            {"n_hard": 0, "n_random": 0, "relevance": [[q, q] for q in range(9)]},
            "nothing to compare",
        ),
        ({"queries": 1e200 * np.eye(60, 6)}, r"queries .*1\.0e\+200"),
        ({"documents": 1e200 * np.eye(120, 6)}, r"documents .*1\.0e\+200"),
        ({"n_components": 9}, "n_components=9 is more"),
        ({"C": -1.0}, "'C' parameter"),
        ({"n_hard": -1}, "'n_hard' parameter"),
    ],
)
def test_bad_input_is_named_before_work_starts(kind, change, message):
    data = dict(zip(("queries", "documents", "relevance"), collection(), strict=True))
    parameters = {name: value for name, value in change.items() if name not in data}
    with pytest.raises(ValueError, match=message):
        kind(**parameters).fit(**{name: change.get(name, value) for name, value in data.items()})


def test_a_mixture_of_libraries_is_refused():
    torch = pytest.importorskip("torch")
    Q, D, relevance = collection()
    with pytest.raises(TypeError, match="convert all inputs to one"):
        QueryAdapter(1.0).fit(torch.as_tensor(Q), D, relevance)


def test_fewer_queries_choose_where_there_are_many(monkeypatch):
    monkeypatch.setattr(choice, "MOST_HELD_OUT", 20)
    fitted = QueryAdapter(random_state=0).fit(*collection(n_queries=100))
    assert {len(candidate.values) for candidate in fitted.candidates_} == {20}


@pytest.mark.parametrize(
    ("gains", "worth"),
    [
        ([(0.0, 0.0), (0.001, 0.0005)], True),
        ([(0.01, 0.002), (0.02, 0.002)], True),
        ([(0.02, 0.002), (0.0201, 0.002)], False),  # flat
        ([(0.02, 0.002), (0.01, 0.001)], False),
        ([(0.001, 0.002), (0.003, 0.006)], False),  # more, but less surely
    ],
)
def test_a_path_goes_on_while_the_gain_is_clear(gains, worth):
    setting = Setting(1.0, 0.1, 10, 10)
    best, tried = (choice.Candidate(setting, 0.5, g, e, np.zeros(500)) for g, e in gains)
    solved = SimpleNamespace(_solved=lambda setting: tried if setting.C > 1 else best)
    assert (choice.Choice._climb(solved, setting) is tried) == worth


@pytest.mark.parametrize("estimator", [QueryAdapter(), RelevanceMetric()])
def test_documents_are_not_mapped_before_a_fit(estimator):
    with pytest.raises(NotFittedError):
        estimator.transform_documents(np.ones((3, 2)))
