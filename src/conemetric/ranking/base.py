"""What learns from judged queries shares: judgements to comparisons without units, and
the choice of a setting on held-out queries.

Before the solve all points are mapped by T, a power of the documents' covariance, so
that a change in directions in which documents hardly differ costs no more than
elsewhere. That is a choice of the regulariser, made on held-out training queries; it
alters neither what can be learned nor where a path begins. T is scaled so that a
comparison has size one, and the prior so that a margin of one is a given share of that
size: neither C nor the margin has units.
"""

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from ..core import spectral
from ..core.arrays import float64, is_torch, like, namespace, refuse_masked, to_numpy
from ..core.progress import all_or_nothing
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..estimators.base import (
    SOLVER_PARAMETERS,
    CertifiedEstimator,
    check_size,
    check_tensor,
    refuse_dask,
)
from ..operators.base import Operator
from ..problems.base import Bounds
from ..problems.frobenius import FrobeniusProgram
from ..solvers.base import Certificate, SolveResult, Status
from ..solvers.dual_quasi_newton import DualQuasiNewton
from .judgements import Judgements, check_relevance, graded_triplets, random_negatives
from .measures import ndcg
from .top_k import nearest_documents

CS = tuple(float(C) for C in 10 ** np.arange(-1.5, 2.6, 0.5))
N_FOLDS = 4
FEWEST_QUERIES = 2 * N_FOLDS
MOST_HELD_OUT = 2_000  # queries that choose
CHOICE_TOL = 1e-2  # gap at which a fit that only chooses may stop
PATIENCE = 2  # values of C past the best of a path after which it ends
DEPTH = 10  # of the nDCG that chooses and scores
SAMPLED_DOCUMENTS = 1 << 16  # whose covariance is taken
SAMPLED_COMPARISONS = 1 << 12  # whose size is measured
SPREAD_POWER = -0.25
LEAST_SPREAD = 1e-3  # directions of less than this part of the largest variance count as that
JUDGED_PARAMETERS = {
    "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "n_hard": [Interval(Integral, 0, None, closed="left")],
    "n_random": [Interval(Integral, 0, None, closed="left")],
    **SOLVER_PARAMETERS,
}


@dataclass(frozen=True)
class Setting:
    """What a fit is asked for; C = 0 leaves the embedding as it is."""

    C: float
    margin: float
    n_hard: int
    n_random: int


@dataclass(frozen=True)
class Candidate:
    """A setting, and how it did on held-out queries.

    Attributes
    ----------
    setting : Setting
    mean : float
        nDCG@10.
    gain, standard_error : float
        Mean difference to the embedding as it is, query by query.
    values : array (n_held_out,)
        nDCG@10 of each query.
    """

    setting: Setting
    mean: float
    gain: float
    standard_error: float
    values: np.ndarray = field(repr=False)

    @classmethod
    def of(cls, setting, values, frozen):
        gain = values - frozen
        error = float(gain.std(ddof=1)) / len(gain) ** 0.5
        return cls(setting, float(values.mean()), float(gain.mean()), error, values)

    @property
    def sure_gain(self) -> float:
        """The gain less one standard error: 0 for the embedding as it is."""
        return self.gain - self.standard_error


@dataclass(frozen=True)
class Judged:
    """Queries with at least one relevant document each, the documents, the judgements."""

    queries: Any
    documents: Any
    judgements: Judgements

    @property
    def _sample(self) -> Any:
        return self.documents[:: -(-len(self.documents) // SAMPLED_DOCUMENTS)]

    @cached_property
    def covariance(self) -> Any:
        """How the documents spread, up to scale, in float64 as every D x D matrix here."""
        centred = self._sample - self._sample.mean(0)
        covariance = float64(centred.T @ centred)
        size = float(abs(covariance).max())
        if not size > 0:
            raise ValueError("all documents coincide, so there is nothing to rank.")
        return covariance / size

    @cached_property
    def second_moment(self) -> Any:
        """How far the documents extend from the origin, up to scale."""
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
    """Triplets (query, better, worse) in coordinates in which they have no units.

    Attributes
    ----------
    triplets : integer array (m, 3), on the host
    T, inverse : arrays (D, D)
        The map to these coordinates, and back.
    prior : array (D, D)
        What the frozen embedding is in them, such that its scores have size one.
    """

    triplets: np.ndarray
    T: Any
    inverse: Any
    prior: Any

    def of(self, queries) -> "Comparisons":
        """Those of some queries (a mask)."""
        return replace(self, triplets=self.triplets[queries[self.triplets[:, 0]]])

    @property
    def weights(self) -> np.ndarray:
        """Every query weighs the same, however many comparisons it has."""
        return 1 / np.bincount(self.triplets[:, 0])[self.triplets[:, 0]]


class JudgedEstimator(CertifiedEstimator):
    """Base of the estimators that learn from judged queries.

    What is learned is a *map*, a matrix with D rows; a subclass says how documents are
    ranked by one, what its program is, and how map and solution belong together.
    """

    _program_type: ClassVar[type[FrobeniusProgram]]
    _margins: ClassVar[tuple[float, ...]]  # tried by C="auto"; a given C takes the first

    @property
    @abstractmethod
    def _similarity(self) -> str:
        """By which mapped documents are ranked."""

    @abstractmethod
    def transform_queries(self, Q):
        """Map queries."""

    @abstractmethod
    def transform_documents(self, D):
        """Map documents."""

    @abstractmethod
    def _frozen(self, data: Judged) -> Any:
        """The map of the embedding as it is."""

    @abstractmethod
    def _nearest(self, map_, queries, documents, k, excluded=None) -> Any:
        """The k nearest documents by a map."""

    @abstractmethod
    def _size(self, queries, better, worse) -> float:
        """Mean size of comparisons between rows, of the second order in their units."""

    @abstractmethod
    def _operator(self, queries, documents, triplets) -> Operator:
        """The operator of comparisons between rows."""

    @abstractmethod
    def _matrix(self, map_) -> Any:
        """The matrix that the program would find for a map."""

    @abstractmethod
    def _map(self, data: Judged, T, point) -> Any:
        """The map for a solution over points mapped by T."""

    @abstractmethod
    def _point(self, inverse, map_) -> Any:
        """The solution for a map: `_map` turned round."""

    @abstractmethod
    def _cut(self, data: Judged, map_) -> Any:
        """The map with ``n_components`` directions only."""

    @abstractmethod
    def _set(self, data: Judged, map_):
        """Set the fitted attributes."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, queries, documents, relevance):
        """Learn from judged queries.

        Parameters
        ----------
        queries : array-like or tensor (n_queries, n_features)
        documents : array-like or tensor (n_documents, n_features)
        relevance : integer array-like (r, 2) or (r, 3), or sparse matrix
            Rows [query, document] or [query, document, grade]; or grades, (n_queries,
            n_documents), where a stored zero is judged and not relevant. What is not
            judged may be relevant or not.

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
            self._set(data, self._cut(data, self._frozen(data)))
            proof = Certificate.from_bounds(Bounds(0.0, 0.0), Status.CONVERGED)
            return self._store_result(SolveResult(None, None, proof, 0, {}))
        return self._solve(data, self._comparisons(data, setting, seed), setting)

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
            map_ = self._cut(data, map_)
            point = self._point(comparisons.inverse, float64(map_))
            primal = program.certify(point, result.dual_point).primal
            result = replace(result, certificate=result.certificate.truncated(primal, self.tol))
        self._set(data, map_)
        self.comparisons_, self.multipliers_ = comparisons.triplets, result.dual_point
        return self._store_result(result)

    def score(self, queries, documents, relevance) -> float:
        """Mean nDCG@10 of the learned ranking, over the queries with a relevant document.

        Parameters as for `fit`.
        """
        check_is_fitted(self)
        data = self._validate(queries, documents, relevance, reset=False)
        mapped = self.transform_queries(data.queries), self.transform_documents(data.documents)
        ranking = nearest_documents(*mapped, DEPTH, self._similarity)
        return float(ndcg(ranking, data.judgements, DEPTH).mean())

    def _judge(self, map_, data, rows):
        """nDCG of some queries by a map."""
        ranking = self._nearest(map_, data.queries[rows], data.documents, DEPTH)
        return ndcg(ranking, data.judgements.of(rows), DEPTH)

    # ---- from judgements to a program

    def _validate(self, queries, documents, relevance, reset):
        names = {"queries": queries, "documents": documents}
        queries, documents = (check_rows(X, name) for name, X in names.items())
        xp = namespace(queries, documents)
        if queries.shape[1] != documents.shape[1]:
            raise ValueError(
                f"queries have {queries.shape[1]} features and documents {documents.shape[1]}; "
                "embed both by the same encoder."
            )
        if reset:
            for name, X in {"queries": queries, "documents": documents}.items():
                check_size(float(abs(X).max()), X.dtype, name)
            self.n_features_in_ = queries.shape[1]
        elif queries.shape[1] != self.n_features_in_:
            raise ValueError(
                f"queries have {queries.shape[1]} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
            )
        self._check_n_components()
        dtype = xp.result_type(queries, documents)
        queries, documents = like(queries, queries, dtype), like(documents, documents, dtype)
        judgements = check_relevance(relevance, len(queries), len(documents))
        judged = np.flatnonzero(judgements.n_relevant > 0)
        return Judged(queries[judged], documents, judgements.of(judged))

    def _comparisons(self, data, setting, seed):
        """Comparisons with hard and random negatives; an error where there are none."""
        judged, frozen = data.judgements, self._frozen(data)
        negatives = [random_negatives(judged, setting.n_random, seed)]
        if setting.n_hard:
            excluded = judged.start, judged.document
            hard = self._nearest(frozen, data.queries, data.documents, setting.n_hard, excluded)
            negatives.append(to_numpy(hard))
        triplets = graded_triplets(judged, np.concatenate(negatives, axis=1))
        if len(triplets) == 0:
            raise ValueError(
                "there is nothing to compare: no query has a relevant document and another of a "
                "lower grade or unjudged; raise n_hard or n_random, or give more documents."
            )
        T, inverse = data.spread
        size, frozen_size = (self._mean_size(data, triplets, map_) for map_ in (T, frozen))
        prior = inverse @ self._matrix(float64(frozen)) @ inverse * (size / frozen_size)
        return Comparisons(triplets, T / size**0.5, inverse * size**0.5, prior)

    def _mean_size(self, data, triplets, map_):
        query, better, worse = triplets[:: -(-len(triplets) // SAMPLED_COMPARISONS)].T
        rows = data.queries[query], data.documents[better], data.documents[worse]
        size = self._size(*(X @ like(map_, X) for X in rows))
        if not size > 0:
            raise ValueError(
                "every query coincides with its documents, or these with each other; there is "
                "nothing to compare."
            )
        return size

    def _mapped_operator(self, data, comparisons):
        """The operator of the queries and documents that are compared, mapped by T."""
        triplets = comparisons.triplets.copy()
        seen = np.zeros(len(data.documents), bool)
        seen[triplets[:, 1:]] = True
        used = np.flatnonzero(seen)
        triplets[:, 1:] = (np.cumsum(seen) - 1)[triplets[:, 1:]]
        T = like(comparisons.T, data.documents)
        return self._operator(data.queries @ T, data.documents[used] @ T, triplets)

    def _program(self, operator, comparisons, setting):
        program = self._program_type(
            operator,
            setting.C * operator.n_features / setting.margin,
            prior=comparisons.prior / setting.margin,
            weights=comparisons.weights,
        )
        # the way there and back, from both sides, rounds by as much as T is stretched
        stretch = LEAST_SPREAD ** (2 * SPREAD_POWER)
        rounding = 8 * operator.n_features * np.finfo(np.float64).eps * stretch
        program.rounding = max(program.rounding, rounding)
        return program

    # ---- the choice

    def _choose(self, data, seed):
        """The setting whose gain on held-out queries is surest; the embedding as it is
        where no gain is above its standard error.
        """
        n = len(data.queries)
        if n < FEWEST_QUERIES:
            raise ValueError(
                f"C='auto' needs {FEWEST_QUERIES} queries with a relevant document, to hold some "
                f"out; there are {n}. Judge more, or give C as a number."
            )
        held_out = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_HELD_OUT])
        values = self._judge(self._frozen(data), data, held_out)
        frozen = Candidate.of(Setting(0.0, self._margins[0], 0, 0), values, values)
        self.candidates_ = [frozen]
        with all_or_nothing():
            for n_hard, n_random, margins in self._mixes():
                mix = Setting(0.0, margins[0], n_hard, n_random)
                self.candidates_ += self._paths(data, mix, margins, seed, held_out, frozen)
        best = max(self.candidates_, key=lambda candidate: candidate.sure_gain)
        if best is frozen:
            most = max(self.candidates_, key=lambda candidate: candidate.gain)
            warnings.warn(
                "no setting ranked held-out queries better than the embedding does by more than "
                f"one standard error (best: {100 * most.gain:+.2f} +- "
                f"{100 * most.standard_error:.2f} points of nDCG@10); the embedding is left as "
                "it is.",
                stacklevel=4,
            )
        return best.setting

    def _mixes(self):
        """(n_hard, n_random, margins) to try: negatives as asked for; and as many at
        random, for where near ones may be relevant but unjudged.
        """
        mixes = [(self.n_hard, self.n_random, self._margins)]
        if self.n_hard and self.n_random:
            mixes.append((0, self.n_hard + self.n_random, self._margins[:1]))
        return mixes

    def _paths(self, data, mix, margins, seed, held_out, frozen):
        """Candidates of one mix of negatives: for each margin a path from the frozen
        embedding on, until it is past its best.
        """
        comparisons = self._comparisons(data, mix, seed)
        folds = []
        for train, test in KFold(N_FOLDS, shuffle=True, random_state=seed).split(data.queries):
            kept = comparisons.of(np.isin(np.arange(len(data.queries)), train))
            folds.append((self._mapped_operator(data, kept), kept, np.intersect1d(test, held_out)))
        candidates = []
        for margin in margins:
            path, starts = [], [None] * N_FOLDS
            for C in CS:
                setting = replace(mix, C=C, margin=margin)
                values = np.empty(len(held_out))
                for i, (operator, kept, test) in enumerate(folds):
                    program = self._program(operator, kept, setting)
                    solver = DualQuasiNewton(tol=max(CHOICE_TOL, self.tol), max_iter=self.max_iter)
                    result = solver.solve(program, start=starts[i])
                    starts[i] = result.dual_point * 10**0.5
                    place = np.searchsorted(held_out, test)
                    map_ = self._map(data, kept.T, float64(result.primal_point))
                    values[place] = self._judge(like(map_, data.documents), data, test)
                path.append(Candidate.of(setting, values, frozen.values))
                if _past_its_best(path):
                    break
            candidates += path
        return candidates


def _past_its_best(path):
    """Whether the last few candidates of a path gain less than one before them, and less
    surely (near the embedding gains are small but sure); a path on which nothing has been
    gained yet goes on until the loss is plain.
    """
    gains = [candidate.gain for candidate in path]
    sure = [candidate.sure_gain for candidate in path]
    recent = path[max(gains.index(max(gains)), sure.index(max(sure))) + 1 :]
    if len(recent) < PATIENCE:
        return False
    return max(sure) > 0 or all(c.gain + c.standard_error < 0 for c in recent)


def check_rows(X, name):
    refuse_masked(X, name)
    if is_torch(X):
        return check_tensor(X, 1)
    return check_array(X, dtype=[np.float64, np.float32], input_name=name)
