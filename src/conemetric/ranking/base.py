"""The base of the estimators that learn from relevance judgements: judgements become
comparisons without units, and held-out queries choose the setting.

Before the solve all points are mapped by T, a power of the documents' covariance, so
that a change costs no more in directions along which documents hardly differ than
elsewhere. That chooses the regulariser and nothing else: neither what can be learned nor
where a path starts depends on T. T is scaled so that a comparison has size one, and the
prior so that a margin of one is a fixed fraction of that size, which makes C and the
margin free of units.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from ..core import spectral
from ..core.arrays import float64, is_torch, like, namespace, refuse_masked, to_numpy
from ..core.progress import all_or_nothing
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..core.warn import warn_user
from ..estimators.base import SOLVER_PARAMETERS, CertifiedEstimator
from ..estimators.validation import check_size, check_tensor, refuse_dask
from ..operators.base import Operator
from ..problems.base import Bounds
from ..problems.frobenius import FrobeniusProgram
from ..solvers.base import Certificate, SolveResult, Status
from ..solvers.dual_quasi_newton import DualQuasiNewton
from .judgements import Judgements, check_relevance, graded_triplets, random_negatives
from .measures import ndcg
from .top_k import nearest_documents

__all__ = ["Candidate", "RankingEstimator", "Setting"]

C_GRID = tuple(np.logspace(-1.5, 2.5, 9).tolist())
C_RATIO = 10**0.5  # of neighbours on the grid
N_FOLDS = 4
FEWEST_QUERIES = 2 * N_FOLDS  # two or more in every fold
MOST_HELD_OUT = 2_000  # bounds the time to rank for each candidate
CHOICE_TOL = 1e-2  # relative gap of the fits that only serve the choice
PATIENCE = 2  # values of C without a gain before a path ends
DEPTH = 10  # of the nDCG that chooses and scores
SAMPLED_DOCUMENTS = 1 << 16  # bounds the time for the covariance
SAMPLED_COMPARISONS = 1 << 12  # bounds the time for the mean size
SPREAD_POWER = -0.25  # T = covariance**SPREAD_POWER (docs/mathematics.md)
LEAST_SPREAD = 1e-3  # variances are raised to this fraction of the largest
RANKING_PARAMETERS = {
    "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "n_hard": [Interval(Integral, 0, None, closed="left")],
    "n_random": [Interval(Integral, 0, None, closed="left")],
    **SOLVER_PARAMETERS,
}


@dataclass(frozen=True)
class Setting:
    """Parameters of one fit; C = 0 keeps the embedding unchanged."""

    C: float
    margin: float
    n_hard: int
    n_random: int


@dataclass(frozen=True)
class Candidate:
    """A setting and its nDCG@10 on held-out queries.

    Attributes
    ----------
    setting : Setting
    mean : float
        Mean nDCG@10.
    gain, standard_error : float
        Mean difference from the unchanged embedding, query by query.
    values : array (n_held_out,)
        nDCG@10 of each query.
    """

    setting: Setting
    mean: float
    gain: float
    standard_error: float
    values: np.ndarray = field(repr=False)

    @classmethod
    def from_values(cls, setting: Setting, values: np.ndarray, unchanged: np.ndarray) -> Self:
        """Compare ``values`` with those of the ``unchanged`` embedding."""
        gain = values - unchanged
        error = float(gain.std(ddof=1)) / len(gain) ** 0.5
        return cls(setting, float(values.mean()), float(gain.mean()), error, values)

    @property
    def sure_gain(self) -> float:
        """The gain less one standard error: 0 for the unchanged embedding."""
        return self.gain - self.standard_error


@dataclass(frozen=True)
class TrainingData:
    """Queries with at least one relevant document each, the documents, and the judgements."""

    queries: Any
    documents: Any
    judgements: Judgements

    @property
    def _sample(self) -> Any:
        return self.documents[:: -(-len(self.documents) // SAMPLED_DOCUMENTS)]

    @cached_property
    def covariance(self) -> Any:
        """Covariance of the documents up to scale, float64 like every D x D matrix here."""
        centred = self._sample - self._sample.mean(0)
        covariance = float64(centred.T @ centred)
        size = float(abs(covariance).max())
        if not size > 0:
            raise ValueError(
                "all documents coincide, so there is nothing to rank; check how they were embedded."
            )
        return covariance / size

    @cached_property
    def second_moment(self) -> Any:
        """Second moment of the documents about the origin, up to scale."""
        return float64(self._sample.T @ self._sample)

    @cached_property
    def spread(self) -> tuple[Any, Any]:
        """T and its inverse, up to scale: see the module docstring."""
        variance, axes = spectral.eigh(self.covariance)
        variance = namespace(variance).clip(variance / variance[0], LEAST_SPREAD, None)
        T, inverse = ((axes * variance**power) @ axes.T for power in (SPREAD_POWER, -SPREAD_POWER))
        return T, inverse


@dataclass(frozen=True)
class Comparisons:
    """Triplets [query, better, worse] (m, 3) on the host; T and its inverse, which map to
    and from coordinates without units; and the embedding's own matrix in them, the prior.
    """

    triplets: np.ndarray
    T: Any
    inverse: Any
    prior: Any

    def select(self, queries: np.ndarray) -> "Comparisons":
        """The comparisons of the queries in a mask."""
        return replace(self, triplets=self.triplets[queries[self.triplets[:, 0]]])

    @property
    def weights(self) -> np.ndarray:
        """Weights that sum to one for every query, however many comparisons it has."""
        return 1 / np.bincount(self.triplets[:, 0])[self.triplets[:, 0]]


class RankingEstimator(CertifiedEstimator, metaclass=ABCMeta):
    """Base of the estimators that learn from relevance judgements.

    They learn a *map*, a matrix with D rows. A subclass defines how a map ranks documents,
    the convex program, and how a map and a solution of the program determine each other.
    """

    _program_type: ClassVar[type[FrobeniusProgram]]
    _margins: ClassVar[tuple[float, ...]]  # tried by C="auto"; the first goes with a fixed C

    @property
    @abstractmethod
    def _similarity(self) -> str:
        """Ranks mapped documents."""

    @abstractmethod
    def transform_queries(self, Q: Any) -> Any:
        """Map queries."""

    @abstractmethod
    def transform_documents(self, D: Any) -> Any:
        """Map documents."""

    @abstractmethod
    def _initial_map(self, data: TrainingData) -> Any:
        """The map of the unchanged embedding."""

    @abstractmethod
    def _nearest(self, map_, queries, documents, k, excluded=None) -> Any:
        """The k nearest documents by a map."""

    @abstractmethod
    def _comparison_size(self, queries, better, worse) -> float:
        """Mean size of the comparisons of these rows, quadratic in their units."""

    @abstractmethod
    def _operator(self, queries, documents, triplets) -> Operator:
        """The operator of the triplets."""

    @abstractmethod
    def _matrix(self, map_) -> Any:
        """The matrix of the program that corresponds to a map."""

    @abstractmethod
    def _map(self, data: TrainingData, T, point) -> Any:
        """The map that corresponds to a solution in the coordinates of T."""

    @abstractmethod
    def _point(self, inverse, map_) -> Any:
        """The solution that corresponds to a map: inverts `_map`."""

    @abstractmethod
    def _truncate(self, data: TrainingData, map_) -> Any:
        """The map reduced to ``n_components`` directions."""

    @abstractmethod
    def _store_map(self, data: TrainingData, map_) -> None:
        """Set the fitted attributes."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, queries: Any, documents: Any, relevance: Any) -> Self:
        """Learn from relevance judgements.

        Parameters
        ----------
        queries : array-like or tensor (n_queries, n_features)
        documents : array-like or tensor (n_documents, n_features)
        relevance : integer array-like (r, 2) or (r, 3), or sparse matrix
            Rows [query, document] or [query, document, grade]; or a sparse matrix of
            grades (n_queries, n_documents), in which a stored zero means judged not
            relevant. Unjudged documents may or may not be relevant.

        Returns
        -------
        self
        """
        refuse_dask(self, queries, "queries")
        refuse_dask(self, documents, "documents")
        data = self._validate(queries, documents, relevance, reset=True)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        setting = Setting(self.C, self._margins[0], self.n_hard, self.n_random)
        if self.C == "auto":
            setting = self._choose(data, seed)
        self.setting_, self.C_ = setting, setting.C
        if setting.C == 0:
            self._store_map(data, self._truncate(data, self._initial_map(data)))
            proof = Certificate.from_bounds(Bounds(0.0, 0.0), Status.CONVERGED)
            return self._store_result(SolveResult(None, None, proof, 0, {}))
        return self._solve(data, self._comparisons(data, setting, seed), setting)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NoReturn:
        """Not available: queries and documents are mapped separately."""
        name = type(self).__name__
        raise TypeError(
            f"{name} has no fit_transform(X, y): it learns from queries, documents and relevance. "
            f"Use {name}.fit(queries, documents, relevance), then transform_queries and "
            "transform_documents."
        )

    def _solve(self, data, comparisons, setting):
        """Fit, and certify the map as it is stored."""

        def keep(point):
            map_ = like(self._map(data, comparisons.T, float64(point)), data.documents)
            return map_, self._point(comparisons.inverse, float64(map_))

        program = self._program(self._mapped_operator(data, comparisons), comparisons, setting)
        solver = DualQuasiNewton(tol=self.tol, max_iter=self.max_iter)
        result = self._run(solver, program, keep=keep)
        map_ = result.kept
        if self.n_components is not None:
            map_ = self._truncate(data, map_)
            point = self._point(comparisons.inverse, float64(map_))
            primal = program.certify(point, result.dual_point).primal
            result = replace(result, certificate=result.certificate.truncated(primal, self.tol))
        self._store_map(data, map_)
        self.comparisons_, self.multipliers_ = comparisons.triplets, result.dual_point
        return self._store_result(result)

    def score(self, queries: Any, documents: Any, relevance: Any) -> float:
        """Mean nDCG@10 of the learned ranking over the queries with a relevant document.

        Takes the same arguments as `fit`.
        """
        check_is_fitted(self)
        data = self._validate(queries, documents, relevance, reset=False)
        mapped = self.transform_queries(data.queries), self.transform_documents(data.documents)
        ranking = nearest_documents(*mapped, DEPTH, self._similarity)
        return float(ndcg(ranking, data.judgements, DEPTH).mean())

    def _ndcg_of(self, map_, data, rows):
        """nDCG of some of the queries by a map."""
        ranking = self._nearest(map_, data.queries[rows], data.documents, DEPTH)
        return ndcg(ranking, data.judgements.select(rows), DEPTH)

    # ---- from judgements to a program

    def _validate(self, queries, documents, relevance, reset):
        queries, documents = check_rows(queries, "queries"), check_rows(documents, "documents")
        xp = namespace(queries, documents)
        if queries.shape[1] != documents.shape[1]:
            raise ValueError(
                f"queries have {queries.shape[1]} features and documents {documents.shape[1]}; "
                "embed both with the same encoder."
            )
        if reset:
            for name, X in {"queries": queries, "documents": documents}.items():
                check_size(float(abs(X).max()), X.dtype, name)
            self.n_features_in_ = queries.shape[1]
        else:
            self._check_width(queries, "queries")
        self._check_n_components()
        dtype = xp.result_type(queries, documents)
        queries, documents = like(queries, queries, dtype), like(documents, documents, dtype)
        judgements = check_relevance(relevance, len(queries), len(documents))
        answered = np.flatnonzero(judgements.n_relevant > 0)
        return TrainingData(queries[answered], documents, judgements.select(answered))

    def _check_width(self, X, name):
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )

    def _comparisons(self, data, setting, seed):
        """Comparisons with hard and random negatives; an error if there are none."""
        judgements, initial = data.judgements, self._initial_map(data)
        negatives = [random_negatives(judgements, setting.n_random, seed)]
        if setting.n_hard:
            excluded = judgements.start, judgements.document
            hard = self._nearest(initial, data.queries, data.documents, setting.n_hard, excluded)
            negatives.append(to_numpy(hard))
        triplets = graded_triplets(judgements, np.concatenate(negatives, axis=1))
        if len(triplets) == 0:
            raise ValueError(
                "there is nothing to compare: no query has a relevant document and another with a "
                "lower grade or none; raise n_hard or n_random, or give more documents."
            )
        T, inverse = data.spread
        size, initial_size = (self._mean_size(data, triplets, map_) for map_ in (T, initial))
        prior = inverse @ self._matrix(float64(initial)) @ inverse * (size / initial_size)
        return Comparisons(triplets, T / size**0.5, inverse * size**0.5, prior)

    def _mean_size(self, data, triplets, map_):
        query, better, worse = triplets[:: -(-len(triplets) // SAMPLED_COMPARISONS)].T
        rows = data.queries[query], data.documents[better], data.documents[worse]
        size = self._comparison_size(*(X @ like(map_, X) for X in rows))
        if not size > 0:
            raise ValueError(
                "queries coincide with their documents, or the documents with each other, so there "
                "is nothing to compare; check how they were embedded."
            )
        return size

    def _mapped_operator(self, data, comparisons):
        """The operator of the compared queries and documents, mapped by T."""
        triplets = comparisons.triplets.copy()
        used = np.zeros(len(data.documents), bool)
        used[triplets[:, 1:]] = True
        triplets[:, 1:] = (np.cumsum(used) - 1)[triplets[:, 1:]]
        T = like(comparisons.T, data.documents)
        documents = data.documents[np.flatnonzero(used)] @ T
        return self._operator(data.queries @ T, documents, triplets)

    def _program(self, operator, comparisons, setting):
        program = self._program_type(
            operator,
            setting.C * operator.n_features / setting.margin,
            prior=comparisons.prior / setting.margin,
            weights=comparisons.weights,
        )
        # mapping by T and back, on both sides, amplifies rounding by its condition number squared
        stretch = LEAST_SPREAD ** (2 * SPREAD_POWER)
        rounding = 8 * operator.n_features * np.finfo(np.float64).eps * stretch
        program.rounding = max(program.rounding, rounding)
        return program

    # ---- the choice

    def _choose(self, data, seed):
        """The setting with the largest sure gain on held-out queries; C = 0 if no gain
        exceeds its standard error.
        """
        n = len(data.queries)
        if n < FEWEST_QUERIES:
            raise ValueError(
                f"C='auto' needs {FEWEST_QUERIES} queries with a relevant document, to hold some "
                f"out; there are {n}. Judge more, or give C as a number."
            )
        held_out = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_HELD_OUT])
        values = self._ndcg_of(self._initial_map(data), data, held_out)
        unchanged = Candidate.from_values(Setting(0.0, self._margins[0], 0, 0), values, values)
        self.candidates_ = [unchanged]
        # near documents may be relevant but unjudged: then random negatives alone do better
        mixes = [(self.n_hard, self.n_random, self._margins)]
        if self.n_hard and self.n_random:
            mixes.append((0, self.n_hard + self.n_random, self._margins[:1]))
        with all_or_nothing():
            for n_hard, n_random, margins in mixes:
                mix = Setting(0.0, margins[0], n_hard, n_random)
                self.candidates_ += self._paths(data, mix, margins, seed, held_out, unchanged)
        best = max(self.candidates_, key=lambda candidate: candidate.sure_gain)
        if best is unchanged:
            most = max(self.candidates_, key=lambda candidate: candidate.gain)
            warn_user(
                "no setting ranked held-out queries better than the embedding does by more than "
                f"one standard error (best: {100 * most.gain:+.2f} +- "
                f"{100 * most.standard_error:.2f} points of nDCG@10); the embedding is left as "
                "it is."
            )
        return best.setting

    def _paths(self, data, mix, margins, seed, held_out, unchanged):
        """Candidates of one mix of negatives: for each margin a path that starts near the
        unchanged embedding and ends once past its best.
        """
        comparisons = self._comparisons(data, mix, seed)
        folds = []
        for train, test in KFold(N_FOLDS, shuffle=True, random_state=seed).split(data.queries):
            kept = comparisons.select(np.isin(np.arange(len(data.queries)), train))
            folds.append((self._mapped_operator(data, kept), kept, np.intersect1d(test, held_out)))
        solver = DualQuasiNewton(tol=max(CHOICE_TOL, self.tol), max_iter=self.max_iter)
        candidates = []
        for margin in margins:
            path: list[Candidate] = []
            starts = [None] * N_FOLDS
            for C in C_GRID:
                setting = replace(mix, C=C, margin=margin)
                values = np.empty(len(held_out))
                for i, (operator, kept, test) in enumerate(folds):
                    program = self._program(operator, kept, setting)
                    result = solver.solve(program, start=starts[i])
                    starts[i] = result.dual_point * C_RATIO  # their upper bounds grow with C
                    map_ = self._map(data, kept.T, float64(result.primal_point))
                    ndcg_of_test = self._ndcg_of(like(map_, data.documents), data, test)
                    values[np.searchsorted(held_out, test)] = ndcg_of_test
                path.append(Candidate.from_values(setting, values, unchanged.values))
                if _past_its_best(path):
                    break
            candidates += path
        return candidates


def _past_its_best(path: Sequence[Candidate]) -> bool:
    """Whether the last few candidates gain less than an earlier one, and less surely (close
    to the embedding gains are small but sure). A path without any gain so far goes on until
    it clearly loses.
    """
    gains = [candidate.gain for candidate in path]
    sure = [candidate.sure_gain for candidate in path]
    recent = path[max(gains.index(max(gains)), sure.index(max(sure))) + 1 :]
    if len(recent) < PATIENCE:
        return False
    return max(sure) > 0 or all(c.gain + c.standard_error < 0 for c in recent)


def check_rows(X: Any, name: str) -> Any:
    """Validate rows of floats: a tensor or a NumPy array."""
    refuse_masked(X, name)
    if is_torch(X):
        return check_tensor(X, 1)
    return check_array(X, dtype=[np.float64, np.float32], input_name=name)
