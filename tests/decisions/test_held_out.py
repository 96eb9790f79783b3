"""Held-out scores are those of a refit without each fold, by scikit-learn."""

import gc
import weakref
from functools import partial

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor

from conemetric.automatic.folds import CrossFitted, Fold
from conemetric.decisions import kernel as kernel_rule
from conemetric.decisions import rounds
from conemetric.decisions.held_out import Candidate, HeldOut
from conemetric.decisions.kernel import KernelRule, _scorer, _search_kernel
from conemetric.decisions.neighbors import NeighborVote
from conemetric.decisions.rounds import best_rounds
from conemetric.decisions.rule import Judge, Training
from conemetric.engine.distance_kernels import KERNELS, KernelSetting
from conemetric.neighbours.ties import row_keys

N, D = 40, 4


def drawn(seed, asarray=np.asarray):
    """Rows, targets, weights, folds with a map each, and the rows as judged."""
    rng = np.random.default_rng(seed)
    X, Y, weights = rng.normal(size=(N, D)), rng.normal(size=(N, 2)), rng.uniform(0.2, 3, N)
    order = rng.permutation(N)
    folds = [Fold(order[np.arange(N) % 3 != f], order[f::3]) for f in range(3)]
    fitted = CrossFitted(folds, [rng.normal(size=(D, rank)) for rank in (D, 2, 1)])
    return X, Y, weights, fitted, held_out(asarray(X), Y, weights, fitted)


def held_out(X, Y, weights, fitted):
    candidate = Candidate("drawn", [], lambda r: None, tuple(KERNELS), maps=fitted.maps)
    return HeldOut(Training(X, Y, weights, row_keys(X)), fitted.folds, candidate)


def mapped(X, fitted):
    for fold, L in zip(fitted.folds, fitted.maps, strict=True):
        yield fold, X[fold.train] @ L, X[fold.held_out] @ L


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("width", [0.25, 4.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel, width, ridge, asarray, seed):
    X, Y, weights, fitted, rows = drawn(seed, asarray)
    expected = []
    for fold, Z, held_out in mapped(X, fitted):
        power = 1 if kernel == "city block" else 2
        scale = (abs(Z[:, None] - Z) ** power).sum(2).mean()
        K, across = (
            KernelSetting(kernel, width, ridge).values(
                (abs(A[:, None] - Z) ** power).sum(2) / scale
            )
            for A in (Z, held_out)
        )
        offset = np.average(Y[fold.train], axis=0, weights=weights[fold.train])
        peer = KernelRidge(alpha=ridge, kernel="precomputed")
        peer.fit(K, Y[fold.train] - offset, sample_weight=weights[fold.train])
        expected.append(peer.predict(across) + offset)
    (found,) = _scorer(rows, None).scores([KernelRule(kernel, width, ridge)])
    # kernels of held-out rows are in float32
    np.testing.assert_allclose(found, np.concatenate(expected), atol=2e-3)


@pytest.mark.parametrize("votes", ["uniform", "distance"])
@pytest.mark.parametrize("k", [1, 5, 15])
def test_votes(k, votes, asarray, seed):
    X, Y, _, fitted, _ = drawn(seed)
    expected = [
        KNeighborsRegressor(k, weights=votes).fit(Z, Y[fold.train]).predict(held_out)
        for fold, Z, held_out in mapped(X, fitted)
    ]
    rows = held_out(asarray(X), Y, np.ones(N), fitted)
    found = NeighborVote(k, votes).held_out_scores(rows)
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-7)


def test_judged_rows_are_those_of_the_folds(seed):
    *_, fitted, _ = drawn(seed)
    assert np.array_equal(fitted.judged, np.concatenate([fold.held_out for fold in fitted.folds]))
    assert sorted(fitted.judged) == list(range(N))


def test_weights_multiply_votes():
    distances, Y = np.array([[1.0, 2.0]]), np.array([[[1.0], [0.0]]])
    for kind, expected in (("uniform", 3 / 4), ("distance", 6 / 7)):
        found = NeighborVote(2, kind).mean(distances, Y, np.array([[3.0, 1.0]]))
        assert found[0, 0] == pytest.approx(expected, abs=1e-8)


def test_rows_that_coincide_count_alone():
    shares = NeighborVote(3, "distance").shares(np.array([[0.0, 0.0, 1.0]]), np.ones((1, 3)))
    np.testing.assert_allclose(shares, [[0.5, 0.5, 0.0]], atol=1e-8)


@pytest.mark.parametrize("classes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_equal_votes_the_class_of_the_nearest_row_wins(classes):
    Y = np.eye(3)[list(classes)][None]
    scores = NeighborVote(3).mean(np.array([[1.0, 1.5, 2.0]]), Y, np.ones((1, 3)))
    assert scores.argmax() == classes[0]
    # the third class has the nearest row, but fewer votes than the tied others
    Y = np.eye(3)[[2, 1, 0, 0, 1]][None]
    scores = NeighborVote(5).mean(np.arange(1.0, 6.0)[None], Y, np.ones((1, 5)))
    assert scores.argmax() == 1


def test_searches_return_the_least_loss_they_report(seed):
    _, Y, _, fitted, rows = drawn(seed)
    truth = Y[fitted.judged]

    judge = Judge(truth, np.ones(len(truth)), lambda scores, Y: ((scores - Y) ** 2).mean(1))
    for rule in (NeighborVote, KernelRule):
        for search in rule.searches(rows, judge):
            trials = search()
            losses = [trial.loss for trial in trials]
            assert losses == sorted(losses)
            for trial in trials:
                assert trial.loss == judge(trial.scores)
                vote = rule is NeighborVote
                scores = trial.rule.held_out_scores if vote else partial(_scored, trial.rule)
                expected = scores(rows)
                np.testing.assert_array_equal(trial.scores, expected)
    searches = KernelRule.searches(rows, judge)
    assert [search()[0].rule.kernel for search in searches] == list(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rounds_of_a_candidate_are_tried_until_one_is_no_better(kernel, monkeypatch, seed):
    """Each gives another weight to three columns that say nothing; what is not tried is not made."""
    monkeypatch.setattr(rounds, "FALLEN_BEHIND", np.inf)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, D))
    folds = [Fold(np.flatnonzero(np.arange(90) % 3 != f), np.arange(f, 90, 3)) for f in range(3)]
    rows = Training(X, np.sin(2 * X[:, :1]), np.ones(90), row_keys(X))
    truth = np.concatenate([rows.Y[fold.held_out] for fold in folds])
    judge = Judge(truth, np.ones(90), lambda scores, Y: ((scores - Y) ** 2).mean(1))

    def tried(*candidates):
        """The weight in the best round of each candidate, and how many of its rounds were made."""
        made = [0] * len(candidates)

        def run(i):
            for weight in candidates[i]:
                made[i] += 1
                yield np.diag([1.0, weight, weight, weight])

        given = [
            Candidate(f"{i}", [run(i) for _ in folds], lambda r: None, (kernel,), len(weights))
            for i, weights in enumerate(candidates)
        ]
        best = best_rounds(rows, folds, given, judge, map)
        return [(each.candidate.maps[0][1, 1], n // 3) for each, n in zip(best, made, strict=True)]

    stops, equal, falls, alone = (
        (1.0, 0.3, 0.6, 0.0),
        (0.3, 0.3, 0.0, 0.0),
        (1.0, 0.3, 0.1, 0.0),
        (1.0,),
    )
    expected = [(0.3, 3), (0.3, 2), (0.0, 4), (1.0, 1)]
    assert tried(stops, equal, falls, alone) == expected
    assert tried(alone, falls, equal, stops) == expected[::-1]
    assert tried(stops) == expected[:1]
    # a family that is far behind after its first round learns no more
    monkeypatch.setattr(rounds, "FALLEN_BEHIND", 1.25)
    assert tried(stops, falls[::-1]) == [(1.0, 1), (0.0, 2)]


def test_settings_that_clearly_lose_the_first_fold_are_not_tried_in_the_others(monkeypatch, seed):
    """And what is left is tried in all: no setting of a search without this rule is much better."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, D))
    folds = [Fold(np.flatnonzero(np.arange(300) % 3 != f), np.arange(f, 300, 3)) for f in range(3)]
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(300, 1))
    rows = Training(X, Y, np.ones(300), row_keys(X))
    truth = np.concatenate([Y[fold.held_out] for fold in folds])
    judge = Judge(truth, np.ones(300), lambda scores, Y: ((scores - Y) ** 2).mean(1))

    def searched(standard_errors):
        by_fold = [0, 0, 0]
        scorer = _scorer(HeldOut(rows, folds, candidate), None)

        def counted(rule, f):
            by_fold[f] += 1
            return scorer.in_fold(rule, f)

        replaced = scorer._replace(in_fold=counted)
        with monkeypatch.context() as patch:
            patch.setattr(kernel_rule, "CLEARLY", standard_errors)
            patch.setattr(kernel_rule, "_scorer", lambda rows, n: replaced)
            found = _search_kernel(HeldOut(rows, folds, candidate), "gaussian", judge)
        return found[0].loss, by_fold

    candidate = Candidate("drawn", [], lambda r: None, ("gaussian",), maps=[None] * 3)
    every, of_every = searched(1e300)
    some, of_some = searched(3.0)
    assert every <= some <= (1 + kernel_rule.FAR) * every
    assert of_every[0] == of_every[1] == of_every[2]
    assert of_some[1] == of_some[2] < of_some[0] <= of_every[0]


def test_what_is_searched_is_let_go_at_once(seed):
    """Kernel matrices are large, and garbage is looked for by the number of objects."""
    *_, rows = drawn(seed)
    rows.nearest(3), rows.folds[0].kernel_matrices("gaussian", 1.0, None)
    gone = [weakref.ref(rows), *map(weakref.ref, rows.folds)]
    gc.disable()
    try:
        del rows, _
        assert [each() for each in gone] == [None] * 4
    finally:
        gc.enable()


def _scored(rule, rows):
    return _scorer(rows, None).scores([rule])[0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_singular_system_gives_no_scores(kernel, seed):
    *_, rows = drawn(seed)
    assert np.isnan(_scorer(rows, None).scores([KernelRule(kernel, 1.0, -2.0 * N)])).all()


def test_equal_rows_vote_by_the_classes_of_the_other_folds_only(seed):
    """Of equal training rows the commonest class counts first, without the rows that judge."""
    rng = np.random.default_rng(seed)
    X, code = rng.integers(0, 2, (90, 2)) + 0.0, rng.integers(0, 3, 90)
    order = rng.permutation(90)
    folds = [Fold(order[np.arange(90) % 3 != f], order[f::3]) for f in range(3)]
    rows = held_out(X, np.eye(3)[code], np.ones(90), CrossFitted(folds, [np.eye(2)] * 3))
    found = NeighborVote(1).held_out_scores(rows).argmax(1)
    for fold, decided in zip(folds, np.split(found, 3), strict=True):
        for row, vote in zip(fold.held_out, decided, strict=True):
            same = fold.train[(X[fold.train] == X[row]).all(1)]
            counts = np.bincount(code[same], minlength=3)
            assert counts[vote] == counts.max()
