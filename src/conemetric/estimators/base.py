"""The scikit-learn surface every learned metric shares: rows of X on the way in, the
Mahalanobis methods on the way out. What a metric is learned from is in `supervised`.
"""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from ..constraints.in_blocks import is_dask
from ..constraints.in_memory import is_continuous, refuse_continuous
from ..core import spectral
from ..core.arrays import (
    as_array,
    float64,
    is_torch,
    like,
    namespace,
    refuse_masked,
    to_numpy,
    transposed,
)
from ..core.sklearn_private import Interval
from ..core.sparse_rows import SparseRows
from ..core.warn import warn_user
from ..operators.span import Coordinates
from ..problems.base import Problem
from ..solvers.base import Solver, SolveResult
from .tuples import TupleMethods, look_up

# rows or features, whichever are fewer, of a sparse X: as many as a dense matrix between
# them may have to be decomposed again and again
MOST_SPARSE = 5000
MOST_DENSE = 1 << 27  # numbers of a sparse X made dense
LEAST, MOST = 1e-150, 1e150  # sizes of parameters
WIDEST = {4: 1e15, 8: 1e60}  # extents of X by the bytes of its numbers
SAMPLE = 1000  # rows that a metric is tried on
MERGED = 1e-9  # part of the extent of the mapped rows below which two are in one place
FEWEST_PLACES = 0.1  # part of the rows that differ which a metric should tell apart


class UselessMetricWarning(UserWarning):
    """The optimum was found, and it is no metric to work with: all points, or nearly
    all, are in the same place.
    """


class CertifiedEstimator(BaseEstimator):
    """What every estimator here does around a solve: show its progress, keep its proof."""

    # scikit-learn links an estimator's diagram to its page
    _doc_link_module = "conemetric"
    _doc_link_template = (
        "https://conemetric.readthedocs.io/en/stable/generated/conemetric.{estimator_name}.html"
    )

    def _progress(self):
        """The callback that prints one line per iteration when ``verbose`` asks for it."""
        if not self.verbose:
            return None
        name = type(self).__name__

        def report(record):
            if record["iteration"] % max(1, 11 - self.verbose) == 0:
                print(
                    f"[{name}] {record['iteration']:5d}  primal {record['primal']:.6e}  dual "
                    f"{record['dual']:.6e}  "
                    f"gap {record['relative_gap']:.2e}  {record['seconds']:.1f} s"
                )

        return report

    def _validate_params(self):
        """Refuse numbers whose squares and quotients no float can hold, whatever else is
        asked of a parameter.
        """
        for name, value in self.get_params(deep=False).items():
            if not isinstance(value, Real) or value in (0, np.inf) or value != value:
                continue
            try:
                size = abs(float(value))
            except OverflowError:
                size = np.inf
            if size > MOST or (size < LEAST and name != "tol"):
                raise ValueError(
                    f"{name} is {'more' if size > MOST else 'less'} than a fit can compute with; "
                    f"give a number between {LEAST:g} and {MOST:g}."
                )
        super()._validate_params()

    def _check_n_components(self):
        """Refuse more directions than the data have, once it is known how many that is."""
        if self.n_components is not None and self.n_components > self.n_features_in_:
            raise ValueError(
                f"n_components={self.n_components} is more than the {self.n_features_in_} features "
                "there are; lower it, or use None to keep the rank of the learned metric."
            )

    def _run(self, solver: Solver, problem: Problem, **options) -> SolveResult:
        """Solve in the name of this estimator, and as verbosely as it is asked to be."""
        return solver.solve(
            problem, **{"callback": self._progress(), "name": type(self).__name__, **options}
        )

    def _store_result(self, result: SolveResult):
        """Keep the certificate and the history of ``result``."""
        self.certificate_ = result.certificate
        self.objective_ = result.certificate.primal
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        return self


class MahalanobisMetric(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, TupleMethods, CertifiedEstimator
):
    """Base of all estimators that learn d(x, x')^2 = (x - x')' M (x - x') with M =
    components_' components_.

    A subclass writes ``fit``, which reads as: validate, make constraints and operator,
    solve, `_store`. X may be anything scikit-learn takes, or a PyTorch tensor; a tensor
    stays on its device, and so do the fitted attributes.
    """

    components_: np.ndarray
    _takes_sparse = False

    # ---- on the way in

    def _validate_X(self, X, reset=False, min_samples=1):
        refuse_dask(self, X)
        refuse_masked(X, "X")
        if is_torch(X):
            X = check_tensor(X, min_samples)
            if reset:
                check_extent(X)
                self.n_features_in_ = X.shape[1]
            elif X.shape[1] != self.n_features_in_:
                name, expected = type(self).__name__, self.n_features_in_
                raise ValueError(
                    f"X has {X.shape[1]} features, but {name} is expecting {expected} features as "
                    "input."
                )
            return X
        rows = X.matrix if isinstance(X, SparseRows) else X
        rows = validate_data(
            self, rows, reset=reset, **self._input_rules(), ensure_min_samples=min_samples
        )
        return self._points(rows, reset)

    def _input_rules(self):
        sparse = "csr" if self._takes_sparse else False
        return {"dtype": [np.float64, np.float32], "accept_sparse": sparse}

    def _points(self, X, fitting):
        """X, a sparse one as `SparseRows`; refused where it is too large to learn from."""
        if fitting:
            check_extent(X)
        if not issparse(X):
            return X
        if fitting and min(X.shape) > MOST_SPARSE:
            raise ValueError(
                f"X is sparse with {X.shape[0]} rows and {X.shape[1]} features; a metric is learned "
                f"from it exactly while one of these is at most {MOST_SPARSE}. Reduce the features "
                f"first: make_pipeline(TruncatedSVD(300), {type(self).__name__}())."
            )
        return SparseRows(X)

    def _validate_X_and_y(self, X, y):
        """X, and y as a vector on the host with one label for each row."""
        refuse_dask(self, X)
        refuse_masked(X, "X")
        refuse_masked(y, "y")
        if not is_torch(X):
            rows = X.matrix if isinstance(X, SparseRows) else X
            rows, y = validate_data(
                self, rows, to_numpy(y), **self._input_rules(), ensure_min_samples=2
            )
            return self._points(rows, fitting=True), y
        X, y = self._validate_X(X, reset=True, min_samples=2), column_or_1d(to_numpy(y), warn=True)
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} labels for {len(X)} rows of X; give one for each.")
        return X, y

    def _refuse_continuous(self, y, target):
        """Refuse a quantity y where there is no metric to learn from one."""
        if is_continuous(y, target):
            refuse_continuous(*np.unique(y, return_counts=True), target, type(self).__name__)

    def _dense(self, X):
        """X as a dense array, where an estimator cannot do without one."""
        if not isinstance(X, SparseRows):
            return X
        n, D = X.shape
        if n * D > MOST_DENSE:
            raise ValueError(
                f"X is sparse with {n} rows and {D} features; {type(self).__name__} has to make "
                f"it dense, which takes {n * D * X.dtype.itemsize / 1e9:.0f} GB. Reduce the "
                f"features first: make_pipeline(TruncatedSVD(300), {type(self).__name__}())."
            )
        return X.toarray()

    # ---- on the way out

    @property
    def _fixed_trace(self) -> bool:
        """Whether the program fixes a trace, so that a cut metric is scaled up to it."""
        return False

    def _keep(self, X, space: Coordinates):
        """What to give to `Solver.solve` so that the certificate is about the metric as
        it is stored.

        Parameters
        ----------
        X : array
            In whose precision and on whose device the metric is stored.
        space : Coordinates
            Of the program.
        """

        def keep(L):
            # rounding lives in the coordinates of the program: the rank is settled there
            L = spectral.canonical_factor(L)
            if self._fixed_trace:
                L = L / (L * L).sum() ** 0.5
            if not space.maps:
                return like(L, X), like(L, X)
            factor = space.lift(float64(L))
            if space.isometric:  # its columns stay orthogonal
                factor *= spectral.signs(factor)
            else:
                factor = spectral.canonical_factor(factor, rtol=0.0)
            factor = like(factor, X)
            return factor, space.lower(float64(factor))

        return keep

    def _store(self, problem: Problem, result: SolveResult, points):
        """Set ``components_`` to the metric that ``result`` has certified, its rows by
        falling eigenvalue; cut to ``n_components`` it is certified again. Warn where it
        tells few of the ``points`` apart, which are in the coordinates of the program.
        """
        L, point, certificate = result.kept, result.primal_point, result.certificate
        n = self.n_components
        if n is not None and L.shape[1] > n:
            L, point = L[:, :n], point[:, :n]
            if self._fixed_trace:
                trace = float((float64(point) ** 2).sum())
                L, point = L * trace**-0.5, point * trace**-0.5
            primal = problem.certify(point, result.dual_point).primal
            certificate = certificate.truncated(primal, self.tol)
        if L.shape[1] == 0:  # the zero metric still needs a column to transform into
            L = like(np.zeros((L.shape[0], 1)), L)
        self.components_ = transposed(L)
        self._warn_if_useless(points, point)
        return self._store_result(replace(result, certificate=certificate))

    # what to do about a metric that tells no points apart
    _remedy = "fewer targets or more impostors (n_targets, n_impostors), or other features"

    def _warn_if_useless(self, points, L):
        """Say so where the optimum is no metric to work with."""
        rows = np.unique(np.linspace(0, len(points) - 1, min(len(points), SAMPLE)).astype(int))
        rows = points[like(rows, points, namespace(points).int64)]
        rng = np.random.default_rng(0)
        view = like(rng.standard_normal((points.shape[1], 4)), L)  # shows which rows differ
        given, left = (n_places(to_numpy(rows @ like(F, points))) for F in (view, L))
        if left > max(1, FEWEST_PLACES * given):
            return
        fault = (
            "is zero: it calls all points the same"
            if left == 1
            else f"tells {left} places apart where {given} rows of X differ"
        )
        warn_user(
            f"The metric that {type(self).__name__} learned {fault}, so that neighbours by it are "
            "arbitrary. It is the optimum of a program in which the classes overlap too much to "
            f"be worth separating; try {self._remedy}, or stay with the plain distance.",
            UselessMetricWarning,
        )

    def __sklearn_is_fitted__(self):
        # validation sets attributes before a fit that fails or is interrupted
        return hasattr(self, "components_")

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def transform(self, X):
        """Map X to the space where the learned metric is the Euclidean one.

        Parameters
        ----------
        X : array-like (n, n_features)

        Returns
        -------
        array (n, rank)
            ``X @ components_.T``.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._transform_lazily(X)
        X = self._features(self._validate_X(look_up(X, self.preprocessor)))
        return X @ like(self.components_, X).T

    def _transform_lazily(self, X):
        """The dask array that is transformed when it is computed."""
        X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        plain = type(self)._features is MahalanobisMetric._features
        dtype = np.result_type(X.dtype, np.float32)
        return X.rechunk({1: -1}).map_blocks(
            _transformed,
            to_numpy(self.components_),
            None if plain else self._features,
            dtype=dtype,
            chunks=(X.chunks[0], (len(self.components_),)),
            meta=np.empty((0, 0), dtype),
        )

    def _features(self, X):
        """What ``components_`` is applied to: X itself, unless a subclass learns its
        metric in other features of the points.
        """
        return X

    def get_mahalanobis_matrix(self):
        """The learned matrix M, positive semidefinite, with ``n_features_in_`` rows and columns."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs):
        """Learned distance within each pair.

        Parameters
        ----------
        pairs : array-like (n_pairs, 2, n_features), or (n_pairs, 2) with a preprocessor

        Returns
        -------
        array (n_pairs,)
        """
        check_is_fitted(self)
        refuse_masked(pairs, "pairs")
        pairs = look_up(pairs, self.preprocessor)
        pairs = as_array(pairs)
        if pairs.ndim != 3 or pairs.shape[1:] != (2, self.n_features_in_):
            raise ValueError(
                f"pairs has shape {tuple(pairs.shape)}; give two points for each pair, (n_pairs, "
                f"2, {self.n_features_in_})."
            )
        points = pairs.reshape(-1, self.n_features_in_)
        if is_torch(points):
            points = check_tensor(points, 0)
        else:
            points = check_array(
                points, dtype=[np.float64, np.float32], ensure_min_samples=0, input_name="pairs"
            )
        features = self._features(points)
        difference = features[0::2] - features[1::2]
        mapped = difference @ like(self.components_, difference).T
        return (mapped * mapped).sum(1) ** 0.5

    def pair_score(self, pairs):
        """Similarity within each pair: the negative of `pair_distance`, so that larger
        means more alike.
        """
        return -self.pair_distance(pairs)

    def get_metric(self):
        """A function ``metric(u, v, squared=False)`` of two points, for code that takes
        a callable (SciPy, scikit-learn).
        """
        check_is_fitted(self)
        components, features = to_numpy(self.components_).copy(), self._features
        n_features = self.n_features_in_

        def metric(u, v, squared=False):
            first, second = (
                features(_row(point, name, n_features)) for name, point in (("u", u), ("v", v))
            )
            mapped = components @ (first - second)[0]
            value = float(mapped @ mapped)
            return value if squared else value**0.5

        return metric

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _row(point, name, n_features):
    """A point, given as a vector, as one row or, of one feature, as a number; as one row."""
    row = np.asarray(point) if n_features > 1 else np.atleast_1d(point)
    if row.ndim != 1 and not (row.ndim == 2 and len(row) == 1):
        raise ValueError(f"{name} has shape {row.shape}; give one point, as a vector.")
    return row.reshape(1, -1)


def n_places(rows):
    """Distinct rows; those nearer than `MERGED` times the extent of all count as one.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.estimators.base import n_places
    >>> n_places(np.array([[1.0, 2.0], [1.0, 2.0 + 1e-12], [0.0, 1.0]]))
    2
    """
    rows = rows.astype(np.float64)
    rows = rows - rows.mean(0)
    extent = abs(rows).max(initial=0.0)
    return len(np.unique(np.round(rows / (MERGED * extent)), axis=0)) if extent > 0 else 1


SOLVER_PARAMETERS = {
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


def check_extent(X):
    """Refuse rows that spread too far, or too little, or lie too far out, to compute with."""
    if issparse(X):
        spread = float(abs(X.data).max(initial=0.0))
    else:
        xp = namespace(X)
        with np.errstate(over="ignore"):
            spread = float((xp.amax(X, 0) - xp.amin(X, 0)).max())
    check_size(spread, X.dtype, "X")
    largest = spread if issparse(X) else float(abs(X).max())
    if largest > WIDEST[X.dtype.itemsize] ** 2:
        raise ValueError(f"X holds numbers as large as {largest:.1e}; centre and rescale it.")


def check_size(size, dtype, name):
    """Refuse rows whose distances, squared and squared again, leave the range of numbers."""
    widest = WIDEST[dtype.itemsize]
    if size > widest or 0 < size < 1 / widest:
        raise ValueError(
            f"{name} spreads over {size:.1e}, and its squared distances leave the range of "
            f"{dtype}; rescale it (StandardScaler), or give it in float64."
        )


def check_tensor(X, min_samples):
    import torch

    if X.layout != torch.strided or X.is_complex():
        raise TypeError(
            f"X is a tensor of layout {X.layout} and {X.dtype}; give a dense, real one "
            "(X.to_dense(), X.real)."
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D tensor X of shape {tuple(X.shape)} instead; "
            "reshape it."
        )
    if X.shape[0] < min_samples or X.shape[1] == 0:
        raise ValueError(
            f"X has {X.shape[0]} sample(s) and {X.shape[1]} feature(s); at least {min_samples} "
            "and 1 are needed."
        )
    if not X.is_floating_point():
        X = X.double()
    elif X.element_size() < 4:
        X = X.float()
    if not bool(X.isfinite().all()):
        raise ValueError("X contains NaN or infinity; drop those rows or impute them first.")
    return X.detach()


def refuse_dask(estimator, X, name="X"):
    """Say what to do with a dask collection where only memory will do."""
    if is_dask(X):
        raise TypeError(
            f"{type(estimator).__name__} works in memory, and {name} is a {type(X).__module__} "
            f"collection; give {name}.compute() or a sample of its rows. FrobMetric, LMNNEig, DMLEig "
            "and BoostMetric learn from dask collections as they are."
        )


def _transformed(X, components, features):
    X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
    X = X if features is None else features(X)
    return X @ like(components, X).T
