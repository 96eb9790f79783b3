"""Input that no one should give, to every estimator: each fit succeeds with finite
numbers or is refused in words of ours, soon, and without NumPy's warnings.
"""

import re
import warnings

import numpy as np
from learners import check_complete
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    GradientMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
    RelevanceMetric,
)

from .outcome import Outcome, TooSlow, limited, timed

PATIENCE = 20  # seconds
# what only an unguarded line says
FOREIGN = re.compile(
    r"zero-size array|could not be broadcast|cannot reshape|index \d+ is out of bounds|"
    r"infs or NaNs|Singular matrix|NoneType|unsupported operand|cannot convert float|"
    r"matmul|not aligned|object is not|ufunc",
)
ESTIMATORS = (
    FrobMetric(),
    FrobMetric(loss="logistic"),
    FrobMetric(prior="identity"),
    FrobMetricCV(Cs=2, cv=2, random_state=0),
    BoostMetric(0.5, loss="logistic", max_iter=50),
    BoostMetric(0.5, max_iter=50),
    BoostMetric(0.2, loss="hinge"),
    DMLEig(),
    LMNNEig(),
    GradientMetric(),
    GradientMetric("city block"),
    RelativeComparisons(random_state=0),
    NuMax(0.4),
    NuMax(0.4, class_aware=True),
    MaximumVarianceUnfolding(3),
    MaxMarginMatrixFactorization(),
    RelevanceMetric(1.0, random_state=0),
    QueryAdapter(1.0, random_state=0),
)
check_complete(ESTIMATORS, "labels", without={"AutoMetric": "fits others of this list"})
NUMBERS = (0, -1, 1, 2, 1e-12, 1e12, 1e-160, 1e160, 1e308, 10**400, np.nan, np.inf, -np.inf)
WORDS = ("", "scale", "auto", "no", None, True, np.float32(2), np.int64(3), [], {}, 1j, b"1")


def entry(value):
    def change(rng, A):
        A = A.astype(float)
        A[rng.integers(A.shape[0]), rng.integers(A.shape[1])] = value
        return A

    return change


def column(value):
    def change(rng, A):
        A = A.astype(float)
        A[:, rng.integers(A.shape[1])] = value
        return A

    return change


ROWS = (
    *(entry(value) for value in (np.nan, np.inf, 1e30, 1e80, 1e160, 1e300, 1e-300, 0.0)),
    *(column(value) for value in (0.0, 1e10, 1e200, np.nan)),
    *((lambda rng, A, k=k: A * 10.0**k) for k in (-300, -160, -80, -20, -9, 9, 20, 80, 160, 300)),
    lambda rng, A: A[:0],
    lambda rng, A: A[:1],
    lambda rng, A: A[:2],
    lambda rng, A: A[:3],
    lambda rng, A: A[:, :0],
    lambda rng, A: A[:, :1],
    lambda rng, A: A[0],
    lambda rng, A: A[None],
    lambda rng, A: A * 0,
    lambda rng, A: np.repeat(A[:2], len(A) // 2, axis=0),
    lambda rng, A: A.astype(str),
    lambda rng, A: A.astype(object),
    lambda rng, A: A + 1j,
    lambda rng, A: A.astype(np.float16),
    lambda rng, A: A.astype(np.float32),
    lambda rng, A: A.astype(np.longdouble),
    lambda rng, A: A.astype(np.int8),
    lambda rng, A: A > 0,
    lambda rng, A: A.tolist(),
    lambda rng, A: [*A.tolist(), [1.0]],
    lambda rng, A: np.asfortranarray(A)[::-1],
    lambda rng, A: sparse.csr_array(A),
    lambda rng, A: sparse.coo_matrix(A * (A > 1)),
    lambda rng, A: np.ma.masked_greater(A, 1.0),
    lambda rng, A: A.astype("datetime64[s]"),
    lambda rng, A: None,
    lambda rng, A: "a table",
    lambda rng, A: 3.0,
    lambda rng, A: [],
    lambda rng, A: {"a": A[:, 0]},
    lambda rng, A: iter(A),
    lambda rng, A: memoryview(np.ascontiguousarray(A)),
    lambda rng, A: A.view(np.recarray),
)
LABELS = (
    lambda rng, y: y[:-1],
    lambda rng, y: y[:0],
    lambda rng, y: y * 0,
    lambda rng, y: np.arange(len(y)),
    lambda rng, y: np.where(np.arange(len(y)) == 0, 7, y * 0),
    lambda rng, y: y - 1,
    lambda rng, y: -y,
    lambda rng, y: y.astype(str),
    lambda rng, y: y.astype(object),
    lambda rng, y: np.where(y == 1, None, y.astype(object)),
    lambda rng, y: np.where(y == 1, "b", y.astype(object)),
    lambda rng, y: np.where(np.arange(len(y)) % 3 == 0, -1, y),
    lambda rng, y: y + rng.normal(size=len(y)),
    lambda rng, y: y * np.nan,
    lambda rng, y: np.where(y == 1, np.inf, y),
    lambda rng, y: y + 0.5j,
    lambda rng, y: y[:, None],
    lambda rng, y: np.column_stack([y, y]),
    lambda rng, y: np.eye(3)[y],
    lambda rng, y: y.tolist(),
    lambda rng, y: set(y.tolist()),
    lambda rng, y: "aab",
    lambda rng, y: None,
    lambda rng, y: 3,
    lambda rng, y: y.astype("datetime64[D]"),
    lambda rng, y: np.where(y == 0, np.datetime64("NaT"), y.astype("datetime64[D]")),
    lambda rng, y: np.ma.masked_equal(y, 1),
    lambda rng, y: sparse.csr_array(y[:, None]),
    lambda rng, y: y > 0,
    lambda rng, y: y.astype(np.uint8),
    lambda rng, y: [[label] * (label + 1) for label in y.tolist()],
)
INDICES = (
    np.zeros((0, 3), int),
    np.array([[0, 1, 2]]),
    np.array([[0, 0, 1]]),
    np.array([[0, 1, 1]]),
    np.array([[0, 1, -1]]),
    np.array([[0, 1, 10**9]]),
    np.array([[0, 1, 2**62]]),
    np.array([[0, 1]]),
    np.array([[0, 1, 2, 3]]),
    np.array([[0.0, 1.0, 2.0]]),
    np.array([[0.5, 1.0, 2.0]]),
    np.array([["a", "b", "c"]]),
    np.array([[0, 1, np.nan]]),
    np.array([0, 1, 2]),
    np.array([[[0, 1, 2]]]),
    [(0, 1, 2), (1, 2)],
    "012",
    3,
    [],
)


def choose(rng, values):
    return values[rng.integers(len(values))]


def draw(rng):
    """(what is tried, estimator, arguments, keywords)."""
    estimator = clone(choose(rng, ESTIMATORS))
    n = int(rng.integers(8, 25))
    X, y = rng.normal(size=(n, int(rng.integers(1, 6)))), rng.permutation(np.arange(n) % 3)
    documents, relevance = X[: n // 2], np.column_stack([np.arange(n), np.arange(n) % (n // 2)])
    given, keywords, what = X, {}, []
    kind = int(rng.integers(5))
    if kind in (0, 4):
        number = int(rng.integers(len(ROWS)))
        given = ROWS[number](rng, X)
        what.append(f"rows {number}")
    if kind in (1, 4):
        number = int(rng.integers(len(LABELS)))
        y = LABELS[number](rng, y)
        what.append(f"labels {number}")
    if kind == 2:
        name = str(rng.choice(sorted(estimator.get_params())))
        value = choose(rng, (*NUMBERS, *WORDS))
        estimator.set_params(**{name: value})
        what.append(f"{name}={value!r:.30}")
    if kind == 3:
        indices = choose(rng, INDICES)
        relevance = indices
        name = "pairs" if isinstance(estimator, DMLEig | NuMax) else "triplets"
        keywords = {name: indices}
        if name == "pairs" and rng.random() < 0.8:
            keywords["similar"] = choose(rng, ([1], [1, 0], [0.5], "s", None, [[1]], [True]))
        what.append(f"{name} {indices!r:.40}")
    arguments = (given, y)
    if isinstance(estimator, RelevanceMetric | QueryAdapter):
        arguments, keywords = (given, documents, relevance), {}
    elif isinstance(
        estimator, MaxMarginMatrixFactorization | MaximumVarianceUnfolding | FrobMetricCV
    ):
        keywords = {}
    if isinstance(estimator, MaxMarginMatrixFactorization) and given is X:
        arguments = (np.round(X),)
    text = f"{type(estimator).__name__}, {getattr(estimator, 'loss', '')}: {'; '.join(what)}"
    return text, estimator, arguments, keywords


def fit_and_use(estimator, arguments, keywords):
    """Fit, and use what was learned; True where all of it is finite."""
    fitted = estimator.fit(*arguments, **keywords)
    names = ("components_", "embedding_", "row_factors_", "column_factors_")
    parts = [np.asarray(getattr(fitted, name)) for name in names if hasattr(fitted, name)]
    if hasattr(fitted, "transform") and not isinstance(fitted, MaximumVarianceUnfolding):
        parts.append(np.asarray(fitted.transform(arguments[0])))
    return bool(parts) and all(np.isfinite(part).all() for part in parts)


def attempt(number):
    """Input number ``number``."""
    what, estimator, arguments, keywords = draw(np.random.default_rng(number))
    seconds, faults = 0.0, ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            with limited(PATIENCE):
                finite, seconds = timed(fit_and_use, estimator, arguments, keywords)
            ended = f"{estimator.certificate_.status}"
            if not finite:
                faults = ("what is stored is not finite",)
        except (ValueError, TypeError, NotFittedError) as error:
            ended = "refused"
            text = str(error)
            if not text.strip() or (FOREIGN.search(text) and not words_of_sklearn(text)):
                faults = (f"{type(error).__name__}: {text[:160]}",)
        except TooSlow as error:
            ended, faults = "slow", (str(error),)
        except Exception as error:
            ended, faults = type(error).__name__, (f"{type(error).__name__}: {error}"[:200],)
    return Outcome(number, what, ended, seconds, faults=faults)


def words_of_sklearn(text):
    return "Expected 2D array" in text or "parameter of" in text
