"""No row of a judging pair is learned from, and the rows of a group stay together in every split."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from conemetric.evaluation.statistics import randomisation_test
from conemetric.evaluation.verification import distance_score
from conemetric.studies import Options, run_study
from conemetric.studies.constrained import Paired, Ranked
from conemetric.studies.holding_out import divided, groups_of, in_proportion, rows_of_groups
from conemetric.studies.supervision import Labelled, Measured


def people(seed, n_people=8, n_rows=40, n_columns=60, noise=2.0):
    """Rows about a centre of each person, all columns alike: nothing but who they are can be learned,
    which says nothing about other people.
    """
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), n_rows)
    centres = rng.normal(size=(n_people, n_columns))
    return centres[who] + noise * rng.normal(size=(len(who), n_columns)), who


def pairs_of(who, n, seed, rows=None):
    """n pairs of one person and n of two, among these rows."""
    rng = np.random.default_rng(seed)
    rows = np.arange(len(who)) if rows is None else rows
    pairs = rng.choice(rows, size=(100 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = who[pairs[:, 0]] == who[pairs[:, 1]]
    kept = np.r_[np.flatnonzero(same)[:n], np.flatnonzero(~same)[:n]]
    return pairs[kept], same[kept]


def triplets_of(who, n, seed):
    rng = np.random.default_rng(seed)
    triplets = np.array([rng.choice(len(who), 3, replace=False) for _ in range(20 * n)])
    i, j, k = who[triplets].T
    return triplets[(i == j) & (i != k)][:n]


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_learned_of_known_people_is_not_recommended_for_new_ones(seed):
    X, who = people(seed)
    pairs, same = pairs_of(who, 1000, seed)
    options = Options(scale="none", tol=1e-2, seed=seed)
    study = run_study(Paired(X, pairs, similar=same), options)
    assert study.outcome != "better" and study.task.n_shared == 0
    assert "share 0 rows with training" in study.verdict_in_words
    # by the pairs of other people, the learned distance is indeed no better
    new, others = people(seed + 100)
    held_out, alike = pairs_of(others, 1000, seed)
    euclidean = roc_auc_score(alike, distance_score(None, new, held_out))
    assert roc_auc_score(alike, distance_score(study.metric, new, held_out)) < euclidean


@pytest.mark.parametrize(
    ("kind", "n"),
    [*product(["pairs", "triplets"], [60, 300, 1000]), ("groups of pairs", 300)],
)
@pytest.mark.costly
def test_training_and_judging_share_no_row(kind, n, seed):
    X, who = people(seed, n_people=20, n_rows=8, n_columns=3)
    rng = np.random.default_rng(seed)
    documents = rng.integers(25, size=len(who))
    if kind == "triplets":
        task = Ranked(X, triplets_of(who, 4 * n, seed))
    else:
        pairs, same = pairs_of(who, n, seed)
        groups = documents if kind == "groups of pairs" else None
        task = Paired(X, pairs, similar=same, groups=groups)
    split = task.split(Options(method="frob"), np.random.default_rng(seed))
    learned_from, judged = (np.unique(split.indices[part]) for part in (split.train, split.test))
    shared = np.intersect1d(learned_from, judged)
    assert split.n_shared == len(shared)
    if len(shared) == 0:
        assert any("share 0 rows" in note for note in split.notes)
    else:
        assert f"shares {len(shared):,} of its {len(judged):,} rows" in split.notes[0]
    # it can be avoided where there are many
    assert len(shared) == 0 or n == 60
    if kind == "pairs" and n > 60:
        linked = set(judged)
        while more := {b for a, b in [*pairs[same], *pairs[same][:, ::-1]] if a in linked} - linked:
            linked |= more
        assert not linked & set(learned_from)  # nor rows that same pairs link
    if kind == "groups of pairs" and len(shared) == 0:
        assert not set(documents[learned_from]) & set(documents[judged])
    if kind != "triplets" and len(shared) == 0:
        for part in (split.test, split.setting):
            assert split.similar[part].mean() == pytest.approx(0.5, abs=0.5 / len(part) + 0.01)
        assert set(split.setting) <= set(split.train)
        trial = split.validation(10_000, np.random.default_rng(seed))
        assert set(trial.train) | set(trial.test) <= set(split.train)


def test_pairs_that_leave_too_few_are_divided_by_pairs_and_it_is_said():
    """All pairs have one row: there is no way to keep rows apart."""
    X, who = people(0, n_people=5)
    pairs = np.column_stack([np.zeros(150, int), np.arange(1, 151)])
    task = Paired(X, pairs, similar=who[0] == who[pairs[:, 1]])
    study = run_study(task, Options(scale="none", tol=0.1))
    assert study.task.n_shared == 1 and len(study.task.test) == 45
    assert any("Evaluation shares 1 of its 46 rows with training" in note for note in study.notes)
    assert "on 45 held-out pairs that share 1 row with training" in study.verdict_in_words
    with pytest.raises(ValueError, match="--groups: too few pairs"):
        replace(task, groups=np.arange(len(X)) // 2).split(
            Options(method="frob"), np.random.default_rng(0)
        )


def test_connected_parts_are_held_out_whole():
    """Pairs that connect few rows each are all used."""
    pairs = np.arange(400).reshape(200, 2)
    train, test = divided(pairs, np.arange(400), 0.3, np.random.default_rng(0))
    assert len(train) + len(test) == 200 and len(test) == 60
    # a chain of all rows is cut
    chain = np.column_stack([np.arange(399), np.arange(1, 400)])
    train, test = divided(chain, np.arange(400), 0.3, np.random.default_rng(0))
    assert 0 < len(test) < 0.3 * 399 and len(train) + len(test) < 399
    assert not set(chain[train].ravel()) & set(chain[test].ravel())


def test_rows_that_pairs_link_are_of_one_group():
    groups = groups_of(np.array([[0, 1], [1, 2], [4, 5]]), 6)
    assert len({*groups[:3]}) == 1 and groups[4] == groups[5] and len({*groups}) == 3


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_pairs_in_proportion(share, seed):
    rng = np.random.default_rng(seed)
    similar = rng.random(500) < 0.4
    items = np.sort(rng.permutation(500)[:300])
    kept = in_proportion(items, similar, share, rng)
    assert set(kept) <= set(items) and len(set(kept)) == len(kept)
    assert similar[kept].mean() == pytest.approx(share, abs=1 / len(kept) + 0.01)
    of_kind = [(similar[items] == kind).sum() == (similar[kept] == kind).sum() for kind in (0, 1)]
    assert any(of_kind)  # as many as there can be


# ---- labels


@pytest.mark.parametrize("n_groups", [2, 5, 40])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_rows_of_a_group_are_on_one_side(kind, n_groups, seed):
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(300, 3)), rng.integers(n_groups, size=300)
    if kind == "classes":
        task = Labelled(X, rng.choice(["a", "b"], 300, p=[0.8, 0.2]), groups=groups)
    else:
        task = Measured(X, rng.normal(size=300), groups=groups)
    split = task.split(Options(method="frob"), np.random.default_rng(seed))
    assert not set(groups[split.train]) & set(groups[split.test])
    assert len(split.train) + len(split.test) == 300
    n_held_out = len(np.unique(groups[split.test]))
    assert f"Groups: {n_held_out} of {n_groups} are held out" in split.notes[0]
    if n_groups == 40:
        assert len(split.test) == pytest.approx(90, abs=20)
        if kind == "classes":
            assert (task.y[split.test] == "b").mean() == pytest.approx(0.2, abs=0.08)
    prepared = split.prepared(_Same())
    trial = prepared.validation(1000, np.random.default_rng(seed))
    if len(np.unique(groups[split.learn])) > 1:
        of_rows = prepared.groups
        assert not set(of_rows[trial.train]) & set(of_rows[trial.test])


class _Same:
    def transform(self, X):
        return X


def test_groups_that_cannot_be_held_out_are_refused():
    X, who = people(0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="--groups: all rows are of one group"):
        Labelled(X, who, groups=np.zeros(len(X), int)).split(Options(method="frob"), rng)
    with pytest.raises(ValueError, match="--groups: every class occurs in one group only"):
        Labelled(X, who, groups=who).split(Options(method="frob"), rng)


def test_what_tells_people_apart_does_not_count_as_knowing_more():
    """A label that each person has alone: neighbours know it by the person, whom they have seen."""
    X, who = people(0, n_people=30, n_rows=10, noise=1.0)
    label = np.where(who % 2, "ill", "well")
    alone, grouped = (
        run_study(Labelled(X, label, groups=groups), Options(method="frob", seed=1))
        for groups in (None, who)
    )
    assert alone.before.rate < 0.2 and grouped.before.rate > 0.35


@pytest.mark.parametrize("kind", [Labelled, Measured])
def test_p_values_compare_whole_groups(kind):
    """Forty equal rows of one of four groups are one piece of evidence, not forty."""
    X, who = people(0, n_people=12)
    y = who % 2 if kind is Labelled else X[:, 0]
    task = kind(X, y, groups=who).split(Options(method="frob"), np.random.default_rng(0))
    right, wrong = task.y[task.test], task.y[task.test].copy()
    worst = who[task.test] == who[task.test][0]
    wrong[worst] = 1 - wrong[worst] if kind is Labelled else wrong[worst] + 1
    before, after = task.judged(wrong), task.judged(right)
    change = [
        (after.wrong * 1.0 - before.wrong)[who[task.test] == g].sum() for g in {*who[task.test]}
    ]
    assert before.p_value(after) == pytest.approx(randomisation_test(np.array(change)))
    assert before.p_value(after) > 0.1
    alone = replace(task, groups=None)
    assert alone.judged(wrong).p_value(alone.judged(right)) < 1e-3


def test_by_scikit_learns_splitters(seed):
    rng = np.random.default_rng(seed)
    groups, classes = rng.integers(20, size=200), rng.integers(3, size=200)
    for share in (0.1, 0.3, 0.5):
        rows = rows_of_groups(groups, classes, share, np.random.default_rng(seed))
        assert len(rows) == pytest.approx(200 * share, abs=25)
        assert sorted({*groups[rows]} & {*np.delete(groups, rows)}) == []


@pytest.mark.parametrize("method", ["auto", "frob"])
@pytest.mark.costly
def test_folds_within_training_keep_groups_together(method):
    """Those of the blend and of the classifier, whose evidence and promises are for new people then."""
    X, who = people(0, n_people=30, n_rows=8, n_columns=6, noise=1.0)
    task = Labelled(X, np.where(who % 2, "ill", "well"), groups=who)
    study = run_study(task, Options(method=method, scale="standard", seed=1), decide=True)
    folds = study.decided.decision.estimator.evidence_
    assert folds.error[folds.usual] > 0.3  # neighbours of one's own would make it 0
    if method == "auto":
        assert study.evidence.error["Euclidean"] > 0.3
        of_rows = study.task.groups[study.task.learn]
        for train, held_out in study.estimator._cross_fitted.folds:
            assert not set(of_rows[train]) & set(of_rows[held_out])


def test_two_groups_leave_one_to_learn_from():
    """In which nothing can be held out by group."""
    X, who = people(0, n_people=2, n_rows=60, n_columns=4)
    task = Labelled(X, np.arange(len(X)) % 2, groups=who)
    study = run_study(task, Options(method="frob"), decide=True)
    assert study.task.groups_in_folds is None and study.decided is not None
