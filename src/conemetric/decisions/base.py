"""What classifier and regressor share: rows encoded, metrics learned fold by fold, decisions chosen
and blended by held-out rows, and fitted to all rows.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..automatic.folds import CrossFitted, Fold, fitted_with_map
from ..constraints.labels import refuse_missing_labels
from ..core import arrays, fields
from ..core.advice import AdviceError
from ..core.arrays import Array, Labels, Rows
from ..core.atomic import atomic_update
from ..core.blas import blas_threads, half_the_cores, side_by_side
from ..core.progress import emit
from ..core.sklearn_private import Interval, StrOptions
from ..core.sparse_rows import SparseRows
from ..core.warn import collected_warnings
from ..core.weights import check_weights, class_factors
from ..engine.certificate import Certificate
from ..estimators.base import CertifiedEstimator, MahalanobisMetric, Seed
from ..estimators.checks import WEIGHTS, because
from ..estimators.validation import LARGEST_EXTENT, dense, refuse_unusable, validate_points
from ..evaluation.thresholds import check_share
from ..neighbours.ties import symmetric_keys
from ..tables.columns import frame_of
from ..tables.encoder import TableEncoder
from ..tables.spelling import Spelling
from .apart import Coefficients, KeptApart, judged_apart, keep_apart
from .blend import Blended
from .candidates import PLAIN, candidates_for
from .choice import choose, draw_landmarks, judged_in_folds
from .explaining import reasons
from .held_out import MAX_ROWS_COMPARED, Candidate
from .kernel import KernelRule
from .parts import Blend, Decided, Explanation, Part
from .rule import WAYS_TO_EXPLAIN, Judge, Rule, Training, Trial, mapped
from .rules import RULES

# rows up to which one BLAS thread is fastest: 1,500 x 20 takes 3.0 s with one and 6.0 with two on two
# Neoverse-N1 cores, 2.6 with one and 3.9 with 16 on 16 x86 cores
MOST_ROWS_SINGLE_THREADED = 2000
# rows up to which the kernel system is solved exactly: 2.7 TFLOP; 1.6 GB, on a GPU 3.2 GB
MOST_EXACT = 20_000
LEAST_WEIGHT = 1e-12  # relative to the largest: float32 holds what a ridge is divided by
# Rows up to which all are divided into folds. Beyond, some are kept apart (`apart`), and metrics and
# settings are chosen on so many of the others.
MAX_ROWS_IN_FOLDS = 8000
MAX_ROWS_TO_CHOOSE = 6000
# beyond that; see benchmarks/quality/landmarks.py for what they cost in error
N_LANDMARKS, N_LANDMARKS_ON_GPU = 2000, 10_000
OF_RULES = [StrOptions({"auto", *RULES})]  # which rules to choose from
DECISION_PARAMETERS: dict[str, Any] = {
    "metric": "no_validation",  # see `_check_metric`
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "kinds": [dict, None],
    "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


Parts = list[tuple[Trial, float, Array | None]]  # what each decides by, its weight, its map
FIELDS: dict[str, fields.Field] = {
    "parameters": fields.Plain(dict),
    "encoder": fields.Field(optional=True),
    "feature_names": fields.Each(fields.Text(), distinct=True, optional=True),
    "rows": fields.ArrayField("i", ("m",), low=0, increasing=True),
    "X": fields.ArrayField("f", ("m", "d")),
    "Y": fields.ArrayField("f", ("m", "t")),
    "weights": fields.ArrayField("f", ("m",), low=0, strict=True),
    "keys": fields.ArrayField("u", ("m",), high=np.inf),
    "centre": fields.ArrayField("f", ("d",)),
    "scale": fields.ArrayField("f", ("d",), low=0, strict=True),
    "held_out": fields.ArrayField("f", ("h",), low=0),
    "parts": fields.Each(fields.Field(), least=1),
    "certificate": fields.Plain(dict, optional=True),
    "evidence": fields.Plain(dict, optional=True),
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
        "folds are drawn from rows, so that a repeated row may be judged by its own copy", WEIGHTS
    )
    _target: ClassVar[str]  # what y is, to a metric that asks
    _own_fields: ClassVar[dict[str, fields.Field]]  # that a subclass adds, by attribute
    _evidence: ClassVar[type[fields.Stored]]

    # ---- input

    def _rows(self, X: Rows, reset: bool = False, sample_weight: Labels | None = None) -> Array:
        """X as features: a dense array or tensor, or a table encoded as rows with a weight are."""
        refuse_unusable(self, X)
        if reset:
            self.encoder_ = self._new_encoder(X)
        if self.encoder_ is None:
            return dense(self, validate_points(self, X, reset=reset))
        if not reset:
            return self.encoder_.transform(X)
        used = None if sample_weight is None else np.asarray(sample_weight) != 0
        self.encoder_.fit(X, sample_weight=used)
        self.n_features_in_ = self.encoder_.n_features_in_
        if hasattr(self.encoder_, "feature_names_in_"):
            self.feature_names_in_ = self.encoder_.feature_names_in_
        with collected_warnings():  # of words that only rows without a weight have
            return self.encoder_.transform(X)

    def _new_encoder(self, X: Rows) -> TableEncoder | None:
        """The unfitted encoder of a table; None for an array of numbers that needs none."""
        if arrays.is_torch(X) or issparse(X) or isinstance(X, SparseRows):
            return None
        by_dtype = isinstance(self.categorical_features, str | None) and not self.kinds
        if by_dtype and frame_of(X) is None and not _needs_encoding(X):
            return None
        return TableEncoder(
            categorical_features=self.categorical_features, kinds=self.kinds, sparse_output=False
        )

    def _rows_and_targets(
        self, X: Rows, y: Labels, sample_weight: Labels | None
    ) -> tuple[Array, np.ndarray]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; give one "
                "for each row of X."
            )
        arrays.refuse_masked(y, "y")
        y = column_or_1d(arrays.to_numpy(y), warn=True)
        refuse_missing_labels(y, advice="")
        return self._rows(X, reset=True, sample_weight=sample_weight), y

    def _weighted(
        self, X: Array, y: np.ndarray, sample_weight: Labels | None
    ) -> tuple[Array, np.ndarray, np.ndarray]:
        """Rows, targets and weights without the rows of weight 0; ``_given`` numbers them."""
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} entries for {len(X)} rows of X; give one for each.")
        weights = check_weights(sample_weight, len(X), "rows of X")
        if getattr(self, "class_weight", None) is not None:
            weights = weights * class_factors(self.class_weight, y, weights)
        weights = weights / weights.max()
        least = weights[weights > 0].min()
        if least < LEAST_WEIGHT:
            raise ValueError(
                f"the smallest weight of a row (sample_weight, class_weight) is {least:.1e} of the "
                f"largest; set weights below {LEAST_WEIGHT:g} of it to 0."
            )
        self._given = np.flatnonzero(weights)
        if len(self._given) == len(X):
            return X, y, weights
        return arrays.take(X, self._given), y[self._given], weights[self._given]

    # ---- fit

    @abstractmethod
    def _cross_fit(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None = None
    ) -> CrossFitted | None:
        """Fit ``metric_``, if any, to all rows and to all folds but one; None without folds. The
        rows of one of the groups are in one fold.
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

    def _of_given(self, groups: np.ndarray | None) -> np.ndarray | None:
        """The groups of the rows that have a weight."""
        return None if groups is None else groups[self._given]

    def _fit_decision(
        self,
        X: Array,
        y: np.ndarray,
        Y: np.ndarray,
        weights: np.ndarray,
        rules: str,
        groups: np.ndarray | None = None,
    ) -> Blended | None:
        """Choose metrics and settings of the ``rules`` for targets Y (n, n_targets), and fit them to
        all rows: the blend with crossed held-out scores; None if no rows could be held out.
        """
        self._check_metric()
        rng = check_random_state(self.random_state)
        xp = arrays.namespace(X)
        if self.encoder_ is None:
            # relative to the first row, so that a constant column has no spread by rounding
            precise = arrays.float64(X)
            centre, spread = precise.mean(0), (precise - precise[:1]).std(0)
            self.scale_ = arrays.like(xp.where(spread > 0, spread, xp.ones_like(spread)), X)
            self._centre = arrays.like(centre, X)
        else:
            self._centre, self.scale_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        X = (X - self._centre) / self.scale_
        self.metric_: Any = None
        self._linear_map: np.ndarray | None = None
        self.trials_: list[Trial] = []
        rows = Training(X, Y, weights, symmetric_keys(X))
        with _threads_for(len(y)), self._ctrl_c_hands_on_the_metric():
            apart = self._kept_apart(X, y, rng, groups)
            fitted = self._cross_fit_some(X, y, rng, groups, apart)
            if fitted is None:
                self._judged = np.empty(0, int)
                rule = RULES["kernel" if rules == "auto" else rules].default()
                nothing = Trial(PLAIN, rule, np.empty((0, Y.shape[1])), np.nan)
                self._fit_parts([(nothing, 1.0, None)], rows, rng)
                return None
            searched = list(RULES.values()) if rules == "auto" else [RULES[rules]]
            gradients = self._is_auto() and KernelRule in searched
            tried = candidates_for(rows, fitted, self._linear_map, self._blocks(X), gradients)
            judge = Judge(Y[fitted.judged], weights[fitted.judged], self._row_losses)
            trials, blends, metrics = choose(rows, fitted.folds, tried, searched, judge)
            starts: Coefficients = {}
            if apart is None:
                n_landmarks = self._n_landmarks(len(y))
                largest = max(len(fold.train) for fold in fitted.folds)
                if largest > min(MAX_ROWS_COMPARED, n_landmarks):
                    again, blends = judged_in_folds(
                        rows, fitted.folds, blends, metrics, judge, n_landmarks, rng
                    )
                    trials += again
                # of several partitions into folds the first gives evidence and promises: each row once
                self._judged = fitted.judged[: len(np.unique(fitted.judged))]
                maps = _final_maps(blends, metrics, X)
            else:
                maps = _final_maps(blends, metrics, X)
                trials, blends, starts = judged_apart(
                    rows,
                    apart,
                    usual=trials[0],
                    blends=blends,
                    maps=maps,
                    row_losses=self._row_losses,
                    n_landmarks=self._n_landmarks(len(y)),
                    rng=rng,
                )
                self._judged = apart.judged
                judge = Judge(Y[apart.judged], weights[apart.judged], self._row_losses)
            once = slice(len(self._judged))
            self.trials_ = [replace(trial, scores=trial.scores[once]) for trial in trials]
            if self.verbose:
                for trial in self.trials_:
                    print(f"[{type(self).__name__}] {trial}: held-out loss {trial.loss:.4f}")
            of_rules = list(blends.values())
            blended = of_rules[0] if len(of_rules) == 1 else self._better(of_rules, judge)
            parts = [
                (trial, weight, maps[trial.metric])
                for trial, weight in zip(blended.trials, blended.weights, strict=True)
            ]
            self._fit_parts(parts, rows, rng, blended.certificate, starts)
        return replace(blended, scores=blended.scores[once])

    def _blocks(self, X: Array) -> np.ndarray | None:
        """The number of the block of each feature, if a table was encoded."""
        if self.encoder_ is None:
            return None
        blocks = np.empty(X.shape[1], int)
        for number, each in enumerate(self.encoder_.blocks_):
            blocks[each.features] = number
        return blocks

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

    def _cross_fit_some(
        self,
        X: Array,
        y: np.ndarray,
        rng: RandomState,
        groups: np.ndarray | None,
        apart: KeptApart | None,
    ) -> CrossFitted | None:
        """`_cross_fit` with some of many rows, none of them kept apart; its folds number all rows."""
        if len(y) <= MAX_ROWS_IN_FOLDS:
            return self._cross_fit(X, y, rng, groups)
        drawn = self._drawn(X, y, rng) if apart is None else apart.learn
        drawn = drawn[:MAX_ROWS_TO_CHOOSE]
        of_drawn = None if groups is None else groups[drawn]
        fitted = self._cross_fit(arrays.take(X, drawn), y[drawn], rng, of_drawn)
        if fitted is None:
            return None
        folds = [Fold(*(drawn[rows] for rows in fold)) for fold in fitted.folds]
        return CrossFitted(folds, fitted.maps)

    def _fit_folds(
        self, metric: Any, X: Array, y: np.ndarray, folds: list[Fold], rng: RandomState
    ) -> CrossFitted:
        """Fit the metric without each fold, and ``metric_`` to all rows; None: folds only."""
        if metric is None:
            return CrossFitted(folds, [])
        seed = rng.randint(2**31 - 1)
        if not isinstance(metric, MahalanobisMetric):  # others may not take tensors
            X = arrays.to_numpy(X)
        maps = [
            fitted_with_map(metric, arrays.take(X, train), y[train], seed, self._target)[0]
            for train, _ in folds
        ]
        self._linear_map, self.metric_ = fitted_with_map(metric, X, y, seed, self._target)
        return CrossFitted(folds, maps)

    def _better(self, blends: list[Blended], judge: Judge) -> Blended:
        """The best of the blends, one for each rule in the order of `RULES`."""
        return min(blends, key=lambda each: judge(each.scores))

    def _fit_parts(
        self,
        parts: Parts,
        rows: Training,
        rng: RandomState,
        certificate: Certificate | None = None,
        starts: Coefficients | None = None,
    ) -> None:
        """Fit the rules of the parts to all rows, and keep the rows that they need."""
        starts = starts or {}
        landmarks = draw_landmarks(rows.keys, self._n_landmarks(len(rows.Y)), rng)
        every = np.arange(len(rows.Y))
        kept = every if any(trial.rule.many for trial, _, _ in parts) else landmarks
        fitted = []
        for trial, weight, L in parts:
            if L is not None:
                L = np.ascontiguousarray(arrays.to_numpy(L))
            emit("stage", stage=f"learning from all rows, {trial}")
            start = starts.get((trial.metric, trial.rule))
            rule = trial.rule.fit(rows.mapped(L), landmarks, start=start)
            places = np.searchsorted(kept, every if trial.rule.many else landmarks)
            fitted.append(Part(trial, weight, rule, L, places))
        self._given = self._given[kept]
        self._kept = rows.among(kept)
        self._store_parts(fitted, certificate)

    def _store_parts(self, parts: Sequence[Part], certificate: Certificate | None) -> None:
        self.blend_ = Blend(tuple(parts), certificate)
        first, X = parts[0], self._kept.Z
        self.chosen_ = first.trial
        self.certificate_: Any = first.certificate
        self.components_ = (
            arrays.identity(X.shape[1], X) if first.L is None else arrays.like(first.L, X).T
        ) / self.scale_

    def _n_landmarks(self, n: int) -> int:
        """How many of n rows the kernel sum is over: all of a few, some of many."""
        if self.n_landmarks != "auto":
            return int(self.n_landmarks)
        if n <= MOST_EXACT:
            return n
        return N_LANDMARKS_ON_GPU if arrays.on_device(self.scale_) else N_LANDMARKS

    @atomic_update
    def refit(self, X: Rows, y: Labels, sample_weight: Labels | None = None) -> Self:
        """Fit the chosen rules to other rows, in the metrics that were learned. The choice, its
        weights, the evidence and the promises stay: this is for the rows that a first fit left out,
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
        Y = self._targets(y)
        X, _, weights = self._weighted(self._scaled(X), y, sample_weight)
        parts = [(part.trial, part.weight, part.L) for part in self.blend_.parts]
        rows = Training(X, Y[self._given], weights / weights.mean(), symmetric_keys(X))
        rng = check_random_state(self.random_state)
        with _threads_for(len(weights)):
            self._fit_parts(parts, rows, rng, self.blend_.certificate)
        return self

    # ---- use

    def _scaled(self, X: Rows) -> Array:
        """New rows as the metrics expect them."""
        check_is_fitted(self)
        X = self._rows(X)
        X = (X - arrays.like(self._centre, X)) / arrays.like(self.scale_, X)
        if bool((abs(X) > LARGEST_EXTENT[X.dtype.itemsize]).any()):
            raise ValueError("X has values far beyond those of fit; correct or drop them.")
        return X

    def _scores(self, X: Rows) -> np.ndarray:
        """Scores (n, n_targets) of new rows, on the host."""
        return self._scores_of_scaled(self._scaled(X))

    def _scores_of_scaled(self, X: Array) -> np.ndarray:
        parts = self.blend_.parts
        return np.sum([p.weight * p.fitted.scores(mapped(X, p.L)) for p in parts], axis=0)

    @property
    def n_kept_(self) -> int:
        """Training rows that predictions are made of."""
        return len(self._given)

    @property
    def n_held_out_(self) -> int:
        """Held-out rows that promises rest on."""
        return len(self._held_out)

    def held_out_for(self, alpha: float) -> int:
        """How many held-out rows a promise of ``alpha`` rests on; an error if they are too few."""
        check_is_fitted(self)
        check_share(alpha, "alpha")
        n = len(self._held_out)
        if alpha * (n + 1) < 1:
            raise AdviceError(
                f"needs {int(np.ceil(1 / alpha)) - 1} held-out rows, and there are {n}",
                {"alpha": "raise alpha", "": "learn from more rows"},
                "alpha",
                alpha,
            )
        return n

    @abstractmethod
    def _direction(self, scores: np.ndarray) -> np.ndarray:
        """What an explanation of these scores is of: (n_queries, n_targets)."""

    @abstractmethod
    def _answers(self, scores: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
        """What scores (n, n_targets) of new rows say, by the attribute of `Decided`."""

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
        _check_explanation("n", n, by, least=1)
        X = self._scaled(X)
        return self._explained(X, self._scores_of_scaled(X), n, by)

    def decide(self, X: Rows, *, alpha: float = 0.1, n_rows: int = 0, by: str = "terms") -> Decided:
        """Everything about new rows at once, from scores that are computed once: what ``predict``,
        ``predict_proba``, ``predict_set`` or ``predict_interval``, and ``explain`` return.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        alpha : float, default=0.1
            Fraction of rows whose set or interval may miss the true value. There are neither if too
            few rows were held out in ``fit`` to promise anything (``n_held_out_`` is 0).
        n_rows : int, default=0
            Training rows to name for each row; 0 explains nothing.
        by : {"terms", "targets"}, default="terms"
            How they are chosen, as in ``explain``.

        Returns
        -------
        Decided
        """
        _check_explanation("n_rows", n_rows, by, least=0)
        X = self._scaled(X)
        scores = self._scores_of_scaled(X)
        explanation = self._explained(X, scores, n_rows, by) if n_rows else None
        return Decided(explanation=explanation, **self._answers(scores, alpha))

    def _explained(self, X: Array, scores: np.ndarray, n: int, by: str) -> Explanation:
        """`Explanation` of scaled rows with these scores."""
        with _threads_for(len(self._kept.Y)):
            found = reasons(self.blend_.parts, self._kept, X, self._direction(scores), n=n, by=by)
        nearness = found.nearness
        if self.encoder_ is not None:
            nearness = self.encoder_.by_column(nearness)
        names = getattr(self, "feature_names_in_", None)
        columns = None if names is None else tuple(str(name) for name in names)
        return Explanation(self._given[found.rows], found.shares, nearness, columns)

    def _is_auto(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "auto"

    def _check_metric(self) -> None:
        """Refuse a metric that is not "auto", None or an estimator that can transform."""
        metric = self.metric
        usable = hasattr(metric, "fit") and hasattr(metric, "transform")
        if isinstance(metric, type) or not (usable or self._is_auto() or metric is None):
            raise TypeError(
                f"metric={metric!r} is not an estimator with fit and transform; give 'auto', None or "
                "an unfitted estimator of a linear map, such as FrobMetric()."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # ---- storage

    def state(self) -> fields.State:
        """The fitted estimator as a nested dict of plain values and arrays: what predictions,
        promises and explanations need. Left out are the fitted metric, the settings that were tried
        and not chosen, and parameters that are not plain values.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        certificate = self.blend_.certificate
        own = {}
        for name, declared in self._own_fields.items():
            stored = fields.labels_state if isinstance(declared, fields.Labels) else float
            own[name.strip("_")] = stored(getattr(self, name))
        return {
            "parameters": {
                name: value
                for name, value in self.get_params(deep=False).items()
                if isinstance(value, str | int | float | bool | None)
            },
            "encoder": None if self.encoder_ is None else self.encoder_.state(),
            "feature_names": None if names is None else [str(name) for name in names],
            "rows": self._given,
            "X": arrays.to_numpy(self._kept.Z),
            "Y": self._kept.Y,
            "weights": self._kept.weights,
            "keys": self._kept.keys,
            "centre": arrays.to_numpy(self._centre),
            "scale": arrays.to_numpy(self.scale_),
            "held_out": self._held_out,
            "parts": [part.state() for part in self.blend_.parts],
            "certificate": None if certificate is None else certificate.state(),
            "evidence": None if self.evidence_ is None else self.evidence_.state(),
            **own,
        }

    @classmethod
    def from_state(cls, state: fields.State) -> Self:
        """The estimator of such a state, after checking all of it."""
        own = {name.strip("_"): declared for name, declared in cls._own_fields.items()}
        sizes = fields.check(state, {**FIELDS, **own})
        estimator = fields.with_parameters(cls, state["parameters"], "parameters")
        encoder, names = state["encoder"], state["feature_names"]
        estimator.encoder_ = None if encoder is None else TableEncoder.from_state(encoder)
        estimator.n_features_in_ = d = sizes["d"]
        if estimator.encoder_ is not None:
            estimator.n_features_in_ = estimator.encoder_.n_features_in_
            width = len(estimator.encoder_.get_feature_names_out())
            fields.expect(width == d, "encoder", f"{width} features", f"{d} features")
        if names is not None:
            n = estimator.n_features_in_
            fields.expect(len(names) == n, "feature_names", f"{len(names)} names", f"{n} names")
            estimator.feature_names_in_ = np.array(names, object)
        estimator._given = state["rows"]
        estimator._kept = Training(*(state[name] for name in ("X", "Y", "weights", "keys")))
        estimator._centre, estimator.scale_ = state["centre"], state["scale"]
        estimator._held_out = held_out = state["held_out"]
        fields.expect((np.diff(held_out) >= 0).all(), "held_out", "not sorted", "sorted numbers")
        parts = [
            Part.from_state(each, f"parts.{k}", estimator._kept)
            for k, each in enumerate(state["parts"])
        ]
        total = sum(part.weight for part in parts)
        fields.expect(abs(total - 1) < 1e-6, "the sum of the weights of parts", total, "1")
        certificate = state["certificate"]
        bound = None if certificate is None else Certificate.from_state(certificate)
        estimator._store_parts(parts, bound)
        estimator.metric_, estimator.trials_ = None, []
        estimator.evidence_, evidence = None, state["evidence"]
        if evidence is not None:
            estimator.evidence_ = cls._evidence.from_state(evidence, "evidence")
            for name in ("chosen", "usual"):
                known = evidence[name] in evidence["error"]
                fields.expect(known, f"evidence.{name}", evidence[name], "one of evidence.error")
        for name, declared in cls._own_fields.items():
            restored = fields.labels_from_state if isinstance(declared, fields.Labels) else float
            setattr(estimator, name, restored(state[name.strip("_")]))
        return estimator


def _final_maps(
    blends: Mapping[type[Rule], Blended], metrics: Mapping[str, Candidate], X: Array
) -> dict[str, Array | None]:
    """The maps that the parts of the blends decide by, learned from the rows of all folds, by metric."""
    trials = [trial for blended in blends.values() for trial in blended.trials]
    names = list(dict.fromkeys(trial.metric for trial in trials))
    # the metric that the usual vote is judged in is the plain one
    names += [PLAIN] if PLAIN not in names else []
    maps = side_by_side(lambda name: metrics[name].final(), names, X)
    return dict(zip(names, maps, strict=True))


def _check_explanation(name: str, n: int, by: str, least: int) -> None:
    """Refuse a number of rows, or a way to choose them, that cannot be explained by."""
    if not isinstance(n, Integral) or n < least:
        raise ValueError(
            f"{name}={n!r} must be an integer, at least {least}: the training rows to name."
        )
    if by not in WAYS_TO_EXPLAIN:
        raise ValueError(f"by={by!r} must be one of {', '.join(map(repr, WAYS_TO_EXPLAIN))}.")


def _threads_for(n_rows: int) -> AbstractContextManager[None]:
    return blas_threads(1) if n_rows <= MOST_ROWS_SINGLE_THREADED else half_the_cores()


def _needs_encoding(X: Rows) -> bool:
    """Whether an array has words, gaps, or columns whose squares leave the range of floats."""
    values = np.asarray(X)
    if values.dtype.kind in "OUS":
        return True
    if values.dtype.kind != "f" or values.ndim != 2 or not values.size:
        return False
    size, largest = abs(values).max(0), LARGEST_EXTENT.get(values.dtype.itemsize, 1e15)
    extreme = (size > largest) | ((size > 0) & (size < 1 / largest))
    return bool(np.isnan(size).any() or (extreme & np.isfinite(size)).any())
