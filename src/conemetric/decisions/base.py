"""What classifier and regressor share: they learn metrics fold by fold, choose and blend rules by held-out
rows, fit them to all rows, and answer for new rows.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..automatic.folds import check_groups
from ..constraints.labels import refuse_missing_labels
from ..core import arrays, fields
from ..core.advice import AdviceError
from ..core.arrays import Array, Labels, Rows
from ..core.atomic import atomic_update
from ..core.blas import blas_threads, half_the_cores
from ..core.sklearn_private import Interval, StrOptions
from ..engine.certificate import Certificate
from ..estimators.base import CertifiedEstimator, Seed
from ..estimators.checks import WEIGHTS, because
from ..estimators.validation import dense, refuse_unusable, validate_points
from ..evaluation.thresholds import check_share
from ..neighbours.ties import symmetric_keys
from ..tables.encoder import TableEncoder
from ..tables.spelling import Spelling
from .apart import KeptApart, keep_apart
from .blend import Blended
from .choice import Choice, PlannedPart, Preferences, choose, rules_named, unjudged_choice
from .explaining import check_explanation, reasons
from .fitting import fit_parts
from .full_size import draw_landmarks
from .kernel import KernelRule
from .learned import LearnedMetric, check_metric
from .parts import Blend, Decided, Explanation, Part
from .preparation import Observed, Preparation, fit_encoder, new_encoder, relative_weights
from .rule import Judge, KeptRows, Training, mapped
from .rules import RULES
from .stored import restored, state_of

# rows up to which one BLAS thread is fastest: 1,500 x 20 takes 3.0 s with one and 6.0 with two on two
# Neoverse-N1 cores, 2.6 with one and 3.9 with 16 on 16 x86 cores
MOST_ROWS_SINGLE_THREADED = 2000
# Rows that the kernel sum is over at most: each of some thirty steps computes 200 million entries; on a GPU
# they are held in 3.2 GB.
MOST_EXACT = 20_000
# Rows up to which all are divided into folds. Beyond, some are kept apart (`apart`), and metrics and
# settings are chosen on so many of the others.
MAX_ROWS_IN_FOLDS = 6000
MAX_ROWS_TO_CHOOSE = 4500
# Landmarks of more rows than are solved exactly; see benchmarks/quality/landmarks.py for what they cost
# in error.
N_LANDMARKS = 2000
N_LANDMARKS_ON_GPU = 10_000
OF_RULES = [StrOptions({"auto", *RULES})]  # which rules to choose from
DECISION_PARAMETERS: dict[str, Any] = {
    "metric": "no_validation",  # see `learned.check_metric`
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "kinds": [dict, None],
    "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


@dataclass(eq=False, repr=False)
class MetricDecision(CertifiedEstimator, metaclass=ABCMeta):
    """Base of `MetricClassifier` and `MetricRegressor`."""

    metric: Any = "auto"
    _: KW_ONLY
    categorical_features: Any = "from_dtype"
    kinds: Mapping[str | int, str | Spelling] | None = None
    n_landmarks: int | str = "auto"
    random_state: Seed = None
    verbose: int = 0
    _expected_failed_checks = because(
        "folds are drawn from rows, so that a repeated row may be predicted from its own copy",
        WEIGHTS,
    )
    _target: ClassVar[str]  # what y is, to a metric that asks
    _own_fields: ClassVar[dict[str, fields.Field]]  # that a subclass adds, by attribute
    _evidence: ClassVar[type[fields.Stored]]

    # ---- what classes and numbers do differently

    @abstractmethod
    def _learn_metric(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None
    ) -> LearnedMetric | None:
        """Learn the metric, if any, from all rows and without each of the folds; None if the rows are too
        few for folds. The rows of one of the groups are in one fold.
        """

    @abstractmethod
    def _row_losses(self, scores: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """What the choice minimises, for each held-out row."""

    @abstractmethod
    def _drawn(self, X: Array, y: np.ndarray, rng: RandomState) -> np.ndarray:
        """All rows in a random order whose leading part represents the rest."""

    @abstractmethod
    def _strata(self, y: np.ndarray) -> np.ndarray:
        """A number of each row: rows kept apart represent all by it."""

    @abstractmethod
    def _targets(self, y: np.ndarray) -> np.ndarray:
        """What the rules are fitted to (n, n_targets), scaled as in ``fit``."""

    @abstractmethod
    def _direction(self, scores: np.ndarray) -> np.ndarray:
        """What an explanation of these scores is of: (n_queries, n_targets)."""

    @abstractmethod
    def _answers(self, scores: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
        """What scores (n, n_targets) of new rows say, by the attribute of `Decided`."""

    def _better(self, blends: list[Blended], judge: Judge) -> Blended:
        """The best of the blends, one for each rule in the order of `RULES`."""
        return min(blends, key=lambda blend: judge(blend.scores))

    # ---- input

    @property
    def encoder_(self) -> TableEncoder | None:
        """The encoding of a table; None for numbers without missing values."""
        check_is_fitted(self, "_preparation")
        return self._preparation.encoder

    @property
    def scale_(self) -> Array:
        """What the encoded, centred columns are divided by."""
        check_is_fitted(self, "_preparation")
        return self._preparation.scale

    def _check_y(self, y: Labels) -> np.ndarray:
        """y as an array without missing entries."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; pass one "
                "for each row of X."
            )
        arrays.refuse_masked(y, "y")
        y = column_or_1d(arrays.to_numpy(y), warn=True)
        refuse_missing_labels(y, advice="")
        return y

    def _observed(
        self, X: Rows, y: np.ndarray, sample_weight: Labels | None, groups: Labels | None
    ) -> Observed:
        """The rows to learn from, encoded: those that have a weight."""
        refuse_unusable(self, X)
        encoder = new_encoder(X, self.categorical_features, self.kinds)
        if encoder is None:
            X = dense(self, validate_points(self, X, reset=True))
        else:
            X = fit_encoder(encoder, X, sample_weight)
            self.n_features_in_ = encoder.n_features_in_
            if hasattr(encoder, "feature_names_in_"):
                self.feature_names_in_ = encoder.feature_names_in_
        if groups is not None:
            groups = check_groups(groups, len(y))
        return self._with_weight(X, y, sample_weight, groups, encoder)

    def _with_weight(
        self,
        X: Array,
        y: np.ndarray,
        sample_weight: Labels | None,
        groups: np.ndarray | None = None,
        encoder: TableEncoder | None = None,
    ) -> Observed:
        """The rows without those of weight 0."""
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} entries for {len(X)} rows of X; pass one for each.")
        weights = relative_weights(sample_weight, getattr(self, "class_weight", None), y)
        numbers = np.flatnonzero(weights)
        if len(numbers) == len(X):
            return Observed(X, y, weights, groups, numbers, encoder)
        if groups is not None:
            groups = groups[numbers]
        X = arrays.take(X, numbers)
        return Observed(X, y[numbers], weights[numbers], groups, numbers, encoder)

    # ---- fit

    def _learn(self, observed: Observed, y: np.ndarray, rules: str) -> Choice:
        """Choose metrics and settings of the ``rules``, and fit them to all rows. ``y`` has numbers, or
        the codes of the classes.
        """
        check_metric(self.metric)
        rng = check_random_state(self.random_state)
        self._preparation: Preparation = Preparation.learned(observed.encoder, observed.X)
        rows = self._training(observed, self._preparation.points(observed.X))
        self.metric_: Any = None
        with _threads_for(len(y)), self._ctrl_c_hands_on_the_metric():
            apart = self._kept_apart(rows.Z, y, rng, observed.groups)
            learned = self._learn_metric_on_some(rows.Z, y, rng, observed.groups, apart)
            if learned is None:
                choice = unjudged_choice(rules, rows.Y.shape[1])
            else:
                self.metric_ = learned.estimator
                choice = choose(rows, learned, apart, self._preferences(rules, rows.Z), rng)
            self.trials_ = choice.trials
            self._report_trials()
            self._fit_parts(choice, rows, observed.numbers, rng)
        # among those with a weight
        self._evidence_rows = choice.held_out
        return choice

    def _training(self, observed: Observed, points: Array) -> Training:
        """What the rules learn from."""
        # with a mean of 1, the ridge, which is divided by them, means the same in any unit
        weights = observed.weights / observed.weights.mean()
        return Training(points, self._targets(observed.y), weights, symmetric_keys(points))

    def _preferences(self, rules: str, Z: Array) -> Preferences:
        """What may be tried on the points Z."""
        searched = rules_named(rules)
        return Preferences(
            rules=searched,
            gradients=self._is_auto() and KernelRule in searched,
            blocks=self._preparation.block_of_feature(Z.shape[1]),
            row_losses=self._row_losses,
            better=self._better,
            n_landmarks=self._n_landmarks(len(Z)),
        )

    def _report_trials(self) -> None:
        if self.verbose:
            for trial in self.trials_:
                print(f"[{type(self).__name__}] {trial}: held-out loss {trial.loss:.4f}")

    @contextmanager
    def _ctrl_c_hands_on_the_metric(self) -> Iterator[None]:
        """Let a KeyboardInterrupt carry the metric that was learned before it, if any, as its
        ``metric``: the fit is dropped, but who learns a decision for its metric can go on with that.
        """
        try:
            yield
        except KeyboardInterrupt as interrupt:
            interrupt.metric = self.metric_  # type: ignore[attr-defined]
            raise

    def _kept_apart(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None
    ) -> KeptApart | None:
        """The rows that a choice on some of many rows must not see; None: all are divided into folds."""
        if len(y) <= MAX_ROWS_IN_FOLDS:
            return None
        return keep_apart(self._drawn(X, y, rng), self._strata(y), groups)

    def _learn_metric_on_some(
        self,
        X: Array,
        y: np.ndarray,
        rng: RandomState,
        groups: np.ndarray | None,
        apart: KeptApart | None,
    ) -> LearnedMetric | None:
        """`_learn_metric` from some of many rows, none of them kept apart; its folds number all rows."""
        if len(y) <= MAX_ROWS_IN_FOLDS:
            return self._learn_metric(X, y, rng, groups)
        if apart is None:
            drawn = self._drawn(X, y, rng)
        else:
            drawn = apart.learn
        drawn = drawn[:MAX_ROWS_TO_CHOOSE]
        if groups is not None:
            groups = groups[drawn]
        learned = self._learn_metric(arrays.take(X, drawn), y[drawn], rng, groups)
        if learned is None:
            return None
        return learned.numbered(drawn)

    def _fit_parts(
        self, choice: Choice, rows: Training, numbers: np.ndarray, rng: RandomState
    ) -> None:
        """Fit the parts to all rows, which have these ``numbers`` in X, and keep the rows they need."""
        landmarks = draw_landmarks(rows.keys, self._n_landmarks(len(rows.Y)), rng)
        fitted = fit_parts(choice.parts, rows, landmarks)
        self._kept: KeptRows = KeptRows(numbers[fitted.kept], rows.among(fitted.kept))
        self._store_parts(fitted.parts, choice.certificate)

    def _store_parts(self, parts: Sequence[Part], certificate: Certificate | None) -> None:
        heaviest = parts[0]
        Z = self._kept.rows.Z
        if heaviest.L is None:
            L = arrays.identity(Z.shape[1], Z)
        else:
            L = arrays.like(heaviest.L, Z)
        self.blend_ = Blend(tuple(parts), certificate)
        self.chosen_ = heaviest.trial
        self.certificate_: Any = heaviest.certificate
        # for rows as they were given: the scale is folded in, and the centre changes no distance
        self.components_ = L.T / self._preparation.scale

    def _n_landmarks(self, n: int) -> int:
        """How many of n rows the kernel sum is over: all of a few, some of many."""
        if self.n_landmarks != "auto":
            return int(self.n_landmarks)
        if n <= MOST_EXACT:
            return n
        if arrays.on_device(self._preparation.scale):
            return N_LANDMARKS_ON_GPU
        return N_LANDMARKS

    @atomic_update
    def refit(self, X: Rows, y: Labels, sample_weight: Labels | None = None) -> Self:
        """Fit the chosen rules to other rows, in the metrics that were learned. The choice, its
        weights, the evidence, sets and intervals stay: this is for the rows that a first fit left out,
        together with its own.

        Parameters
        ----------
        X : data frame, array-like, sparse matrix or tensor (n, n_features)
        y : array-like (n,)
        sample_weight : array-like (n,), default=None
            As in ``fit``.

        Returns
        -------
        self
        """
        y = column_or_1d(arrays.to_numpy(y))
        self._targets(y)  # refuses classes that were not seen during fit
        observed = self._with_weight(self._points(X), y, sample_weight)
        rows = self._training(observed, observed.X)
        planned = [PlannedPart(part.trial, part.weight, part.L) for part in self.blend_.parts]
        choice = Choice(planned, self.blend_.certificate)
        rng = check_random_state(self.random_state)
        with _threads_for(len(observed.y)):
            self._fit_parts(choice, rows, observed.numbers, rng)
        return self

    # ---- use

    def _points(self, X: Rows) -> Array:
        """New rows as the metrics expect them."""
        check_is_fitted(self)
        refuse_unusable(self, X)
        if self.encoder_ is None:
            X = dense(self, validate_points(self, X, reset=False))
        else:
            X = self.encoder_.transform(X)
        return self._preparation.new_points(X)

    def _scores(self, X: Rows) -> np.ndarray:
        """Scores (n, n_targets) of new rows, on the host."""
        return self._scores_of_points(self._points(X))

    def _scores_of_points(self, points: Array) -> np.ndarray:
        weighted = []
        for part in self.blend_.parts:
            weighted.append(part.weight * part.fitted.scores(mapped(points, part.L)))
        return np.sum(weighted, axis=0)

    @property
    def n_kept_(self) -> int:
        """Training rows that predictions are made of."""
        return len(self._kept.numbers)

    @property
    def n_held_out_(self) -> int:
        """Held-out rows that promises rest on."""
        return len(self._conformal_scores)

    def held_out_for(self, alpha: float) -> int:
        """How many held-out rows a promise of ``alpha`` rests on; an error if they are too few."""
        check_is_fitted(self)
        check_share(alpha, "alpha")
        n = self.n_held_out_
        # the promise takes the score of rank (1 - alpha) (n + 1), which must not exceed n
        if alpha * (n + 1) < 1:
            raise AdviceError(
                f"needs {int(np.ceil(1 / alpha)) - 1} held-out rows, and there are {n}",
                {"alpha": "raise alpha", "": "learn from more rows"},
                "alpha",
                alpha,
            )
        return n

    def explain(self, X: Rows, n: int = 5, *, by: str = "terms") -> Explanation:
        """The training rows that decided for the predicted class against the next, or that moved the
        predicted number away from the mean of y.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n_queries, n_features)
        n : int, default=5
            Training rows per query.
        by : {"terms", "targets"}, default="terms"
            The score of a kernel fit is a sum over training rows: each adds its coefficient times
            its similarity to the query. "terms" names the rows with the largest terms, in the time
            that predictions take. "targets" names the rows whose class or number counts most: the
            score is also a sum of targets, with weights that are large for the nearest rows. They
            take a decomposition of the kernel matrix of all training rows (some seconds and
            200 MB for 5,000, time by their cube), which must not be landmarks. The two are the same
            for votes of neighbours.

        Returns
        -------
        Explanation
        """
        check_explanation("n", n, by, least=1)
        points = self._points(X)
        return self._explained(points, self._scores_of_points(points), n, by)

    def decide(self, X: Rows, *, alpha: float = 0.1, n_rows: int = 0, by: str = "terms") -> Decided:
        """Everything about new rows at once, from scores that are computed once: what ``predict``,
        ``predict_proba``, ``predict_set`` or ``predict_interval``, and ``explain`` return.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        alpha : float, default=0.1
            Fraction of rows whose set or interval may miss the true value. There are neither if too
            few rows were held out in ``fit`` (``n_held_out_`` is 0).
        n_rows : int, default=0
            Training rows to name for each row; 0 explains nothing.
        by : {"terms", "targets"}, default="terms"
            How they are chosen, as in ``explain``.

        Returns
        -------
        Decided
        """
        check_explanation("n_rows", n_rows, by, least=0)
        points = self._points(X)
        scores = self._scores_of_points(points)
        explanation = None
        if n_rows:
            explanation = self._explained(points, scores, n_rows, by)
        return Decided(explanation=explanation, **self._answers(scores, alpha))

    def _explained(self, points: Array, scores: np.ndarray, n: int, by: str) -> Explanation:
        """The `Explanation` of new points with these scores."""
        rows = self._kept.rows
        direction = self._direction(scores)
        with _threads_for(len(rows.Y)):
            found = reasons(self.blend_.parts, rows, points, direction, n=n, by=by)
        nearness = found.nearness
        if self.encoder_ is not None:
            nearness = self.encoder_.by_column(nearness)
        names = self._column_names()
        columns = None if names is None else tuple(names)
        return Explanation(self._kept.numbers[found.rows], found.shares, nearness, columns)

    def _column_names(self) -> list[str] | None:
        """The names of the columns of X, if it had any."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return None
        return [str(name) for name in names]

    def _is_auto(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # ---- storage

    def state(self) -> fields.State:
        """The fitted estimator as a nested dict of plain values and arrays: what predictions,
        promises and explanations need.
        """
        check_is_fitted(self)
        return state_of(self)

    @classmethod
    def from_state(cls, state: fields.State) -> Self:
        """The estimator of such a state, after checking all of it."""
        return restored(cls, state)


def _threads_for(n_rows: int) -> AbstractContextManager[None]:
    """As many BLAS threads as rows of this number can use."""
    if n_rows <= MOST_ROWS_SINGLE_THREADED:
        return blas_threads(1)
    return half_the_cores()
