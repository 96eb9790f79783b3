"""Estimators that learn from relevance judgements: choose a setting, solve, certify, rank."""

from abc import ABCMeta, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, NoReturn, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import float64, like, namespace, to_numpy
from ..core.atomic import atomic_fit, atomic_update
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..core.warn import warn_user
from ..engine.certificate import Bounds, Certificate, Status
from ..engine.dual_quasi_newton import DualQuasiNewton
from ..engine.solver import SolveResult
from ..estimators.base import SOLVER_PARAMETERS, CertifiedEstimator, Seed
from ..estimators.checks import FIT, FIT_AND_USE, because
from ..estimators.validation import check_size, refuse_dask
from ..evaluation.thresholds import check_share
from .candidates import DEPTH
from .choice import Choice
from .columns import AUTO, EMBEDDING, check_scores, picked
from .comparisons import Remembered, TrainingData
from .engines import NORMALIZATIONS, check_target
from .forms import ScoreForm
from .judgements import check_relevance
from .measures import ndcg
from .model import RankingModel, check_rows
from .program import RankingProgram
from .top_k import Ranking

RANKING_PARAMETERS = {
    "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "n_hard": [Interval(Integral, 0, None, closed="left")],
    "n_random": [Interval(Integral, 0, None, closed="left")],
    "normalization": [StrOptions({AUTO, *NORMALIZATIONS})],
    **SOLVER_PARAMETERS,
}
# curvature pairs of a solve: as many as hold so many numbers, within limits (CISI, 26 queries,
# C = 10: 596 iterations with 10 pairs, 376 with 40, 224 with 100)
STORED = 1 << 22
LEAST_MEMORY = 10
MOST_MEMORY = 100

OTHER_ARGUMENTS = "fit takes queries, documents and relevance, and the check passes X and y"


@dataclass(eq=False, repr=False)
class RankingEstimator(CertifiedEstimator, metaclass=ABCMeta):
    """Learns a `RankingModel` from judgements, by the `RankingProgram` of a `ScoreForm`."""

    C: float | Literal["auto"] = "auto"
    _: KW_ONLY
    n_hard: int = 10
    n_random: int = 10
    normalization: Literal["auto", "raw", "range", "spread"] = "auto"
    n_components: int | None = None
    tol: float = 1e-3
    max_iter: int = 1000
    random_state: Seed = None
    verbose: int = 0

    _expected_failed_checks = because(OTHER_ARGUMENTS, FIT_AND_USE, FIT)
    _of_some_fits = ("candidates_", "chosen_", "comparisons_", "multipliers_")

    @property
    @abstractmethod
    def _form(self) -> ScoreForm:
        """How a map scores documents."""

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(self, queries: Any, documents: Any, relevance: Any, scores: Any = None) -> Self:
        """Learn from relevance judgements.

        Parameters
        ----------
        queries : array-like or tensor (n_queries, n_features)
        documents : array-like or tensor (n_documents, n_features)
        relevance : integer array-like (r, 2) or (r, 3), or sparse matrix
            Rows [query, document] or [query, document, grade]; or a sparse matrix of
            grades (n_queries, n_documents), in which a stored zero means judged not
            relevant. Unjudged documents may or may not be relevant.
        scores : dict of str to sparse matrix (n_queries, n_documents), default=None
            Columns of other scores by name, the higher the better. Stored entries are the
            documents that a column lists, such as the first 200 of BM25.

        Returns
        -------
        self
        """
        refuse_dask(self, queries, "queries")
        refuse_dask(self, documents, "documents")
        data = self._validate(queries, documents, relevance, scores, reset=True)
        self._column_names = data.columns.names if data.columns else ()
        choice = Choice(
            RankingProgram(self._form),
            data,
            self._draw(),
            self.normalization,
            self.n_hard,
            self.n_random,
            self.tol,
        )
        setting = self._chosen(choice)
        later = choice.later(setting)
        comparisons = choice.comparisons(later)
        if setting.C:
            self._solve(data, Remembered.of(data, comparisons, choice.start(later)), setting)
            self.comparisons_ = comparisons.triplets
            return self
        # nothing to solve, but `partial_fit` may find enough to learn from
        multipliers = np.zeros(len(comparisons.triplets))
        self._remembered = Remembered.of(data, comparisons, multipliers)
        self._later = later
        self._store(data, setting, self._form.initial_map(data.documents), setting.weights)
        proof = Certificate.from_bounds(Bounds(0.0, 0.0), Status.CONVERGED)
        return self._store_result(SolveResult(None, None, proof, 0, {}))

    @atomic_update
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, queries: Any, documents: Any, relevance: Any, scores: Any = None, forget: float = 0.0
    ) -> Self:
        """Learn from further judgements, without starting again.

        The first call is `fit`. A later one adds the comparisons of new judgements to those
        remembered, in the program that was chosen first, and solves it from where it was;
        ``certificate_`` is about the program over all that is remembered. Where ``C="auto"``
        had left the embedding unchanged, the first later call learns from all judgements so
        far with C = 0.1, near the embedding.

        Parameters
        ----------
        queries, documents, relevance, scores
            The new queries and their judgements (a click or a thumb up is a grade of 1, a
            thumb down one of 0), and all documents as they are now; as in `fit`.
        forget : float in [0, 1), default=0.0
            Part of their weight that earlier comparisons lose. Queries below a thousandth of
            the weight of a new one are dropped.

        Returns
        -------
        self
        """
        if forget != 0:
            check_share(forget, "forget")
        if not hasattr(self, "setting_"):
            return self.fit(queries, documents, relevance, scores)
        # a program that was chosen without columns goes on without them, whatever is passed now
        names = self._column_names if self._later.normalization else ()
        scores = picked(scores, names, self._column_names) or None
        data = self._validate(queries, documents, relevance, scores)
        program = RankingProgram(self._form)
        known = self._remembered.comparisons
        made = program.comparisons(data, self._later, self._draw(), known)
        later = Remembered.of(data, made, np.zeros(len(made.triplets)))
        return self._solve(data, self._remembered.faded(1 - forget).joined(later), self._later)

    def _draw(self):
        return check_random_state(self.random_state).randint(2**31 - 1)

    def _chosen(self, choice):
        """The setting given, or chosen on held-out queries."""
        if self.C != "auto":
            return choice.given(self.C)
        setting = choice.settle()
        self.candidates_ = choice.candidates
        self.chosen_ = next(c for c in choice.candidates if c.setting == setting)
        if setting == self.candidates_[0].setting:
            best = max(self.candidates_, key=lambda candidate: candidate.gain)
            warn_user(
                "no setting gained more than its error over the embedding on held-out queries "
                f"(best: {100 * best.gain:+.2f} +- {100 * best.standard_error:.2f} points of "
                "nDCG@10); the embedding is left as it is."
            )
        return setting

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NoReturn:
        """Not available: queries and documents are mapped separately."""
        name = type(self).__name__
        raise TypeError(
            f"{name} has no fit_transform(X, y): it learns from queries, documents and relevance. "
            f"Use {name}.fit(queries, documents, relevance), then transform_queries and "
            "transform_documents."
        )

    def _solve(self, data, remembered, setting):
        """Fit what is remembered, and certify what is stored; ``data`` has all documents of now."""
        comparisons = remembered.comparisons
        model = RankingProgram(self._form)

        def keep(point):
            solution, weights = model.parts(comparisons, float64(point))
            # the certificate is about the map as it is stored, in the precision of the documents
            map_ = self._form.map(data, like(comparisons.T, solution), solution)
            map_ = like(map_, data.documents)
            return (map_, weights), model.joint_point(comparisons, map_, weights)

        operator = model.operator(model.mapped(remembered, comparisons))
        program = model.program(operator, comparisons, setting)
        if data.documents.dtype != operator.dtype:  # certified as it is, in float64
            program = program.single
        start = remembered.multipliers
        if start is not None:
            start = program.operator.constraint_vector(start) * program.unit
        # few queries with many judgements make programs that take hundreds of iterations
        memory = int(np.clip(STORED // len(comparisons.triplets), LEAST_MEMORY, MOST_MEMORY))
        solver = DualQuasiNewton(tol=self.tol, max_iter=self.max_iter, memory=memory)
        result = self._run(solver, program, keep=keep, start=start)
        map_, weights = result.kept
        if self.n_components is not None:
            short = self._form.truncated(data, map_, self.n_components)
            point = model.joint_point(comparisons, short, weights)
            primal = program.certify(point, result.dual_point).primal
            result = replace(result, certificate=result.certificate.truncated(primal, self.tol))
        counted = model.weights_beside(data.columns, comparisons, setting, weights)
        self._store(data, setting, map_, counted)
        if comparisons.columns is not None:
            pushed = _multipliers_of_weights(model, comparisons, setting, result.dual_point)
            self.score_multipliers_ |= dict(zip(self._column_names, pushed.tolist(), strict=True))
        multipliers = to_numpy(result.dual_point / program.unit)
        self._remembered = replace(remembered, multipliers=multipliers)
        self._later = setting
        self.comparisons_ = comparisons.triplets
        self.multipliers_ = result.dual_point
        return self._store_result(result)

    def _store(self, data, setting, map_, weights):
        """The model, the setting, and multipliers of 0 of the weights being at least 0."""
        names = self._column_names
        weights = np.asarray(weights) if len(weights) else np.zeros(len(names))
        weights = {EMBEDDING: setting.embedding} | dict(zip(names, weights.tolist(), strict=True))
        maps = self._form.sides(data, map_, self.n_components)
        engine = {}
        if data.columns:
            engine = {"target": data.columns.target, "window": data.columns.window or None}
        self.model_ = RankingModel(
            *maps, self._form.similarity, weights, setting.normalization, **engine
        )
        self.components_ = maps[0]
        self.setting_ = setting
        self.C_ = setting.C
        self.score_weights_ = weights
        self.normalization_ = setting.normalization
        self.score_multipliers_ = dict.fromkeys(names, 0.0)

    def transform_queries(self, Q: Any) -> Any:
        """Map queries to the space of the documents.

        Parameters
        ----------
        Q : array-like or tensor (n, n_features)

        Returns
        -------
        array (n, n_features) or (n, n_components)
        """
        check_is_fitted(self)
        return self.model_.transform_queries(Q)

    def transform_documents(self, D: Any) -> Any:
        """Map documents as `rank` does; `QueryAdapter` leaves them unchanged without
        ``n_components``.

        Parameters
        ----------
        D : array-like or tensor (n, n_features)

        Returns
        -------
        array (n, n_features) or (n, n_components)
        """
        check_is_fitted(self)
        return self.model_.transform_documents(D)

    def rank(self, queries: Any, documents: Any, scores: Any = None, k: int = 10) -> Ranking:
        """The first ``k`` documents of every query by the learned ranking: the score of the
        embedding after its map, times ``score_weights_["embedding"]``, plus the weights times
        the normalised columns.

        Parameters
        ----------
        queries : array-like or tensor (n_queries, n_features)
        documents : array-like or tensor (n_documents, n_features)
        scores : dict of str to sparse matrix, default=None
            The columns, as in `fit`; those with weight 0 may be left out.
        k : int, default=10

        Returns
        -------
        documents, scores : arrays (n_queries, min(k, n_documents)) on the host
            Best first; -1 and minus infinity where a query has fewer.
        """
        check_is_fitted(self)
        queries, documents = self._check_points(queries, documents)
        return self.model_.rank(queries, documents, scores, k)

    def score(self, queries: Any, documents: Any, relevance: Any, scores: Any = None) -> float:
        """Mean nDCG@10 of the learned ranking over the queries with a relevant document.

        Takes the same arguments as `fit`.
        """
        check_is_fitted(self)
        judgements = check_relevance(relevance, len(queries), len(documents))
        ranking, _ = self.rank(queries, documents, scores, DEPTH)
        return float(np.nanmean(ndcg(ranking, judgements, DEPTH)))

    def _validate(self, queries, documents, relevance, scores=None, reset=False):
        queries, documents = self._check_points(queries, documents, reset)
        judgements = check_relevance(relevance, len(queries), len(documents))
        answered = np.flatnonzero(judgements.n_relevant > 0)
        target = self._form.target
        columns = None
        if target is not None:
            check_target(target, self.normalization, self._form.similarity)
        if scores is not None:
            columns = check_scores(scores, len(queries), len(documents)).select(answered)
            window = None  # of a fit; feedback has that of the model
            if not reset:
                window = self.model_.window
            columns = columns.listed_by(target, window)
            if reset:  # feedback, like serving, takes whatever scores come
                columns.tried(self.normalization)
        judged = judgements.select(answered)
        return TrainingData(queries[answered], documents, judged, columns, self._form.prepared)

    def _check_points(self, queries, documents, reset=False):
        """Queries and documents in one library and precision."""
        queries = check_rows(queries, "queries")
        documents = check_rows(documents, "documents")
        xp = namespace(queries, documents)
        if queries.shape[1] != documents.shape[1]:
            raise ValueError(
                f"queries have {queries.shape[1]} features and documents {documents.shape[1]}; "
                "embed both with the same encoder."
            )
        if reset:
            check_size(float(abs(queries).max()), queries.dtype, "queries")
            check_size(float(abs(documents).max()), documents.dtype, "documents")
            self.n_features_in_ = queries.shape[1]
        elif queries.shape[1] != self.n_features_in_:
            raise ValueError(
                f"queries has {queries.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        self._check_n_components()
        dtype = xp.result_type(queries, documents)
        return like(queries, queries, dtype), like(documents, documents, dtype)


def _multipliers_of_weights(model, comparisons, setting, dual_point):
    """Of the weights being at least 0, by how far the solution would push them below."""
    scale = comparisons.scale
    start = model.start_of(comparisons, setting)
    pull = comparisons.columns.T @ float64(to_numpy(dual_point)) / scale
    return np.maximum(-(start + pull), 0.0) * scale * scale
