"""The coarse solves that only serve the choice: in the span of few queries, of few comparisons."""

import warnings

import numpy as np
import pytest
from judged import collection
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric, watching
from conemetric.core.arrays import float64, to_numpy
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.ranking import choice
from conemetric.ranking.candidates import Setting, crossed_mix, tuned_mix
from conemetric.ranking.choice import Choice
from conemetric.ranking.forms import BilinearForm
from conemetric.ranking.model import RankingModel
from conemetric.ranking.program import RankingProgram
from conemetric.ranking.top_k import search

BOTH = pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric])
D = 40  # more than twice the queries of a fold


def made(kind, columns, seed, asarray=np.asarray, dtype=np.float64, **options):
    """An estimator's choice over fewer queries than features, and a setting."""
    Q, X, relevance = collection(seed, n_queries=16, n_documents=50, D=D, dtype=dtype)
    scores = None
    if columns:
        dense = np.random.default_rng(seed).random((16, 50))
        scores = {"words": sparse.csr_array(dense), "other": sparse.csr_array(dense[::-1])}
    estimator = kind(n_hard=3, n_random=4, random_state=0, **options)
    data = estimator._validate(asarray(Q), asarray(X), relevance, scores, reset=True)
    weights = {"normalization": "raw", "weights": (0.1, 0.0)} if columns else {}
    options = {"n_hard": 3, "n_random": 4, "normalization": "auto", "tol": estimator.tol}
    chosen = Choice(RankingProgram(estimator._form), data, seed, **options)
    return chosen, Setting(0.5, 0.1, 3, 4, **weights)


@pytest.mark.parametrize("columns", [False, True])
def test_the_span_of_the_queries_holds_the_optimum(columns, seed, asarray, dtype):
    chosen, setting = made(QueryAdapter, columns, seed, asarray, dtype)
    model, data = chosen.model, chosen.data
    comparisons = chosen.comparisons(setting)
    mapped = model.mapped(data, comparisons).like(data)
    spanned, basis = model.form.spanned(mapped)
    assert tuple(basis.shape) == (D, 16)
    programs = [
        model.program(model.operator(part), part.comparisons, setting) for part in (mapped, spanned)
    ]
    solver = DualQuasiNewton(tol=1e-5 if dtype == np.float32 else 1e-9)
    whole, small = (solver.solve(program) for program in programs)
    tolerance = 1e-4 if dtype == np.float32 else 1e-8
    assert small.certificate.primal == pytest.approx(whole.certificate.primal, rel=tolerance)
    # its multipliers prove as much about the program over all coordinates
    bounds = programs[0].certify(whole.primal_point, small.dual_point)
    assert bounds.dual == pytest.approx(whole.certificate.dual, rel=tolerance)
    assert bounds.dual <= bounds.primal + tolerance * abs(bounds.primal)
    # and the point leads back
    found = to_numpy(float64(small.primal_point))[:16, :D]
    prior = to_numpy(comparisons.prior) / setting.margin
    B = to_numpy(float64(basis))
    lifted = prior + B @ (found - B.T @ prior)
    wanted = to_numpy(float64(whole.primal_point))[:D, :D]
    size = abs(wanted - prior).max()
    assert_allclose(lifted, wanted, atol=(3e-2 if dtype == np.float32 else 1e-3) * size)


@pytest.mark.parametrize("columns", [False, True])
def test_held_out_queries_are_ranked_alike_with_and_without_the_span(columns, seed, monkeypatch):
    monkeypatch.setattr(choice, "CHOICE_TOL", 1e-9)
    monkeypatch.setattr(choice, "CHOICE_ITER", 500)
    found = []
    for spanned in (True, False):
        chosen, setting = made(QueryAdapter, columns, seed, tol=1e-9)
        if not spanned:
            monkeypatch.setattr(BilinearForm, "spanned", lambda self, mapped: (mapped, None))
        chosen._try_unchanged()
        found.append((chosen._solved(setting), chosen._pools[setting]))
    assert_allclose(found[0][0].values, found[1][0].values)
    scores = [np.where(pool.documents < 0, 0.0, pool.scores) for _, (pool, _) in found]
    scores = [np.where(np.isfinite(each), each, 0.0) for each in scores]
    assert_allclose(scores[0], scores[1], atol=1e-4 * abs(scores[0]).max())


@BOTH
@pytest.mark.parametrize("most", [2, 9, 10**6])
def test_drawn_comparisons_start_all_of_them(kind, most, seed, monkeypatch):
    monkeypatch.setattr(choice, "MOST_COMPARISONS", most)
    chosen, setting = made(kind, False, seed)
    chosen._try_unchanged()
    chosen._solved(setting)
    comparisons = chosen.comparisons(setting)
    drawn = chosen._drawn(comparisons)
    assert_array_equal(drawn, chosen._drawn(comparisons))
    counts = np.bincount(comparisons.triplets[:, 0])
    assert drawn.all() == (most >= counts.max())
    start = chosen.start(setting)
    assert start.shape == drawn.shape
    assert (start >= 0).all() and (start <= 1 + 1e-9).all() and start.any()


@BOTH
@pytest.mark.parametrize("columns", [False, True])
def test_the_path_goes_up_while_that_helps_or_else_down(kind, columns, seed, monkeypatch):
    """C of every solve of the first climb, for curves whose best C is known."""
    for best in (choice.LEAST_C, 0.1, 3.0, 300.0):
        chosen, _ = made(kind, columns, seed)
        chosen._try_unchanged()
        tried = []

        def solved(setting, best=best, tried=tried):
            tried.append(setting.C)
            gain = 1 - abs(np.log10(setting.C / best))
            return choice.Candidate(setting, gain, gain, 0.01, np.zeros(1))

        monkeypatch.setattr(chosen, "_solved", solved)
        first = Setting(choice.FIRST_C, 0.1, 3, 4)
        reached = chosen._climb(first).setting.C
        assert abs(np.log10(reached / best)) <= choice.STEP / 2 + 1e-9
        assert tried[0] == choice.FIRST_C and len(set(tried)) == len(tried)
        assert all(choice.LEAST_C <= C <= choice.MOST_C for C in tried)


@pytest.mark.parametrize("n_columns", [1, 2])
def test_weights_are_judged_on_queries_that_did_not_tune_them(n_columns, seed):
    """Against the same by hand; the weights themselves are tuned on all queries."""
    rng = np.random.default_rng(seed)
    peaks = rng.uniform(-1, 2, (20, n_columns))

    def values_of(weights):
        return -((np.log2(1e-3 + weights) - peaks) ** 2).sum(1)

    sizes, start = np.ones(n_columns), np.zeros(n_columns)
    folds = [np.arange(20) % 4 == fold for fold in range(4)]
    weights, values = crossed_mix(values_of, sizes, start, folds)
    assert_array_equal(weights, tuned_mix(values_of, sizes, start)[0])
    for fold in folds:
        others = tuned_mix(lambda tried, fold=fold: values_of(tried)[~fold], sizes, start)[0]
        assert_array_equal(values[fold], values_of(others)[fold])
    assert values.mean() <= values_of(weights).mean()


@pytest.mark.cases(2)
@BOTH
@pytest.mark.parametrize("columns", [False, True])
def test_few_queries_are_judged_on_several_splits(kind, columns):
    """The means over splits decide, and belong to each query."""
    chosen, _ = made(kind, columns, 0)
    setting = chosen.settle()
    first, *others = chosen._splits
    assert first is chosen and len(others) == choice.MOST_SPLITS - 1
    assert len({tuple(split.held_out) for split in chosen._splits}) == choice.MOST_SPLITS
    solved = [c for c in chosen.candidates if c.setting.C and c.setting in others[0]._pools]
    assert 1 <= len(solved) <= 1 + columns
    assert not setting.C or setting in [c.setting for c in solved]
    for candidate in solved:  # what the others leave of the sum is a nDCG of each query
        rest = choice.MOST_SPLITS * candidate.values
        for split in others:
            again = next(c for c in split.candidates if c.setting == candidate.setting)
            rest -= again.values[np.argsort(split.held_out)][chosen.held_out]
        assert (rest > -1e-12).all() and (rest < 1 + 1e-12).all()


@BOTH
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.costly
def test_where_nothing_can_be_learned_the_embedding_stays(kind, columns):
    """Relevant documents are drawn by lot; at most one fit in four is misled by chance."""
    changed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Q, X = rng.normal(size=(24, 4)), rng.normal(size=(60, 4))
        relevance = np.column_stack([np.arange(24), rng.integers(60, size=24)])
        scores = {"words": sparse.csr_array(rng.random((24, 60)))} if columns else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = kind(random_state=0).fit(Q, X, relevance, scores)
        if fitted.setting_ != fitted.candidates_[0].setting:
            changed += 1
            continue
        plain = kind(1.0, random_state=0)._form.initial_map(X)
        assert_array_equal(fitted.components_, plain.T)
    assert changed <= 2


@BOTH
def test_a_watcher_can_follow_the_choice(kind):
    events = []
    Q, X, relevance = collection(n_queries=16)
    with warnings.catch_warnings(), watching(events.append):
        warnings.simplefilter("ignore")
        kind(random_state=0).fit(Q, X, relevance)
    assert "solve" in {event["kind"] for event in events}


def test_the_program_in_single_precision_does_not_depend_on_the_origin():
    """Rows on a grid that float32 holds at both places, so that moving them changes no difference."""
    rng = np.random.default_rng(0)
    Q, X = (rng.integers(-512, 512, size=(n, 6)) / 256 for n in (60, 4000))
    relevance = [[query, query, 1] for query in range(len(Q))]
    estimator = RelevanceMetric(n_hard=3, n_random=4, random_state=0)
    options = {"n_hard": 3, "n_random": 4, "normalization": "auto", "tol": estimator.tol}
    found = []
    for shift in (0.0, 2.0**14):
        rows = [(side + shift).astype(np.float32) for side in (Q, X)]
        data = estimator._validate(*rows, relevance, None, reset=True)
        model = RankingProgram(estimator._form)
        found.append(Choice(model, data, 0, **options).comparisons(Setting(0.5, 0.1, 3, 4)))
    here, there = found
    assert_array_equal(here.triplets, there.triplets)
    size = abs(here.T).max()
    assert_allclose(here.T, there.T, atol=1e-9 * size)
    assert_allclose(here.prior, there.prior, atol=1e-6 * abs(here.prior).max())


FAR = 2.0**13  # where float32 holds multiples of 1 / 256 too


def rows_on_a_grid(seed, n_queries, n_documents):
    rng = np.random.default_rng(seed)
    return [rng.integers(-512, 512, size=(n, 6)) / 256 for n in (n_queries, n_documents)]


@pytest.mark.parametrize(
    ("kind", "options"), [(QueryAdapter, {"similarity": "inner"}), (RelevanceMetric, {})]
)
def test_hard_negatives_in_single_precision_do_not_depend_on_the_origin(kind, options):
    Q, X = rows_on_a_grid(1, 40, 3000)
    relevance = [[query, query, 1] for query in range(len(Q))]
    learned_from = []
    for shift in (0.0, FAR):
        documents = (X + shift).astype(np.float32)
        queries = (Q + (shift if kind is RelevanceMetric else 0.0)).astype(np.float32)
        model = kind(0.5, n_hard=3, n_random=0, random_state=0, **options)
        learned_from.append(model.fit(queries, documents, relevance).comparisons_)
    assert_array_equal(*learned_from)


@pytest.mark.parametrize("shortened", [False, True])
@pytest.mark.parametrize("similarity", ["inner", "euclidean"])
def test_ranks_in_single_precision_do_not_depend_on_the_origin(similarity, shortened, asarray):
    Q, X = rows_on_a_grid(2, 40, 3000)
    map_ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0][: 3 if shortened else 6]
    document_map = map_ if shortened or similarity == "euclidean" else None
    model = RankingModel(map_, document_map, similarity, {"embedding": 1.0})
    found = []
    for shift in (0.0, FAR):
        documents = asarray((X + shift).astype(np.float32))
        moved = shift if similarity == "euclidean" else 0.0
        found.append(model.rank(asarray((Q + moved).astype(np.float32)), documents, k=20))
    (here, scores), (there, scores_there) = found
    assert_array_equal(here, there)
    shifts = scores_there - scores  # one number for each query
    if similarity == "inner":
        mapped = map_ if document_map is None else map_.T @ map_
        shifts = shifts - (Q @ (map_.T if document_map is None else mapped)).sum(1)[:, None] * FAR
    assert_allclose(shifts, 0, atol=0.02)


def test_products_of_documents_far_from_the_origin_tie_as_near_it(asarray):
    rng = np.random.default_rng(3)
    documents = rng.integers(-3, 4, size=(200, 4)).astype(np.float32)
    queries = rng.integers(-3, 4, size=(10, 4)).astype(np.float32)
    ties = np.arange(200)
    near = search(asarray(queries), asarray(documents), 50, "inner", ties=ties)
    far = search(asarray(queries), asarray(documents + 1000), 50, "inner", ties=ties)
    assert_array_equal(to_numpy(near.documents), to_numpy(far.documents))
