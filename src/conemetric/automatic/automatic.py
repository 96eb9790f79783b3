"""AutoMetric: the metrics of several methods blended into one, weighted by held-out error.

    M = sum over methods k and folds f of a_k M_kf / s_kf        (docs/mathematics)

Method k learns M_kf without the rows of fold f, which then judge it and give its scale s_kf. The best
alone would follow noise on small data; equal weights would let a bad one spoil the mean. Nothing is
refitted: the mean of three metrics learned from two thirds of the rows each was found to err no more
than one learned from all rows.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.covariance import ledoit_wolf
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..constraints.labels import check_labels, refuse_continuous
from ..core import spectral
from ..core.arrays import is_torch, like, transposed
from ..core.atomic import atomic_fit
from ..core.blas import blas_threads_for, side_by_side
from ..core.clock import stopwatch
from ..core.progress import is_all_or_nothing, labelled
from ..core.sklearn_private import Interval, StrOptions
from ..core.threads import MIN_PARALLEL_WORK
from ..engine.certificate import Certificate
from ..estimators.base import SOLVER_PARAMETERS, MahalanobisMetric
from ..estimators.kernel_coordinates import KernelCoordinates
from ..estimators.validation import validate_labelled_points
from ..papers.boostmetric.boostmetric import BoostMetric
from ..papers.frobmetric.frobmetric import FrobMetric
from ..papers.relative_comparisons.relative_comparisons import RelativeComparisons
from . import kernel_spaces
from .folds import (
    BASELINE,
    BLEND,
    TOL,
    VOTES,
    CandidateMethod,
    JudgedMetric,
    LabelledFolds,
    Weighed,
    check_groups,
    fit_linear_map,
)
from .kernel_spaces import KernelBlend

MOST_ROWS_FOR_NCA = 800  # a step is quadratic in rows and features
MOST_LEARNERS = 100  # one direction each: 0.1 to 0.3 s a fold of 1,000 rows and 64 features
MOST_FEATURES = 200  # beyond, on embeddings, the identity prior changes nothing
# candidates in the coordinates of a kernel: the identity prior and BoostMetric did not lower the
# held-out error there; the slow one is learned for the better kernel only
QUICK_IN_KERNELS = ("RelativeComparisons", "LDA")
SLOW_IN_KERNELS = ("FrobMetric",)


class PooledDiscriminant(TransformerMixin, BaseEstimator):
    """Linear discriminant analysis with one shrunk covariance for all classes: the directions in
    which class means differ, scaled to unit variance within classes.

    scikit-learn shrinks the covariance of each class separately, which has no effect on a class of
    two rows: with few rows of many classes the sum is singular or nearly so. Here the rows, each
    centred on the mean of its class, are pooled first (Ledoit and Wolf, 2004).
    """

    _parameter_constraints: dict = {}

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the directions from rows and their class labels."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        _, of_class, size = np.unique(y, return_inverse=True, return_counts=True)
        means = np.stack([X[of_class == c].mean(axis=0) for c in range(len(size))])
        within = X - means[of_class]
        units = within.std(axis=0)
        units[units == 0] = 1
        covariance, _ = ledoit_wolf(within / units, assume_centered=True)
        root = cholesky(covariance, lower=True)
        between = (size / len(X))[:, None] ** 0.5 * (means - X.mean(axis=0)) / units
        U, _, _ = np.linalg.svd(solve_triangular(root, between.T, lower=True), full_matrices=False)
        directions = solve_triangular(root, U[:, : len(size) - 1], lower=True, trans="T")
        self.components_ = directions.T / units
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The rows along the directions."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.components_.T


def default_candidates() -> dict[str, CandidateMethod]:
    """The candidates of ``candidates="auto"``, cheap ones first."""
    prior = FrobMetric(prior="identity", tol=TOL)
    nca = NeighborhoodComponentsAnalysis(max_iter=10)
    boost = BoostMetric(1e-7, loss="exponential", solver="stagewise", max_iter=MOST_LEARNERS)
    return {
        "RelativeComparisons": CandidateMethod(RelativeComparisons()),
        "LDA": CandidateMethod(PooledDiscriminant()),
        "FrobMetric": CandidateMethod(FrobMetric(tol=TOL)),
        "FrobMetric (identity prior)": CandidateMethod(prior, most_features=MOST_FEATURES),
        "BoostMetric": CandidateMethod(boost, most_features=MOST_FEATURES),
        "NCA": CandidateMethod(nca, MOST_ROWS_FOR_NCA, MOST_FEATURES),
    }


class CandidateFit(NamedTuple):
    """How the fits of a candidate went: its metrics, one per fold, or why it has none."""

    metrics: list[JudgedMetric]
    certificates: list[Certificate]
    n_rows: int  # that it learned from, of each fold
    said: str

    @classmethod
    def left_out(cls, n_rows: int, why: str) -> Self:
        """That of a candidate without metrics."""
        return cls([], [], n_rows, why)


@dataclass(eq=False, repr=False)
class AutoMetric(MahalanobisMetric):
    """Mahalanobis metric blended from those of several methods, with evidence of what it
    gains over the Euclidean distance.

    Every candidate is fitted three times, each time without another third of the rows of every
    class (five times without a fifth up to 600 rows). Its errors on the rows left out
    decide its weight in the blend. The blend returns to the Euclidean
    distance where its own held-out error is worse, or the labels are too few. The weights are no
    test; ``evidence_`` is. Learns from labels only.

    A class with fewer rows than folds is held out in as many folds as it has rows. A class of
    one row is learned from but never held out, and rows without a label (-1) are ignored.

    Candidates that solve a program have certificates (``certificates_``): how close each came
    to the optimum of its own program, on its part of the rows. The blend is the optimum of no
    program, so nothing is proven about it; its gain is measured (``evidence_``).

    Parameters
    ----------
    candidates : "auto" or dict of str to estimator, default="auto"
        "auto" takes `RelativeComparisons`, `FrobMetric` without a prior and with
        ``prior="identity"`` (at most 200 features) to a gap of 0.1, `BoostMetric` (100 learners,
        at most 200 features), linear discriminant analysis with a shrunk covariance ("LDA") and
        scikit-learn's `NeighborhoodComponentsAnalysis` ("NCA", 10 steps, at most 800 rows and 200
        features). A dict can hold any estimators that learn from labels and transform linearly.
        The Euclidean distance is always a candidate.
    kernel : "auto" or None, default=None
        "auto" also learns a blend of `RelativeComparisons`, LDA and `FrobMetric` in the
        coordinates of a Gaussian or Laplacian kernel (up to 20,000 rows), and takes it where it is
        better on the held-out rows by at least one standard error. The metric is then not linear in
        the columns.
    n_components : int, default=None
        Keep only this many leading directions of the blend (its best approximation of that
        rank). None keeps all.
    max_rows : int, default=None
        Rows of each fold that a candidate learns from, at most; None: all, except NCA's 800.
        ``shortened_`` names the candidates that had fewer.
    n_neighbors : int or "auto", default=3
        k of the k-NN vote on held-out rows. "auto" takes the one of 1, 3, 5 and 7 with which the
        Euclidean distance has the lowest held-out error; ``evidence_.n_neighbors`` says which.
    random_state : int, RandomState or None
        Draws the folds, and seeds the candidates.
    n_jobs : int, default=None
        Processes (threads for tensors) that fit the folds of a candidate. None: one after the
        other, but on small data the candidates of "auto" on all cores.
    verbose : int, default=0
        Print one line per candidate.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    space_ : {"linear", "gaussian", "laplacian"}
        Where the blend was learned: in the columns, or in the coordinates of a kernel.
    space_errors_ : dict of str to float
        Held-out error of the linear blend, and of that of the better kernel. The choice between
        them was made on the same rows.
    kernel_coordinates_ : KernelCoordinates or None
        Of the kernel that was chosen: what maps rows before ``components_``.
    weights_ : dict of str to float
        Weight of each candidate in the blend; they add up to 1.
    evidence_ : Evidence
        Cross-validated errors of candidates, blend and Euclidean distance; ``print`` it for a
        one-sentence summary.
    certificates_ : dict of str to list of Certificate
        One per fold, for candidates that have them. A solved program does not prove that its
        metric helps; see ``evidence_``.
    shortened_ : dict of str to str
        Candidates that were fitted to part of the rows only, and to how many.
    left_out_ : dict of str to str
        Candidates that could not be fitted, and why.
    interrupted_ : bool
        Whether Ctrl-C ended the fit: the blend is then of the candidates fitted so far.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from conemetric import AutoMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = AutoMetric(random_state=0).fit(StandardScaler().fit_transform(X), y)
    >>> metric.evidence_.error["blend"] <= metric.evidence_.error["Euclidean"]
    True
    >>> sorted(metric.weights_)[:4]
    ['BoostMetric', 'Euclidean', 'FrobMetric', 'FrobMetric (identity prior)']
    """

    _: KW_ONLY
    candidates: str | dict[str, Any] = "auto"
    kernel: str | None = None
    n_components: int | None = None
    max_rows: int | None = None
    n_neighbors: int | str = 3
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints = {
        "candidates": [StrOptions({"auto"}), dict],
        "kernel": [StrOptions({"auto"}), None],
        "max_rows": [Interval(Integral, 2, None, closed="left"), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_jobs": [Integral, None],
        **{name: SOLVER_PARAMETERS[name] for name in ("n_components", "random_state", "verbose")},
    }

    @atomic_fit(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, target: str = "auto", groups: Any = None) -> Self:
        """Learn the blend from labels.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)
        y : array-like (n,)
            Class labels.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; continuous targets raise an error.
        groups : array-like (n,), default=None
            Rows with equal entries, such as those of one person, are held out together.

        Returns
        -------
        self
        """
        X, y = validate_labelled_points(self, X, y)
        refuse_continuous(y, target, "AutoMetric")
        self._check_n_components()
        candidates = self._candidates()
        rows = self._folds(X, y, groups)
        plain: list[Any] = [rows.judge(np.eye(X.shape[1]), fold) for fold in rows.folds]
        if None in plain:
            raise ValueError(f"all {len(X)} rows of X coincide; pass columns that vary.")
        found: dict[str, Any] = {BASELINE: plain}
        # NCA, which has no solver of ours to limit its threads, multiplies all rows with each other
        with blas_threads_for(float(len(X)) * (X.shape[0] * X.shape[1])):
            self._fit_candidates(rows, candidates, found)
            linear = rows.weigh(found)
            self.weights_ = linear.weights
            self.evidence_ = linear.evidence
            self._cross_fitted = linear.cross_fitted
            self.space_ = "linear"
            self.space_errors_ = {"linear": float(linear.wrong.mean())}
            in_kernel = self._kernel_space(rows, linear)
        if in_kernel is not None:
            self._store_kernel(in_kernel, plain, X)
            return self
        L = spectral.factor(self._blended(found))[:, : self.n_components]
        self.components_ = transposed(like(L, X, X.dtype))
        return self

    def _folds(self, X: Any, y: Any, groups: Any) -> LabelledFolds:
        """The labelled rows, divided into folds."""
        rng = check_random_state(self.random_state)
        fewest = VOTES[0]
        if isinstance(self.n_neighbors, Integral):
            fewest = self.n_neighbors
        if groups is not None:
            groups = check_groups(groups, X.shape[0])
        return LabelledFolds(X, check_labels(y, fewest), self.n_neighbors, rng, groups)

    def _fit_candidates(
        self,
        rows: LabelledFolds,
        candidates: Mapping[str, CandidateMethod],
        found: dict[str, list[JudgedMetric]],
    ) -> None:
        """Add the metrics of each candidate to those ``found``; an interrupt ends with those so far."""
        self.certificates_: dict[str, list[Certificate]] = {}
        self.shortened_: dict[str, str] = {}
        self.left_out_: dict[str, str] = {}
        self.interrupted_ = False
        run: Any = map
        if self._runs_side_by_side(rows.X):
            run = partial(side_by_side, X=rows.X)
        try:
            # lazy: what was fitted before Ctrl-C has been taken over by then
            fits = run(partial(self._fit_candidate, rows), candidates.items())
            for name, fit in zip(candidates, fits, strict=True):
                outcome = ""
                if fit.metrics:
                    found[name] = fit.metrics
                    self.certificates_[name] = fit.certificates
                    if fit.n_rows < rows.n_train:
                        self.shortened_[name] = f"{fit.n_rows:,} of {rows.n_train:,} rows"
                else:
                    self.left_out_[name] = fit.said
                    outcome = " is left out"
                if self.verbose:
                    print(f"[AutoMetric] {name}{outcome}: {fit.said}")
        except KeyboardInterrupt:
            if is_all_or_nothing():
                raise
            self.interrupted_ = True

    def _runs_side_by_side(self, X: Any) -> bool:
        """Whether each candidate has a core: on few rows, where a candidate cannot use several."""
        few = X.shape[0] * X.shape[1] < MIN_PARALLEL_WORK
        alone = self.n_jobs is None and effective_n_jobs(None) == 1  # no `parallel_config` either
        # estimators of the user may not be made for threads
        return few and alone and self.candidates == "auto"

    def _blended(self, found: Mapping[str, list[JudgedMetric]]) -> Any:
        """The matrix of the linear blend: that of every candidate and fold, by the candidate's weight."""
        matrix: Any = 0
        for name, metrics in found.items():
            for metric in metrics:
                matrix = matrix + self.weights_[name] * metric.L @ metric.L.T
        return matrix

    def _kernel_space(self, rows: LabelledFolds, linear: Weighed) -> KernelBlend | None:
        """The blend in the coordinates of a kernel if held-out rows are clearly better there, or None."""
        if self.kernel is None or self.interrupted_ or len(rows.labels) > kernel_spaces.MAX_ROWS:
            return None
        methods = default_candidates()
        quick = {name: methods[name].estimator for name in QUICK_IN_KERNELS}
        slow = {name: methods[name].estimator for name in SLOW_IN_KERNELS}
        began = stopwatch()
        try:
            blend = kernel_spaces.best_blend(rows, linear, quick, slow, self.max_rows)
        except KeyboardInterrupt:
            if is_all_or_nothing():
                raise
            self.interrupted_ = True
            return None
        kernel = blend.rows.kernel
        error = float(blend.weighed.wrong.mean())
        self.space_errors_[kernel] = error
        if self.verbose:
            seconds = stopwatch() - began
            print(f"[AutoMetric] {kernel} coordinates: {error:.1%} wrong, {seconds:.1f} s")
        if not kernel_spaces.is_clearly_better(blend, linear):
            return None
        return blend

    def _store_kernel(self, blend: KernelBlend, plain: list[JudgedMetric], X: Any) -> None:
        """Store the blend in the coordinates of a kernel."""
        self.space_ = blend.rows.kernel
        self.certificates_ = blend.certificates
        self.weights_ = blend.weighed.weights
        self.evidence_ = blend.evidence(plain)
        kernel_map, scales = blend.mapped(self.n_components)
        self.kernel_coordinates_ = KernelCoordinates._of_map(kernel_map)
        self.components_ = like(np.diag(scales), X, X.dtype)

    def _candidates(self) -> dict[str, CandidateMethod]:
        """The candidates by name; refuses those that cannot be."""
        if isinstance(self.candidates, str):
            return default_candidates()
        for name, estimator in self.candidates.items():
            if name in (BASELINE, BLEND):
                raise ValueError(f"candidates has {name!r}, which is a reserved name; use another.")
            if not hasattr(estimator, "fit") or not hasattr(estimator, "transform"):
                fault = f"candidates has {name!r}: {estimator!r}, which has no fit and transform"
                raise TypeError(f"{fault}; pass an unfitted estimator.")
        return {name: CandidateMethod(estimator) for name, estimator in self.candidates.items()}

    def _fit_candidate(
        self, rows: LabelledFolds, named: tuple[str, CandidateMethod]
    ) -> CandidateFit:
        """A candidate fitted without each fold, and judged on it."""
        name, candidate = named
        began = stopwatch()
        n_rows = min(rows.n_train, candidate.most_rows, self.max_rows or rows.n_train)
        if len(rows.varying) > candidate.most_features:
            why = f"{len(rows.varying)} features are too many for it"
            return CandidateFit.left_out(n_rows, why)
        try:
            with labelled(candidate=name):
                fits = self._fit_folds(rows, candidate, n_rows)
        # scikit-learn's LDA raises IndexError where the class means of all rows coincide
        except (ValueError, IndexError, np.linalg.LinAlgError) as error:
            if self.candidates != "auto":
                raise
            return CandidateFit.left_out(n_rows, str(error))
        metrics = []
        certificates = []
        for fold, (L, certificate) in zip(rows.folds, fits, strict=True):
            metric = rows.judge(rows.lifted(L), fold)
            if metric is None:
                return CandidateFit.left_out(n_rows, "its metric is zero")
            metrics.append(metric)
            if certificate:
                certificates.append(certificate)
        rate = np.concatenate([metric.wrong for metric in metrics]).mean()
        said = f"{rate:.1%} wrong on held-out rows, {stopwatch() - began:.1f} s"
        return CandidateFit(metrics, certificates, n_rows, said)

    def _fit_folds(
        self, rows: LabelledFolds, candidate: CandidateMethod, n_rows: int
    ) -> list[tuple[np.ndarray, Any]]:
        """The map and the certificate of a candidate learned without each fold."""
        prefer = None
        if is_torch(rows.X):  # processes would copy tensors, or lack their device
            prefer = "threads"
        run = Parallel(self.n_jobs, prefer=prefer)
        fit = delayed(fit_linear_map)
        parts = (rows.training(fold, n_rows, candidate) for fold in rows.folds)
        return run(fit(candidate.estimator, *part, rows.seed) for part in parts)
