"""How should the candidates of `AutoMetric` be weighed, how many folds, which candidates?
Rules side by side on the KEEL sets that it may be tuned on; the others are not looked at.

    python benchmarks/blend_weights.py [--sets NAME ...] [--runs 10] [--jobs 16] [--out blend_weights.json]

Every candidate is fitted once per split and fold; the rules only weigh what was fitted. A
rule is named FOLDS/CANDIDATES/VOTES/WEIGHTS:

    folds        3, 5, 2+2, 3+3, 3+5 (several divisions of the rows, pooled); auto: 5 up to
                 600 rows, else 3
    candidates   all, or all without or with one
    votes        k of the k-NN vote that judges a candidate; m: the mean over 1, 3, 5, 7
    weights      soft c: exp(-c (e - e_best) / se); equal; best: one candidate; qp C: the
                 program of `RelativeComparisons` with one column per candidate, over the
                 targets and impostors of held-out rows, C in units of its "scale"; ending in
                 "refit": each candidate fitted to all rows in the place of its parts, "both":
                 beside them
"""

import argparse
import json
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config
from papers.datasets import load
from papers.keel import KEEL_AUTO, TUNED_ON
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from conemetric import FrobMetric, RelativeComparisons
from conemetric.core.spectral import factor
from conemetric.estimators.automatic import default_candidates
from conemetric.estimators.folds import FEW_ROWS, SPREAD, fit_linear_map, stratified_folds
from conemetric.evaluation.knn import knn_error, majority, nearest_labels

VOTES = (1, 3, 5, 7)
DIVISIONS = {"3a": (3, 0), "3b": (3, 1), "5a": (5, 2), "2a": (2, 5), "2b": (2, 6)}
FOLDS = {
    "3": ["3a"],
    "5": ["5a"],
    "2+2": ["2a", "2b"],
    "3+3": ["3a", "3b"],
    "3+5": ["3a", "5a"],
}
DEFAULT = "auto/all/3/soft 1.5"
BASE = ("plain", *default_candidates())


class Stronger(FrobMetric):
    """FrobMetric with ten times the C of its "scale"."""

    def fit(self, X, y):
        self.C = 10 * FrobMetric(max_iter=1).fit(X, y).C_
        return super().fit(X, y)


EXTRA = {
    "logistic": FrobMetric(loss="logistic"),
    "frob10": FrobMetric(n_impostors=10),
    "stronger": Stronger(),
    "nca50": NeighborhoodComponentsAnalysis(max_iter=50),
}
SUBSETS = {
    "all": BASE,
    **{f"-{name}": tuple(one for one in BASE if one != name) for name in BASE},
    **{f"+{name}": (*BASE, name) for name in EXTRA},
}
RULES = [
    *product([*FOLDS, "auto"], ["all"], ["3", "m"], ["soft 1", "soft 1.5", "soft 2", "soft 3"]),
    *product(["3", "5"], ["all"], ["3"], ["equal", "best", "qp 0.1", "qp 1", "qp 10", "qp 100"]),
    *product(["3", "5"], ["all"], ["3"], ["soft 1.5 qp 1", "soft 1.5 qp 10"]),
    *product(["3", "5", "auto"], list(SUBSETS)[1:], ["3"], ["soft 1.5"]),
    *product(["3", "auto"], ["all"], ["3"], ["soft 1.5 refit", "soft 1.5 both"]),
]


def fit(estimator, X, y):
    """Its linear map; None stands for the plain distance."""
    return np.eye(X.shape[1]) if estimator is None else fit_linear_map(estimator, X, y, 0)[0]


def refitted(X, y, estimators, parts):
    """The matrix of each candidate fitted to all rows, at the mean squared distance of its
    parts.
    """
    covariance = np.cov(X.T, bias=True).reshape(X.shape[1], -1)
    found = {}
    for name, part in parts.items():
        L = fit(estimators[name], X, y)
        matrix = L @ L.T
        found[name] = matrix * np.sum(part * covariance) / np.sum(matrix * covariance)
    return found


def fit_folds(X, y, n_folds, seed, estimators):
    """For each fold its rows and the judged candidates: name, L at scale one, and which
    rows each of `VOTES` gets wrong.
    """
    drawn = np.random.default_rng(seed).permutation(len(y))
    for train, held in stratified_folds(drawn, y, n_folds):
        judged = {}
        for name, estimator in estimators.items():
            try:
                L = fit(estimator, X[train], y[train])
            except (ValueError, np.linalg.LinAlgError):
                continue
            A, B = X[train] @ L, X[held] @ L
            distances, labels = nearest_labels(A, y[train], B, max(VOTES))
            spread = sum(((part - A.mean(axis=0)) ** 2).sum(axis=1).mean() for part in (A, B))
            scale = np.mean(distances[:, :3] ** 2) + SPREAD * spread
            wrong = np.stack([majority(labels[:, :k]) != y[held] for k in VOTES], axis=1)
            if scale > 0:
                judged[name] = L / scale**0.5, wrong.astype(float)
        yield train, held, judged


def comparisons(X, y, folds, names):
    """Distances of held-out rows to their targets and impostors under each metric, as the
    rows of an array whose first is zero, and the triplets among them.
    """
    points, triplets, count = [np.zeros((1, len(names)))], [], 1
    for train, held, judged in folds:
        squares = np.stack(
            [_squares(X[held] @ judged[name][0], X[train] @ judged[name][0]) for name in names]
        )
        mean, same = squares.mean(axis=0), y[held][:, None] == y[train]
        near = [np.argsort(np.where(mask, mean, np.inf), axis=1)[:, :3] for mask in (same, ~same)]
        rows = np.arange(len(held))[:, None]
        chosen = np.concatenate([squares[:, rows, index] for index in near], axis=2)
        points.append(np.moveaxis(chosen, 0, 2).reshape(-1, len(names)) ** 0.5)
        first = count + 6 * np.arange(len(held))
        triplets += [
            np.stack([0 * first, first + i, first + 3 + j], axis=1)
            for i, j in product(range(3), repeat=2)
        ]
        count += 6 * len(held)
    return np.concatenate(points), np.concatenate(triplets)


def _squares(A, B):
    return np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * A @ B.T, 0)


def soft(wrong, sharpness):
    best = min(wrong.values(), key=np.mean)
    weights = {}
    for name, values in wrong.items():
        excess, error = (values - best).mean(), (values - best).std() / len(best) ** 0.5
        far = excess / error if error else np.inf if excess else 0.0
        weights[name] = np.exp(-sharpness * far)
    return weights


def program(X, y, folds, names, kappa):
    """The weights of the program, and whether it is solved to its tolerance."""
    points, triplets = comparisons(X, y, folds, names)
    scale = RelativeComparisons(max_iter=1).fit(points, triplets=triplets).C_
    metric = RelativeComparisons(C=kappa * scale).fit(points, triplets=triplets)
    return dict(zip(names, metric.feature_weights_, strict=True))


def weights_of(rule, X, y, folds, names, votes):
    columns = [VOTES.index(3)] if votes == "3" else slice(None)
    # pooled over divisions: a row is judged once by each
    wrong = {
        name: np.concatenate([judged[name][1][:, columns].mean(axis=1) for *_, judged in folds])
        for name in names
    }
    kind, *figures = rule.split()
    if kind == "equal":
        return dict.fromkeys(names, 1.0)
    if kind == "best":
        best = min(names, key=lambda name: wrong[name].mean())
        return {name: float(name == best) for name in names}
    if kind == "qp":
        return program(X, y, folds, names, float(figures[0]))
    weights = soft(wrong, float(figures[0]))
    if "qp" in figures:
        learned = program(X, y, folds, names, float(figures[2]))
        total, other = sum(weights.values()), sum(learned.values()) or 1.0
        return {name: weights[name] / total + learned[name] / other for name in names}
    return weights


def measure(name, run):
    """The 3-NN error of every rule, of NCA and of the plain distance on one split."""
    warnings.simplefilter("ignore")
    data = load(f"keel_{name}")
    split = KEEL_AUTO.split(f"keel_{name}", data.y, run)
    X, y, test = data.X[split.train], data.y[split.train], split.test[:3000]
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1
    X, T, t = (X - mean) / deviation, (data.X[test] - mean) / deviation, data.y[test]
    estimators = {
        "plain": None,
        **{n: c.estimator for n, c in default_candidates().items()},
        **EXTRA,
    }
    divisions = {n: list(fit_folds(X, y, *how, estimators)) for n, how in DIVISIONS.items()}
    nca = NeighborhoodComponentsAnalysis(random_state=0).fit(X, y)
    errors = {"plain": knn_error(None, X, y, T, t), "nca": knn_error(nca, X, y, T, t)}
    automatic = ["5a" if len(y) <= FEW_ROWS else "3a"]
    for rule in RULES:
        folds_name, subset, votes, kind = rule
        folds = [fold for n in FOLDS.get(folds_name, automatic) for fold in divisions[n]]
        names = [n for n in SUBSETS[subset] if all(n in judged for *_, judged in folds)]
        weights = weights_of(kind, X, y, folds, names, votes)
        if not any(weights.values()):
            weights = dict.fromkeys(names, 1.0)
        parts = {n: sum(judged[n][0] @ judged[n][0].T for *_, judged in folds) for n in names}
        if kind.endswith(("refit", "both")):
            whole = refitted(X, y, estimators, parts)
            alone = kind.endswith("refit")
            parts = {n: whole[n] if alone else parts[n] + whole[n] for n in names}
        L = factor(sum(weights[n] * parts[n] for n in names))
        errors["/".join(rule)] = knn_error(None, X @ L, y, T @ L, t)
    return {"set": name, "run": run, "errors": {rule: 100 * e for rule, e in errors.items()}}


def summary(records):
    sets = list(dict.fromkeys(record["set"] for record in records))
    errors = {
        rule: [1 + np.array([r["errors"][rule] for r in records if r["set"] == s]) for s in sets]
        for rule in records[0]["errors"]
    }
    mean = {rule: np.array([e.mean() for e in values]) for rule, values in errors.items()}
    print(
        f"{len(sets)} sets, {len(records)} splits\n{'rule':32s} ratio to NCA   won lost worse than "
        f"plain   log of the ratio to {DEFAULT} (standard error)"
    )
    for rule, values in mean.items():
        ratio, plain = values / mean["nca"], values / mean["plain"]
        logs = [np.log(e / base) for e, base in zip(errors[rule], errors[DEFAULT], strict=True)]
        error = sum(log.var() / max(len(log) - 1, 1) for log in logs) ** 0.5 / len(sets)
        print(
            f"{rule:32s} {np.exp(np.log(ratio).mean()):12.4f} {(ratio < 0.97).sum():5d} "
            f"{(ratio > 1.03).sum():4d} {(plain > 1.03).sum():5d} "
            f"{np.mean([log.mean() for log in logs]):+12.4f} ({error:.4f})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(TUNED_ON), choices=TUNED_ON)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("blend_weights.json"))
    options = parser.parse_args()
    cells = [(name, run) for run in range(options.runs) for name in options.sets]
    records = []
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for record in Parallel(options.jobs, return_as="generator_unordered")(
            delayed(measure)(*cell) for cell in cells
        ):
            records.append(record)
            options.out.write_text(json.dumps(records))
    summary(records)


if __name__ == "__main__":
    main()
