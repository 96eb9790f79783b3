"""Columns of scores beside the embedding: the joint program against a conic solver, its
ranking by hand, every form of scores, the choice, feedback, errors.
"""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
from judged import collection, part
from numpy.testing import assert_allclose, assert_array_equal
from oracles import bilinear_optimum, frobenius_optimum
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric, load_metric, save_metric
from conemetric.core.arrays import to_numpy
from conemetric.ranking.column_operator import concatenated
from conemetric.ranking.measures import ndcg, rank
from conemetric.ranking.program import RankingProgram

BOTH = pytest.mark.parametrize("kind", [RelevanceMetric, QueryAdapter])


def hybrid(seed=0, n_queries=60, n_documents=120, D=6, strength=1.5, listed=30, **options):
    """A collection, and a sparse column that knows something about the relevant documents."""
    Q, X, relevance = collection(seed, n_queries, n_documents, D, **options)
    rng = np.random.default_rng(seed + 1000)
    scores = rng.normal(size=(n_queries, n_documents))
    np.add.at(scores, tuple(relevance[:, :2].T), strength)
    least = -np.sort(-scores, axis=1)[:, [listed - 1]]
    return (Q, X, relevance), sparse.csr_array(np.where(scores >= least, scores - least + 1, 0))


def both_parts(data, column, n):
    rows = np.arange(len(data[0]))
    halves = rows[:n], rows[n:]
    return [(part(data, half), {"words": column[half]}) for half in halves]


def by_hand(estimator, Q, X, column, embedding):
    """The scores that the docstring promises, dense."""
    S = column.toarray()
    listed, out = S != 0, np.zeros_like(S)
    for i in range(len(S)):
        values = S[i, listed[i]]
        size = {
            "raw": 1.0,
            "range": np.ptp(values),
            "spread": values.std(),
        }[estimator.normalization_]
        least = 0.0 if estimator.normalization_ == "raw" else values.min()
        out[i, listed[i]] = (values - least) / size
    weights = estimator.score_weights_
    return weights["embedding"] * embedding + weights["words"] * out


@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_ranks_by_the_sum_it_documents(kind, seed, asarray, dtype):
    data, column = hybrid(seed, dtype=dtype)
    points = [asarray(X) for X in data[:2]]
    fitted = kind(0.3, random_state=0).fit(*points, data[2], scores={"words": column})
    assert fitted.score_weights_["words"] > 0
    mapped = [
        to_numpy(fitted.transform_queries(points[0])),
        to_numpy(fitted.transform_documents(points[1])),
    ]
    embedding = mapped[0] @ mapped[1].T
    if kind is RelevanceMetric:
        embedding = -((mapped[0][:, None] - mapped[1]) ** 2).sum(2)
    wanted = by_hand(fitted, *data[:2], column, embedding)
    found, scores = fitted.rank(*points, scores={"words": column}, k=7)
    assert found.shape == scores.shape == (60, 7)
    tolerance = 1e-8 if dtype == np.float64 else 1e-3
    best = -np.sort(-wanted, axis=1)[:, :7]
    assert_allclose(scores, best, atol=tolerance * abs(best).max())
    assert_allclose(np.take_along_axis(wanted, found, 1), best, atol=tolerance * abs(best).max())


@BOTH
@pytest.mark.parametrize("C", [0.03, 3.0])
def test_joint_fit_reaches_the_optimum(kind, C, seed):
    data, column = hybrid(seed, n_queries=6, n_documents=15, D=3, listed=8)
    fitted = kind(C, n_hard=2, n_random=2, tol=1e-6, random_state=0)
    fitted.fit(*data, scores={"words": column})
    checked = fitted._validate(*data, {"words": column}, reset=True)
    draw = np.random.RandomState(0).randint(2**31 - 1)
    model = RankingProgram(fitted._form)
    made = model.comparisons(checked, fitted.setting_, draw)
    margin, (q, b, w) = fitted.setting_.margin, made.triplets.T
    Q, X = (rows @ made.T for rows in checked.rows)
    if kind is QueryAdapter:
        rows = np.einsum("ri,rj->rij", Q[q], X[b] - X[w])
        M = cp.Variable((3, 3))
    else:
        far, near = Q[q] - X[w], Q[q] - X[b]
        rows = np.einsum("ri,rj->rij", far, far) - np.einsum("ri,rj->rij", near, near)
        M = cp.Variable((3, 3), PSD=True)
    v, c = cp.Variable(1), C * 3 / margin * made.weights / made.weights.sum()
    v0 = np.array(fitted.setting_.weights) * made.unit / margin * made.scale
    margins = rows.reshape(len(rows), -1) @ cp.vec(M, order="C") + made.columns @ v
    objective = 0.5 * cp.sum_squares(M - made.prior / margin) + 0.5 * cp.sum_squares(v - v0)
    objective += c @ cp.pos(1 - margins)
    optimum = cp.Problem(cp.Minimize(objective), [v >= 0]).solve(
        solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
    )
    optimum = float(optimum)
    assert fitted.objective_ == pytest.approx(optimum, rel=2e-5)
    assert fitted.certificate_.dual <= optimum * (1 + 1e-6)
    # and what is stored is that optimum
    weights = np.array([fitted.score_weights_["words"]])
    point = model.joint_point(made, fitted.components_.T, weights)
    program = model.program(model.operator(model.mapped(checked, made)), made, fitted.setting_)
    assert program.certify(point, fitted.multipliers_).primal == pytest.approx(optimum, rel=2e-5)
    assert_allclose(weights * made.scale, v.value, atol=1e-2 * (1 + abs(v.value).max()))


@pytest.mark.costly
@BOTH
def test_joint_choice_beats_its_parts_on_unseen_queries(kind):
    data, column = hybrid(n_queries=160, strength=3.0)
    (train, known), (test, new) = both_parts(data, column, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        joint = kind(random_state=0).fit(*train, scores=known)
        alone = kind(random_state=0).fit(*train)
    frozen = np.nanmean(ndcg(rank(*test[:2], 10), test[2]))
    assert joint.score(*test, scores=new) > max(frozen, alone.score(*test)) + 0.03
    assert joint.score_weights_["embedding"] == 1.0
    assert joint.score_weights_["words"] > 0
    settings = [candidate.setting for candidate in joint.candidates_]
    assert settings[0].C == 0 and settings[0].normalization is None
    assert any(setting.embedding == 0 for setting in settings)  # the column alone
    plain = [s for s in settings if s.C == 0 and s.embedding and s.normalization]
    assert {setting.normalization for setting in plain} == {"raw", "range", "spread"}
    assert any(s.C > 0 and s.normalization is None for s in settings)  # the map alone
    assert any(s.C > 0 and s.normalization for s in settings)  # both


@BOTH
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strength", [0.0, 6.0])
@pytest.mark.costly
def test_the_choice_gains_surely_and_no_simpler_one_gains_more(kind, seed, strength):
    data, column = hybrid(seed, n_queries=40, strength=strength)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(random_state=0).fit(*data, scores={"words": column})
    unchanged, chosen = fitted.candidates_[0], fitted.chosen_
    assert chosen is unchanged or chosen.beats(unchanged)
    for other in fitted.candidates_[1:]:
        if not other.setting.C and other.beats(unchanged):  # judged as the choice is
            assert other.gain - other.standard_error <= chosen.gain - chosen.standard_error
    if strength == 6.0:  # the column knows it all
        assert fitted.score(*data, scores={"words": column}) > 0.9


def test_a_column_alone_can_win():
    data, column = hybrid(strength=20.0)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=data[0].shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = QueryAdapter(random_state=0).fit(noise, *data[1:], scores={"words": column})
    assert fitted.score(noise, *data[1:], scores={"words": column}) > 0.9
    assert fitted.score_weights_["words"] > 0


@BOTH
def test_a_harmful_column_gets_no_weight_and_need_not_be_given(kind):
    data, column = hybrid(strength=-3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(1.0, random_state=0).fit(*data, scores={"words": column})
    assert fitted.score_weights_["words"] == pytest.approx(0, abs=1e-9)
    assert fitted.score_multipliers_["words"] > 0
    fitted.rank(*data[:2])


@BOTH
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_column_with_a_weight_is_not_pushed_to_zero(kind):
    data, column = hybrid(strength=3.0)
    fitted = kind(1.0, random_state=0).fit(*data, scores={"words": column})
    assert fitted.score_weights_["words"] > 0
    assert fitted.score_multipliers_["words"] == 0


@BOTH
@pytest.mark.costly
def test_several_columns(kind, asarray):
    data, words = hybrid(n_queries=24)
    _, other = hybrid(n_queries=24, strength=1.0)
    _, noise = hybrid(seed=5, n_queries=24, strength=0.0)
    scores = {"words": words, "other": other, "noise": noise}
    points = [asarray(X) for X in data[:2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(random_state=0).fit(*points, data[2], scores=scores)
    assert list(fitted.score_weights_) == ["embedding", "words", "other", "noise"]
    assert all(weight >= 0 for weight in fitted.score_weights_.values())
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(
        again.rank(*points, scores=scores)[0], fitted.rank(*points, scores=scores)[0]
    )


@BOTH
@pytest.mark.parametrize("columns", [False, True])
def test_feedback_certifies_with_every_library_and_precision(kind, columns, asarray, dtype):
    data, column = hybrid(n_queries=80, dtype=dtype)
    fitted = kind(0.3, random_state=0)
    lengths = []
    for rows in (np.arange(50), np.arange(50, 77), np.arange(77, 80)):
        Q, X, relevance = part(data, rows)
        scores = {"scores": {"words": column[rows]}} if columns else {}
        fitted.partial_fit(asarray(Q), asarray(X), relevance, **scores)
        assert fitted.certificate_.relative_gap <= fitted.tol
        assert to_numpy(fitted.components_).dtype == dtype
        lengths.append(len(fitted.comparisons_))
    assert lengths[0] < lengths[1] < lengths[2] == len(fitted.multipliers_)
    assert fitted.score(asarray(Q), asarray(X), relevance, **scores) > 0


@BOTH
@pytest.mark.parametrize("forget", [0.0, 0.7])
def test_feedback_reaches_the_optimum_over_what_is_remembered(kind, forget, seed):
    data = collection(seed, n_queries=8, n_documents=15, D=3)
    fitted = kind(0.3, n_hard=2, n_random=2, tol=1e-6, random_state=0)
    fitted.fit(*part(data, np.arange(5)))
    fitted.partial_fit(*part(data, np.arange(5, 8)), forget=forget)
    known = fitted._remembered
    made, margin = known.comparisons, fitted.setting_.margin
    Q, X = known.queries @ made.T, known.documents @ made.T
    arguments = 0.3 * 3 / margin, made.prior / margin
    if kind is QueryAdapter:
        optimum = bilinear_optimum(Q, X, made.triplets, *arguments, weights=made.weights)
    else:
        triplets = made.triplets + np.array([0, len(Q), len(Q)])
        C, prior = arguments
        optimum = frobenius_optimum(np.vstack([Q, X]), triplets, C, "hinge", prior, made.weights)
    assert fitted.objective_ == pytest.approx(optimum, rel=2e-5)
    assert_allclose(
        np.unique(np.bincount(made.triplets[:, 0], made.weights).round(9)),
        np.unique([1 - forget, 1]),
    )


@BOTH
def test_forgetting_fades_and_drops(kind):
    data = collection(n_queries=80)
    first, later = part(data, np.arange(40)), part(data, np.arange(40, 80))
    keeps = kind(0.3, random_state=0).fit(*first).partial_fit(*later)
    fades = kind(0.3, random_state=0).fit(*first).partial_fit(*later, forget=0.9)
    drops = kind(0.3, random_state=0).fit(*first).partial_fit(*later, forget=0.9999)
    n = len(kind(0.3, random_state=0).fit(*first).comparisons_)
    assert len(keeps.comparisons_) == len(fades.comparisons_) == n + len(drops.comparisons_)
    assert fades.score(*later) >= keeps.score(*later) - 0.02
    # dropped altogether, the program is that of the later half in the coordinates of the first
    assert drops.score(*later) >= keeps.score(*later) - 0.02
    for fitted in (keeps, fades, drops):
        assert fitted.certificate_.relative_gap <= fitted.tol


@BOTH
def test_feedback_starts_where_it_was(kind):
    data = collection(n_queries=80)
    options = {"C": 3.0, "tol": 1e-5, "random_state": 0}
    fitted = kind(**options).fit(*part(data, np.arange(78)))
    fitted.partial_fit(*part(data, np.arange(78, 80)))
    assert fitted.n_iter_ < kind(**options).fit(*data).n_iter_


@BOTH
@pytest.mark.parametrize("chosen", ["embedding", "mix", "column"])
@pytest.mark.costly
def test_feedback_learns_where_nothing_was_learned_before(kind, chosen, asarray):
    """The embedding ranks as well as can be, or a column does; later judgements disagree."""
    Q, X, relevance = collection(n_queries=80)
    first, later = np.arange(40), np.arange(40, 80)
    nearest = np.column_stack([first, rank(Q[:40], X, 1)])
    scores = [{}, {}]
    if chosen != "embedding":
        size = {"mix": 0.3, "column": 30.0}[chosen]
        noise = np.random.default_rng(0).random((80, 120))
        known = size * (np.arange(120) == nearest[:, 1:])
        column = sparse.csr_array(noise + np.concatenate([known, 0 * known]))
        scores = [{"scores": {"words": column[rows]}} for rows in (first, later)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(random_state=0).fit(asarray(Q[:40]), asarray(X), nearest, **scores[0])
    assert fitted.C_ == 0
    _, _, new = part((Q, X, relevance), later)
    before = fitted.score(asarray(Q[40:]), asarray(X), new, **scores[1])
    again = fitted.partial_fit(asarray(Q[40:]), asarray(X), new, **scores[1])
    assert again.C_ == again.setting_.C == 0.1
    assert again.score_weights_["embedding"] == 1.0
    assert len(np.unique(again.comparisons_[:, 0])) == 80  # the first ones are remembered
    assert again.certificate_.relative_gap <= again.tol
    assert again.score(asarray(Q[40:]), asarray(X), new, **scores[1]) > before


@pytest.mark.cases(6)
@BOTH
@pytest.mark.parametrize("how", ["raw", "range", "spread"])
@pytest.mark.parametrize("C", ["auto", 0.3])
def test_a_given_normalisation_is_the_only_one_tried(kind, how, C):
    data, column = hybrid(n_queries=16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(C, normalization=how, random_state=0).fit(*data, scores={"words": column})
    assert fitted.normalization_ in ({how} if C != "auto" else {how, None})
    settings = [c.setting for c in getattr(fitted, "candidates_", [])]
    assert {setting.normalization for setting in settings} <= {how, None}


@BOTH
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("n_components", [None, 3])
def test_a_file_ranks_as_the_estimator(kind, columns, n_components, asarray, dtype, tmp_path):
    data, column = hybrid(dtype=dtype)
    points = [asarray(X) for X in data[:2]]
    scores = {"words": column} if columns else None
    fitted = kind(0.3, n_components=n_components, random_state=0)
    fitted.fit(*points, data[2], scores=scores)
    save_metric(tmp_path / "learned.safetensors", fitted)
    loaded = load_metric(tmp_path / "learned.safetensors")
    assert loaded.score_weights_ == fitted.score_weights_
    assert loaded.normalization_ == fitted.normalization_
    wanted, found = fitted.rank(*points, scores), loaded.rank(*points, scores)
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    assert_allclose(found[1], wanted[1], atol=tolerance * abs(wanted[1]).max())
    if dtype == np.float64:
        assert_array_equal(found[0], wanted[0])


def test_joined_holds_both():
    assert_array_equal(concatenated(np.ones((1, 2)), np.array([3.0])), [[1, 1, 0], [0, 0, 3]])
