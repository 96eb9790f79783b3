"""MetricClassifier: a metric, and the decision rule that suits it, chosen by held-out rows."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Annotated, Self

import numpy as np
from numpy.random import RandomState
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..automatic.automatic import AutoMetric
from ..automatic.folds import excess, n_folds_for, stratified_folds
from ..constraints.labels import first_means_none
from ..core import fields
from ..core.arrays import Array, Labels, Rows
from ..core.atomic import atomic_fit
from ..core.dates import holds_times
from ..core.sklearn_private import StrOptions
from ..core.warn import warn_user
from ..core.weights import ClassWeight
from ..evaluation.knn import evenly_by_class
from ..evaluation.statistics import mcnemar, p_in_words
from ..neighbours.ties import canonical_order
from .base import DECISION_PARAMETERS, OF_RULES, MetricDecision
from .blend import Blended
from .choice import Choice
from .learned import LearnedMetric, learn_in_folds
from .rule import Judge

# Rows that the metric is learned from: on 15 tables decisions in one learned from 4,000 err no less.
MAX_ROWS_FOR_AUTO_METRIC = 2000
SQUARES = 0.5  # weight of the mean squared error beside the error rate, which alone is coarse
LOG_TEMPERATURES = (-3.0, 6.0)  # range of the logarithm of the factor that calibrates scores
SURE = 1.0  # standard errors by which a vote must err less: kernels extrapolate better
N_BINS = 10  # of the calibration error, with equally many rows each


@dataclass(frozen=True)
class DecisionEvidence(fields.Stored):
    """Held-out error of the best rule of each kind in each metric, and of their blend.

    Attributes
    ----------
    error, standard_error : mapping of str to float
        Fraction of held-out rows classified wrongly, and its standard error. Neither the
        metric nor the rule was fitted to them. They chose the settings of each trial, so its
        error is slightly optimistic; that of the blend is crossed: settings and weights for
        each fold are those chosen on the other folds.
    chosen, usual : str
        The blend; 3-NN in the Euclidean metric, which it is compared with.
    p_value : float
        Exact McNemar test between the two.
    calibration_error : float
        Mean difference between the probability of the predicted class and how often it is
        right, over ten groups of held-out rows.
    n_rows : int
        Held-out rows.
    """

    error: Annotated[Mapping[str, float], fields.Named(fields.Number(0, 1))]
    standard_error: Annotated[Mapping[str, float], fields.Named(fields.Number(0, 1))]
    chosen: Annotated[str, fields.Text()]
    usual: Annotated[str, fields.Text()]
    p_value: Annotated[float, fields.Number(0, 1)]
    calibration_error: Annotated[float, fields.Number(0, 1)]
    n_rows: Annotated[int, fields.Number(1, whole=True)]

    def __str__(self) -> str:
        return (
            f"{self.error[self.chosen]:.1%} wrong, cross-validated on {self.n_rows} rows, against "
            f"{self.error[self.usual]:.1%} by {self.usual} ({p_in_words(self.p_value)}); {self.chosen}"
        )


@dataclass(eq=False, repr=False)
class MetricClassifier(ClassifierMixin, MetricDecision):
    """Classifier by learned distances: nearest neighbours, or a blend of kernel ridge
    regressions in several metrics, whichever predicts held-out rows best.

    Columns are scaled to unit variance; categories and missing values are encoded. Metrics (that of
    ``metric``, and with "auto" those of the gradients of kernel fits) are learned without each fold
    of the rows, and so are the rules: the number of neighbours and their weights, or kernel, width
    and ridge. Both are evaluated on the rows of the fold. The best kernel fits are weighted to have the
    least squared held-out error, and what was chosen is fitted to all rows. `predict_proba` is
    calibrated and `predict_set` has its coverage from crossed held-out scores.

    Parameters
    ----------
    metric : "auto", estimator or None, default="auto"
        "auto" is `AutoMetric`, beside metrics of gradients. Any estimator will do that learns
        from labels and transforms linearly. None leaves the scaled Euclidean distance.
    classifier : {"auto", "neighbors", "kernel"}, default="auto"
        The rules to choose from.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of rows, by class.
    categorical_features : array-like, "from_dtype" or None, default="from_dtype"
        Columns of categories, as in `TableEncoder`, which encodes data frames.
    kinds : dict of str or int to str, default=None
        Kinds of columns, as in `TableEncoder`.
    n_landmarks : int or "auto", default="auto"
        Kernel ridge regression sums over this many rows only. "auto" means all up to 20,000
        rows, and 2,000 drawn at random beyond (tensors on a GPU: 10,000).
    random_state : int, RandomState or None
        Draws folds and landmarks.
    n_jobs : int, default=None
        Processes that fit the metrics of the folds.
    verbose : int, default=0

    Attributes
    ----------
    classes_ : array (n_classes,)
    metric_ : fitted estimator or None
        The learned metric, of columns scaled to unit variance.
    components_ : array (rank, n_features)
        The chosen metric: distances are those of ``X @ components_.T``.
    chosen_ : Trial
        The heaviest part of the blend: its metric and rule.
    evidence_ : DecisionEvidence or None
        Held-out error of everything that was tried; None if no class has two rows.
    certificate_ : Certificate or None
        How far the kernel system of ``chosen_`` is from its exact solution; None for
        neighbours, which solve nothing. Those of the other parts are in ``blend_``, those of
        the metric in ``metric_``.
    blend_ : Blend
        The parts that decide, the heaviest first, with their weights and certificates.
    encoder_ : TableEncoder or None
        The encoding of a table; None for numbers without missing values.
    unseen_ : float
        Estimated share of new rows whose class training lacks (Good-Turing): the share of
        training rows that are the only ones of their class.
    temperature_ : float
        Factor of the scores whose softmax is `predict_proba`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from conemetric import MetricClassifier
    >>> train, test, y_train, y_test = train_test_split(
    ...     *load_wine(return_X_y=True), random_state=0)
    >>> classifier = MetricClassifier(random_state=0).fit(train, y_train)
    >>> classifier.score(test, y_test) > 0.95
    True
    >>> classifier.predict_set(test[:2], alpha=0.1).shape
    (2, 3)
    """

    _: KW_ONLY
    classifier: str = "auto"
    class_weight: ClassWeight | None = None
    n_jobs: int | None = None

    _parameter_constraints = {
        **DECISION_PARAMETERS,
        "classifier": OF_RULES,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
    }

    _target = "classes"

    @atomic_fit(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Rows,
        y: Labels,
        sample_weight: Labels | None = None,
        *,
        groups: Labels | None = None,
    ) -> Self:
        """Learn the metric and the rule from labelled rows.

        Parameters
        ----------
        X : data frame, array-like, sparse matrix or tensor (n, n_features)
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), default=None
            Weights of the rows, in the rule and where they are held out; rows of weight 0 are left out.
        groups : array-like (n,), default=None
            Rows with equal entries, such as those of one person, are held out together, so that
            choices, evidence and sets are for rows of new groups.

        Returns
        -------
        self
        """
        y = self._check_y(y)
        _refuse_quantities(y)
        observed = self._observed(X, y, sample_weight, groups)
        classes, code = np.unique(observed.y, return_inverse=True)
        self.classes_ = fields.storable_labels(classes)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {observed.y.tolist()[0]!r}; a classifier needs at least two classes."
            )
        choice = self._learn(observed, code, self.classifier)
        self._calibrate(choice, code, observed.weights)
        return self

    def _targets(self, y: np.ndarray) -> np.ndarray:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has {unknown.tolist()[0]!r}, a class not seen during fit; drop those rows, or fit again with them."
            )
        return 2.0 * np.eye(len(self.classes_))[np.searchsorted(self.classes_, y)] - 1

    # ---- the choice

    def _learn_metric(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None
    ) -> LearnedMetric | None:
        if np.bincount(y).max() < 2:
            return None
        if self._is_auto():
            return self._learn_auto_metric(X, y, rng, groups)
        folds = stratified_folds(self._drawn(X, y, rng), y, n_folds_for(len(y)), groups)
        return learn_in_folds(self.metric, X, y, folds, rng, target=self._target)

    def _learn_auto_metric(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None
    ) -> LearnedMetric:
        if first_means_none(self.classes_):
            labels = y  # a metric would read -1 as "none"
        else:
            labels = self.classes_[y]  # warnings name labels as the user wrote them
        metric = AutoMetric(
            max_rows=MAX_ROWS_FOR_AUTO_METRIC,
            random_state=rng.randint(2**31 - 1),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        metric.fit(X, labels, target=self._target, groups=groups)
        if metric.interrupted_:
            self.metric_ = metric  # handed on by the interrupt
            raise KeyboardInterrupt  # nothing is decided by a blend of half the candidates
        return LearnedMetric(metric._cross_fitted, metric, metric.components_.T)

    def _drawn(self, X: Array, y: np.ndarray, rng: RandomState) -> np.ndarray:
        return evenly_by_class(rng.permutation(canonical_order(X, y)), y)

    def _strata(self, y: np.ndarray) -> np.ndarray:
        return y  # the code of the class

    def _row_losses(self, scores: np.ndarray, Y: np.ndarray) -> np.ndarray:
        wrong = scores.argmax(1) != Y.argmax(1)
        return wrong + SQUARES * ((scores - Y) ** 2).mean(1)

    def _better(self, blends: list[Blended], judge: Judge) -> Blended:
        *others, kernel = blends  # in the order of `RULES`
        vote = super()._better(others, judge)
        truth = judge.Y.argmax(1)
        kernel_wrong = kernel.scores.argmax(1) != truth
        vote_wrong = vote.scores.argmax(1) != truth
        return vote if excess(kernel_wrong, vote_wrong) > SURE else kernel

    # ---- probabilities and sets

    def _calibrate(self, choice: Choice, code: np.ndarray, weights: np.ndarray) -> None:
        """Temperature, conformal scores and evidence from the crossed scores of held-out rows."""
        self.temperature_ = 1.0
        self.evidence_ = None
        self._conformal_scores = np.empty(0)  # sorted: what promises rest on
        self.unseen_ = 0.0
        if not choice.is_judged:
            return
        truth = code[choice.held_out]
        n_judged = len(truth)
        self.temperature_ = _temperature(choice.scores, truth, weights[choice.held_out])
        probability = self._probabilities(choice.scores)
        # the only row of a class, held out, belongs to a class that training lacks: no probability
        # and no set can name it. Their share estimates that of new rows of unseen classes (Good,
        # Turing); as many of them are counted as of the other rows were held out
        n_alone = int(np.sum(np.bincount(code) == 1))
        self.unseen_ = n_alone / len(code)
        n_missed = round(n_alone * n_judged / max(1, len(code) - n_alone))
        of_truth = probability[np.arange(n_judged), truth]
        self._conformal_scores = np.sort(np.concatenate([np.zeros(n_missed), of_truth]))
        calibration_error = _calibration_error(probability, truth)
        self.evidence_ = _evidence(choice, str(self.blend_), truth, n_missed, calibration_error)

    def decision_function(self, X: Rows) -> np.ndarray:
        """Scores of the classes, near 1 for the class of a row and near -1 for others.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)

        Returns
        -------
        array (n, n_classes), or (n,) for two classes: positive for ``classes_[1]``
        """
        scores = self._scores(X)
        if len(self.classes_) > 2:
            return scores
        return (scores[:, 1] - scores[:, 0]) / 2

    def predict(self, X: Rows) -> np.ndarray:
        """The class of each row, as a NumPy array (n,)."""
        check_is_fitted(self)
        return self.classes_[self._scores(X).argmax(1)]

    def predict_proba(self, X: Rows) -> np.ndarray:
        """Probabilities (n, n_classes), calibrated on held-out rows."""
        check_is_fitted(self)
        return self._probabilities(self._scores(X))

    def predict_set(self, X: Rows, alpha: float = 0.1) -> np.ndarray:
        """Sets of classes that hold the true one with probability 1 - alpha.

        By cross-conformal prediction: a class is in the set unless its probability is lower
        than that of the true class in all but a fraction alpha of the held-out rows. This
        needs new rows to be exchangeable with the training rows: drawn from the same source,
        so that their order tells nothing. A set is never empty. The held-out rows also chose
        the rule, which is then fitted to all rows: coverage of 1 - alpha is measured
        (benchmarks/quality/promises.py), not proven. The only row of a class counts as one that no
        set could name, so that sets are wider where classes are rare; a warning says if new
        rows of unseen classes are expected to be more common than alpha.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        alpha : float, default=0.1
            Fraction of rows whose set may miss the true class.

        Returns
        -------
        array of bool (n, n_classes)
        """
        self.held_out_for(alpha)
        return self._sets(self.predict_proba(X), alpha)

    def _sets(self, probability: np.ndarray, alpha: float) -> np.ndarray:
        """The sets of rows with these probabilities; a warning where unseen classes are common."""
        n = self.held_out_for(alpha)
        if self.unseen_ > alpha:
            warn_user(
                f"about {self.unseen_:.0%} of new rows are of classes that training lacks, since as "
                f"many training rows are the only ones of their class; no set can name those, so "
                f"sets cannot hold the true class with probability {1 - alpha:g}: pass more rows, or "
                "pool rare classes."
            )
        as_low = np.searchsorted(self._conformal_scores, probability, side="right")
        # the conformal p-value of each class; the new row counts as one of the n + 1
        included = (1 + as_low) / (n + 1) > alpha
        included[np.arange(len(probability)), probability.argmax(1)] = True
        return included

    def _answers(self, scores: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
        probabilities = self._probabilities(scores)
        answers = {"values": self.classes_[scores.argmax(1)], "probabilities": probabilities}
        if self.n_held_out_:
            answers["sets"] = self._sets(probabilities, alpha)
        return answers

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return softmax(self.temperature_ * scores, axis=1)

    _evidence = DecisionEvidence
    _own_fields = {
        "classes_": fields.Labels("t", least=2),
        "temperature_": fields.Number(0, strict=True),
        "unseen_": fields.Number(0, 1),
    }

    def _direction(self, scores: np.ndarray) -> np.ndarray:
        first, second = np.argsort(-scores, axis=1, kind="stable")[:, :2].T
        units = np.eye(len(self.classes_))
        return units[first] - units[second]


def _refuse_quantities(y: np.ndarray) -> None:
    """Refuse an y that holds no labels."""
    if holds_times(y):
        raise ValueError(
            "y holds dates or durations, which are no labels; pass them as text, y.astype(str), if "
            "each is a class, and use MetricRegressor on numbers, such as days, if they are not."
        )
    assert_all_finite(y, input_name="y")
    try:
        check_classification_targets(y)
    except ValueError as error:
        raise ValueError(f"{error} For quantities use MetricRegressor.") from None


def _temperature(scores: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> float:
    """The factor of the scores whose softmax has the least log loss."""
    rows = np.arange(len(truth))

    def log_loss(logarithm: float) -> float:
        logits = log_softmax(np.exp(logarithm) * scores, axis=1)
        return -np.average(logits[rows, truth], weights=weights)

    # the search is over the logarithm, so that the factor stays positive
    best = minimize_scalar(log_loss, bounds=LOG_TEMPERATURES, method="bounded")
    return float(np.exp(best.x))


def _evidence(
    choice: Choice,
    blend: str,
    truth: np.ndarray,
    n_missed: int,
    calibration_error: float,
) -> DecisionEvidence:
    """Errors of everything that was tried; ``n_missed`` rows, of classes of their own, are always wrong."""
    always_wrong = np.ones(n_missed, bool)
    scores_of = {str(trial): trial.scores for trial in choice.trials}
    scores_of[blend] = choice.scores
    wrong = {}
    for name, scores in scores_of.items():
        wrong[name] = np.concatenate([scores.argmax(1) != truth, always_wrong])
    usual = str(choice.trials[0])
    n_rows = len(truth) + n_missed
    return DecisionEvidence(
        error={name: float(rows.mean()) for name, rows in wrong.items()},
        standard_error={name: float(rows.std() / n_rows**0.5) for name, rows in wrong.items()},
        chosen=blend,
        usual=usual,
        p_value=mcnemar(wrong[usual], wrong[blend]),
        calibration_error=calibration_error,
        n_rows=n_rows,
    )


def _calibration_error(probability: np.ndarray, truth: np.ndarray) -> float:
    """Mean difference between the probability of the predicted class and how often it is right."""
    confidence = probability.max(1)
    is_right = probability.argmax(1) == truth
    total = 0.0
    for rows in np.array_split(np.argsort(confidence, kind="stable"), N_BINS):
        if len(rows):
            total += len(rows) * abs(confidence[rows].mean() - is_right[rows].mean())
    return float(total / len(truth))
