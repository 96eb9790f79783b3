"""NuMax: near-isometric linear embeddings of minimum rank (Hegde et al. 2015)."""

from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, Self

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ...constraints.in_memory import check_pairs, check_similar
from ...constraints.labels import encode_labels, refuse_continuous
from ...core.arrays import on_device
from ...core.atomic import atomic_fit
from ...core.progress import all_or_nothing
from ...core.sklearn_private import Interval
from ...core.warn import warn_user
from ...engine.certificate import Certificate, Status
from ...engine.operators.span import Coordinates, in_span
from ...engine.solver import SolveResult
from ...estimators.base import SOLVER_PARAMETERS, MahalanobisMetric, Seed
from ...estimators.validation import (
    ascending,
    dense,
    rows_coincide,
    validate_labelled_points,
    validate_points,
)
from .program import SecantIsometryProgram
from .secant_generation import SecantGeneration, Start
from .secants import DUPLICATE, AllSecants, ListedSecants, Secants

# secants to begin with and to add in a round: small where factorisations are slow
BATCH_ON_CPU = 1000
BATCH_ON_GPU = 4000
# with larger ones the lower bounds 1 - delta are so loose that ranks hardly fall and solves are slow
LARGEST_DELTA = 0.9
DELTA_STEPS = 8  # halvings of the interval in which the smallest delta of a given rank lies


class Solution(NamedTuple):
    """The problem at one delta, and its solution."""

    problem: SecantIsometryProgram
    result: SolveResult

    @property
    def rank(self) -> int:
        return self.result.primal_point.shape[1]

    @property
    def point(self) -> Start:
        """The point from which a solve at another delta can start."""
        return self.result.primal_point, self.result.dual_point


@dataclass(eq=False, repr=False)
class NuMax(MahalanobisMetric):
    """Linear embedding of low rank that preserves all pairwise distances up to a factor.

    Solves, over positive semidefinite P and all unit secants v = (x_a - x_b) / ||x_a -
    x_b|| of the rows of X, ::

        min Tr P    s.t.  1 - delta <= v' P v <= 1 + delta

    by column generation: a few thousand secants at a time, until a scan of all n(n-1)/2 of
    them in float64 finds none outside its bounds by more than ``tol * delta``.
    ``certificate_`` proves that, and how far Tr P is from the optimum.

    Parameters
    ----------
    delta : float, default=0.1
        Distortion of squared distances allowed, between 0 and 1.
    n_components : int, default=None
        Find the smallest delta (to 1/256) whose embedding has at most this rank, instead of
        using ``delta``. If even delta = 0.9 needs a higher rank, there is a warning.
    class_aware : bool, default=False
        Use labels: distances within a class may shrink, those between classes may grow
        (the paper's NuMax-Class).
    tol : float, default=1e-3
        Largest certified relative gap, and largest violation in units of delta.
    max_iter : int, default=200
        Rounds of column generation.
    random_state : int, RandomState or None, default=None
        For the first secants and some of those added; None draws the same ones every time.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        The embedding: ``transform(X) = X @ components_.T``.
    certificate_ : Certificate
        Tr P, proven lower bound on the optimum, worst violation over every secant in
        units of delta, status.
    delta_ : float
        The distortion the embedding was made for.
    active_pairs_ : integer array (k, 2)
        Pairs whose secants were active in the last round.
    multipliers_ : array (k,)
        Their multipliers: positive at the lower bound, negative at the upper one.
    n_near_duplicates_ : int
        Pairs without a secant, ||x_a - x_b||^2 <= 1e-10 max_i ||x_i - mean||^2: nothing
        is claimed about their distances.
    objective_, n_iter_, history_

    References
    ----------
    Hegde, Sankaranarayanan, Yin & Baraniuk, "NuMax: A Convex Approach for Learning
    Near-Isometric Linear Embeddings", IEEE Transactions on Signal Processing 63(22),
    2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from conemetric import NuMax
    >>> X = load_digits().data[:60]
    >>> embedding = NuMax(delta=0.2).fit(X)
    >>> bool(embedding.certificate_.violation <= 1e-3)
    True
    >>> embedding.components_.shape[0] < X.shape[1]
    True
    """

    delta: float = 0.1
    _: KW_ONLY
    n_components: int | None = None
    class_aware: bool = False
    tol: float = 1e-3
    max_iter: int = 200
    random_state: Seed = None
    verbose: int = 0

    _takes_sparse = True
    _remedy = "a smaller delta"
    _parameter_constraints = {
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "class_aware": ["boolean"],
        **SOLVER_PARAMETERS,
        "tol": [Interval(Real, 0, 0.5, closed="neither")],
    }

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, *, pairs: Any = None, similar: Any = None, target: str = "auto"
    ) -> Self:
        """Learn the embedding from all pairs of rows, or from the pairs given.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        y : array-like (n,), default=None
            Class labels; needed, and used, only when ``class_aware``.
        pairs : integer array-like (m, 2), default=None
            Keep the distances of these pairs only.
        similar : boolean array-like (m,), default=None
            With ``class_aware`` and ``pairs``, instead of y: which pairs are within a class.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; where y is used, a quantity is refused.

        Returns
        -------
        self
        """
        span, secants = self._secants(X, y, pairs, similar, target)
        if self.n_components is None:
            return self._finish(self._solve(span, secants, self.delta))
        return self._finish(self._smallest_delta(span, secants, self.n_components))

    def _check_similar(self, y: Any, pairs: Any) -> None:
        """Raise if ``similar`` was given where it says nothing, or something twice."""
        if pairs is None:
            raise ValueError(
                "Got similar without pairs; pass the pairs it belongs to, or labels y."
            )
        if not self.class_aware:
            raise ValueError("similar needs class_aware=True; set it, or leave similar out.")
        if y is not None:
            raise ValueError("Got both y and similar; pass one of them to tell classes.")

    def _secants(
        self, X: Any, y: Any, pairs: Any, similar: Any, target: str
    ) -> tuple[Coordinates, Secants]:
        """Return the points in the span of their differences, where the optimum lies, and all their
        secants.
        """
        if similar is not None:
            self._check_similar(y, pairs)
        classes = None
        if self.class_aware and similar is None:
            X, classes = self._validate_classes(X, y, target)
        else:
            X = validate_points(self, X, reset=True, min_samples=2)
        self._check_n_components()
        nothing_to_keep = ValueError(
            "X has no two distinct points among the pairs to keep; pass at least two rows that differ."
        )
        if rows_coincide(X):
            raise nothing_to_keep
        if X.shape[0] > X.shape[1]:  # of which `in_span` keeps sparse rows sparse
            X = dense(self, X)
        span = in_span(X, at_most=1.0)
        if pairs is None:
            secants: Secants = AllSecants(span.points, classes, X.dtype)
        else:
            pairs = check_pairs(pairs, len(X))
            if classes is not None:
                similar = classes[pairs[:, 0]] == classes[pairs[:, 1]]
            elif similar is not None:
                similar = check_similar(similar, len(pairs))
            secants = ListedSecants(span.points, pairs, similar, X.dtype)
        if secants.empty:
            raise nothing_to_keep
        return span, secants

    def _validate_classes(self, X: Any, y: Any, target: str) -> tuple[Any, Any]:
        """Return X, and labels encoded as integers."""
        if y is None:
            raise ValueError("class_aware=True requires y; pass labels, or pairs and similar.")
        X, y = validate_labelled_points(self, X, y)
        refuse_continuous(y, target, "NuMax")
        codes = encode_labels(y)
        if (codes < 0).any():
            raise ValueError(
                f"{int((codes < 0).sum())} of {len(y)} rows have the label -1, which means "
                "unlabelled; drop them, or set class_aware=False."
            )
        if codes.max() == 0:
            raise ValueError(f"y has 1 class, {y.tolist()[0]!r}; pass two, or class_aware=False.")
        return X, codes

    def _solve(
        self, span: Coordinates, secants: Secants, delta: float, start: Start = None
    ) -> Solution:
        """Return the problem and its solution at one delta."""
        batch = BATCH_ON_GPU if on_device(secants.X) else BATCH_ON_CPU
        seed = 0
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(2**31)
        solver = SecantGeneration(self.tol, self.max_iter, first=batch, add=batch, seed=seed)
        problem = SecantIsometryProgram(secants, delta)
        keep = self._keep(secants.reference, span)
        return Solution(problem, self._run(solver, problem, start=start, keep=keep))

    def _smallest_delta(self, span: Coordinates, secants: Secants, largest_rank: int) -> Solution:
        """Return the solution at the smallest delta of this rank or less, by bisection."""
        low = 0.0
        high = LARGEST_DELTA
        best: Solution | None = None
        for _ in range(DELTA_STEPS):
            middle = (low + high) / 2
            start = None if best is None else best.point
            try:
                # the rank of an interrupted solution tells nothing about its delta
                with all_or_nothing():
                    trial = self._solve(span, secants, middle, start)
                    # only now solve the other end, which is slow
                    if best is None and trial.rank > largest_rank:
                        best = self._solve(span, secants, high, trial.point)
            except KeyboardInterrupt:
                if best is None:
                    raise
                return _interrupted(best)
            if best is not None and best.rank > largest_rank:
                return self._cut_short(best)
            if trial.rank <= largest_rank:
                best = trial
                high = middle
            else:
                low = middle
        assert best is not None  # the first trial or the other end
        return best

    def _cut_short(self, solution: Solution) -> Solution:
        """Return the leading directions of a solution of too high a rank, with their own
        certificate.
        """
        problem, result = solution
        factor = result.primal_point[:, : self.n_components]
        bounds = problem.certify(factor, result.dual_point)
        warn_user(
            f"n_components={self.n_components} is below the rank {solution.rank} that "
            f"even delta={LARGEST_DELTA} needs for these points; its leading directions are "
            f"returned and miss the bounds by {bounds.violation:.2g} delta. Raise n_components.",
            ConvergenceWarning,
        )
        certificate = Certificate.from_bounds(bounds, Status.STALLED)
        kept = result.kept[:, : self.n_components]
        cut = replace(result, primal_point=factor, kept=kept, certificate=certificate)
        return Solution(problem, cut)

    def _finish(self, solution: Solution) -> Self:
        """Store a solution, and warn of pairs without a secant."""
        problem, result = solution
        self.delta_ = problem.delta
        self.n_near_duplicates_ = int(result.history["near_duplicates"].max())
        if self.n_near_duplicates_:
            warn_user(
                f"{self.n_near_duplicates_} pairs of rows coincide (squared distance at most "
                f"{DUPLICATE:g} of the largest squared distance from the mean) and have no "
                "secant; the embedding preserves all other pairs."
            )
        keys, self.multipliers_ = result.dual_point
        secants = problem.secants
        self.active_pairs_ = secants.xp.stack(secants.ends(keys), 1)
        return self._store(problem, result, Coordinates(secants.X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.class_aware
        return tags


def _interrupted(best: Solution) -> Solution:
    """Return the best solution that a search found before Ctrl-C, and warn."""
    problem, result = best
    warn_user(
        "Ctrl-C ended the search for the smallest delta; "
        f"delta={problem.delta:.3g} is the smallest found.",
        ConvergenceWarning,
    )
    interrupted = replace(result.certificate, status=Status.INTERRUPTED)
    return Solution(problem, replace(result, certificate=interrupted))


def numax_path(
    X: Any,
    y: Any = None,
    *,
    pairs: Any = None,
    similar: Any = None,
    target: str = "auto",
    deltas: Any,
    **parameters: Any,
) -> list[NuMax]:
    """Fit `NuMax` for descending delta, each from the solution of the one before.

    Parameters
    ----------
    X, y, pairs, similar, target
        As for `NuMax.fit`.
    deltas : array-like of floats
        Distortions, strictly between 0 and 1.
    **parameters
        Other parameters of `NuMax`.

    Returns
    -------
    list of NuMax
        One fitted estimator per delta, in descending order; Ctrl-C ends the list with the
        last one solved.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from conemetric import numax_path
    >>> path = numax_path(load_digits().data[:50], deltas=[0.2, 0.5])
    >>> [metric.delta_ for metric in path]
    [0.5, 0.2]
    >>> len(path[0].components_) <= len(path[1].components_)
    True
    """
    falling = ascending("deltas", deltas, below=1.0)[::-1]
    if "delta" in parameters:
        raise TypeError("numax_path takes deltas, a list, and not delta; pass deltas alone.")
    first = NuMax(**parameters)
    first._validate_params()
    span, secants = first._secants(X, y, pairs, similar, target)
    path: list[NuMax] = []
    start: Start = None
    for delta in falling.tolist():
        metric = copy(first).set_params(delta=delta)
        try:
            with all_or_nothing():  # an unfinished embedding keeps no distances
                solution = metric._solve(span, secants, delta, start)
        except KeyboardInterrupt:
            if not path:
                raise
            break
        start = solution.point
        path.append(metric._finish(solution))
    return path
