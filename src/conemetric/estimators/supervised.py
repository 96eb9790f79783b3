"""What a metric is learned from: labels, triplets or pairs, as validated constraints."""

import hashlib
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..blocks import constraints as in_blocks
from ..blocks import labels as block_labels
from ..blocks.constraints import ConstraintsInBlocks
from ..blocks.rows import read
from ..constraints import in_memory
from ..constraints.constraints import Constraints
from ..constraints.labels import (
    LOWER_TARGETS,
    check_labels,
    encode_labels,
    is_continuous,
    refuse_continuous,
)
from ..core.arrays import is_dask, like, namespace, to_numpy
from ..core.sklearn_private import Interval, StrOptions
from ..core.weights import check_range, check_weights, class_factors
from ..neighbours.precomputed import precomputed_neighbours
from ..neighbours.search import neighbours_by_label, sample_rows, sample_size
from .base import SOLVER_PARAMETERS, MahalanobisMetric, Seed
from .checks import WEIGHTS, because
from .fit_warnings import warn_if_guessed, warn_if_unscaled
from .kernel_coordinates import KERNEL_PARAMETER, coordinates_for, fitted_coordinates
from .tuples import NAMES, TUPLES, look_up, n_in_tuple, unfold
from .validation import refuse_dask, validate_labelled_points, validate_points

PAIRS_WITHOUT_Y = "Pairs of points need y: +1 for similar pairs, -1 for the others."


class Supervision(NamedTuple):
    """What `fit` is given: rows X with labels or numbers y; or rows with ``index``, pairs, triplets
    or quadruplets of their numbers; or tuples of points X, with y if they are pairs.
    """

    X: Any
    y: Any = None
    index: Any = None
    similar: Any = None
    neighbors: Any = None
    sample_weight: Any = None
    target: str = "auto"


@dataclass(eq=False, repr=False)
class SupervisedMetric(MahalanobisMetric):
    """Base of the estimators that learn from labels, or from constraints instead.

    With a ``kernel`` everything after the validation of X, from the search for neighbours to the
    certificate, sees the kernel's coordinates of the rows in place of the rows (`_in_coordinates`).
    """

    _: KW_ONLY
    kernel: Any = None
    n_targets: int = 3
    n_impostors: int | str = 3
    n_references: int | str | None = "auto"
    class_weight: dict | str | None = None
    n_components: int | None = None
    preprocessor: Any = None
    tol: float = 1e-3
    max_iter: int = 1000
    random_state: Seed = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        "n_targets": [Interval(Integral, 1, None, closed="left")],
        "n_impostors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_references": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        **KERNEL_PARAMETER,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "preprocessor": ["array-like", callable, None],
        **SOLVER_PARAMETERS,
    }
    _expected_failed_checks = because(
        f"a repeated row is a target of its other copies, which its weight does not make it; {TUPLES}",
        WEIGHTS,
    )
    # blocks keep no lists of constraints
    _of_some_fits = ("triplets_", "pairs_", "similar_", "multipliers_")
    _takes_sparse = True
    _takes_dask = False
    _dask_needs: ClassVar[dict[str, tuple]] = {}  # parameters, and their values that blocks support
    _depends_on_scales = True  # of the columns
    _widths: ClassVar[tuple[int, ...]] = (3, 4)  # points in the tuples it learns from
    _learns_from_quantities = True

    def _constraints(self, given: Supervision, checkpoint: str | None = None) -> Constraints:
        """Points and constraints among them, given or, by the papers' rule, from labels; y is
        ignored with triplets, since later steps of a pipeline may need it.
        """
        width = self._check_kind(given, checkpoint)
        columns_of = given.X
        if is_dask(given.X) and self.kernel is not None:
            given = given._replace(X=self._dask_in_coordinates(given.X, width))
        if width is None and given.index is None:
            found: Any = self._from_labels(given)
        else:
            found = self._from_index(given)
        self._n_in_tuple = width
        self.n_references_ = found.n_references
        if isinstance(found, ConstraintsInBlocks):
            self._store_input(columns_of, found, checkpoint)
        elif self._depends_on_scales and self.kernel is None:
            warn_if_unscaled(self, found.points)
        return found

    def _in_coordinates(self, X):
        """Validated points, or the coordinates of the kernel in their place."""
        if self.kernel is not None:
            warn_if_unscaled(self, X)
            self.kernel_coordinates_ = fitted_coordinates(self.kernel, X, self.random_state)
            X = self.kernel_coordinates_._mapped(X, warn=False)
        self._check_n_components(X.shape[1])
        return X

    def _dask_in_coordinates(self, X, width):
        """The same of a dask collection, whose landmarks come from a sample of its rows."""
        if width is not None:
            raise ValueError(
                f"kernel={self.kernel!r} is not supported with tuples in dask collections; pass X as "
                "rows, with pairs or triplets of their numbers."
            )
        self.kernel_coordinates_ = coordinates_for(self.kernel, self.random_state).fit(X)
        return self.kernel_coordinates_.transform(X)

    @property
    def _takes_pairs(self) -> bool:
        """Whether it learns from pairs rather than from triplets."""
        return 2 in self._widths

    @property
    def _keywords(self) -> str:
        """The arguments of ``fit`` that give constraints."""
        if self._takes_pairs:
            return "pairs and similar"
        return "triplets"

    def _check_kind(self, given: Supervision, checkpoint: str | None) -> int | None:
        """The number of points in the tuples of X; None for rows."""
        if is_dask(given.X):
            self._check_dask(given)
        elif checkpoint is not None:
            raise ValueError(f"checkpoint={checkpoint!r} is supported with dask collections only.")
        width = n_in_tuple(given.X, self.preprocessor)
        if width is not None:
            self._check_tuples(given, width)
        if self._takes_pairs:
            refuse_halves(given.index, given.similar, "pass both, or labels y")
        of_rows = width is None and given.index is None
        if not of_rows or given.y is None:
            self._refuse_without_classes(given)
        if of_rows and given.y is None:
            instead = ""
            if self._widths:
                instead = f", or constraints by keyword ({self._keywords})"
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; pass "
                f"labels y{instead}."
            )
        return width

    def _check_tuples(self, given: Supervision, width: int) -> None:
        """Refuse tuples of points that it does not learn from, or with what does not go with them."""
        if width not in self._widths:
            wanted = [f"{NAMES[k]} (m, {k}, n_features)" for k in self._widths]
            raise ValueError(
                f"X holds {width} points per tuple; {type(self).__name__} learns from "
                f"{' or '.join(wanted)}, or from rows."
            )
        if given.index is not None or given.similar is not None:
            raise ValueError(
                f"Got tuples and {self._keywords}; pass X as rows with {self._keywords}."
            )
        if width == 2 and given.y is None:
            raise ValueError(PAIRS_WITHOUT_Y)

    def _check_dask(self, given: Supervision) -> None:
        """Refuse what does not go with dask collections."""
        if not self._takes_dask:
            refuse_dask(self, given.X)
        if self.preprocessor is not None:
            raise ValueError(
                "a preprocessor is not supported with dask collections; pass the points."
            )
        for name, usable in self._dask_needs.items():
            if getattr(self, name) not in usable:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is not supported with dask collections; pass "
                    f"{name}={' or '.join(map(repr, usable))}, or X in memory."
                )
        if given.neighbors is not None:
            raise ValueError("Got neighbors; with dask collections pass triplets or pairs instead.")

    def _refuse_without_classes(self, given: Supervision) -> None:
        """Refuse what goes with class labels only."""
        if given.neighbors is not None:
            raise ValueError("Got neighbors; they go only with rows X and class labels y.")
        if self.class_weight is not None:
            raise ValueError(
                f"class_weight={self.class_weight!r} goes with class labels y; use None, and "
                "sample_weight to weigh constraints."
            )

    def _from_index(self, given: Supervision) -> Constraints:
        """Pairs or triplets of rows of X by number, or of the points of the tuples X."""
        in_tuples = given.index is None
        similar = given.similar
        if in_tuples and self._takes_pairs:
            similar = given.y
        if is_dask(given.X):
            return self._from_index_in_blocks(given, similar)
        if in_tuples:
            X, index = unfold(given.X, self.preprocessor)
        else:
            X = look_up(given.X, self.preprocessor)
            index = given.index
        X = validate_points(self, X, reset=True, min_samples=self._fewest_points(in_tuples))
        X = self._in_coordinates(X)
        if self._takes_pairs:
            index = in_memory.check_pairs(index, len(X))
            similar = like(in_memory.check_similar(similar, len(index)), X, namespace(X).bool)
        elif not in_tuples:
            index = in_memory.check_triplets(index, len(X))
        index = like(index, X, namespace(X).int64)
        found = in_memory.ConstraintsInMemory(X, index, similar=similar)
        found = _weighted(found, given.sample_weight, NAMES[self._widths[0]])
        if self._takes_pairs:
            refuse_one_kind(int(found.similar.sum()), len(found.similar))
        return found

    def _calibrate_by_fit(
        self, supervision: Supervision, given: Any, calibration: dict[str, Any]
    ) -> None:
        """Set the threshold that is best for the pairs that were given; labels have none."""
        if self._n_in_tuple is not None:
            self.calibrate_threshold(supervision.X, supervision.y, **calibration)
        elif supervision.index is not None:
            distance = self._of_columns()._distances(given.points, given.index)
            self._calibrate(distance, given.similar, **calibration)

    def _fewest_points(self, in_tuples: bool) -> int:
        """How many points there must be: those of one constraint, which may coincide in tuples."""
        if in_tuples:
            return 1
        if self._takes_pairs:
            return 2
        return 3

    def _from_index_in_blocks(self, given: Supervision, similar: Any) -> ConstraintsInBlocks:
        """The same of a dask collection."""
        if given.index is None:
            rows = read(given.X, similar, given.sample_weight, labelled=False)
            return in_blocks.from_tuples(rows, given.X.shape[1])
        return in_blocks.from_numbers(read(given.X), given.index, similar, given.sample_weight)

    def _from_labels(self, given: Supervision) -> Constraints:
        """Constraints by the papers' rule, or by its variant for quantities."""
        if is_dask(given.X):
            return self._from_labels_in_blocks(given)
        X, y = validate_labelled_points(self, look_up(given.X, self.preprocessor), given.y)
        continuous = self._is_continuous(y, given.target)
        if continuous:
            self._refuse_without_classes(given)
        X, y, weights, rows = self._weighted_rows(X, y, given)
        X = self._in_coordinates(X)
        if continuous:
            index = in_memory.triplets_from_values(X, y, self.n_targets, self.n_impostors)
            found = in_memory.ConstraintsInMemory(X, index)
        else:
            found = self._from_classes(X, y, given.neighbors)
        found = replace(found, point_weights=weights, rows=rows, from_labels=True)
        if weights is None:
            return found
        return _weighted(found, weights[found.index[:, 0]], "constraints")

    def _from_classes(self, X: Any, y: Any, neighbors: Any) -> in_memory.ConstraintsInMemory:
        """Constraints of every point with its targets and impostors, given or searched for."""
        labels: Any = check_labels(y, self.n_targets, LOWER_TARGETS, self._learns_from_quantities)
        n_references = None
        if neighbors is None:
            lists = self._neighbours(X, labels)
            n_references = self._n_sampled(labels)
        else:
            counts = self.n_targets, self.n_impostors
            lists = precomputed_neighbours(neighbors, X, labels, *counts)
            labels = None  # never searched again
        similar = None
        if self._takes_pairs:
            index, similar = in_memory.pairs_from_neighbours(*lists)
        else:
            index = in_memory.triplets_from_neighbours(*lists)
        return in_memory.ConstraintsInMemory(
            X, index, similar=similar, labels=labels, n_references=n_references
        )

    def _from_labels_in_blocks(self, given: Supervision) -> ConstraintsInBlocks:
        """Constraints from the labels of a dask collection."""
        rows = read(given.X, given.y, given.sample_weight)
        name = f"{type(self).__name__} from dask collections"
        assert rows.classes is not None and rows.class_counts is not None
        refuse_continuous(rows.classes, given.target, name, rows.class_counts.sum(0))
        return block_labels.from_labels(
            rows,
            self.n_targets,
            self.n_impostors,
            self.n_references,
            self.random_state,
            self._takes_pairs,
            self.class_weight,
        )

    def _is_continuous(self, y: np.ndarray, target: str) -> bool:
        """Whether y is a quantity; warns if that had to be guessed from whole numbers."""
        name = type(self).__name__
        if not self._learns_from_quantities:
            refuse_continuous(y, target, name)
            return False
        continuous = is_continuous(y, target)
        if continuous and target == "auto":
            warn_if_guessed(name, y)
        return continuous

    def _weighted_rows(self, X, y, given):
        """(points, their y, their weights or None, their row numbers or None if all rows are
        taken): rows of weight zero are left out, unless neighbours are given by row number.
        """
        weights = check_weights(given.sample_weight, len(X), "rows of X")
        if self.class_weight is not None:
            labelled = encode_labels(y) >= 0
            weights[labelled] *= class_factors(self.class_weight, y[labelled], weights[labelled])
        check_range(weights, X.dtype, "sample_weight, times class_weight,")
        if given.sample_weight is None and self.class_weight is None:
            return X, y, None, None
        there = np.flatnonzero(weights)
        if given.neighbors is not None or len(there) == len(X):
            return X, y, like(weights, X), None
        rows = like(there, X, namespace(X).int64)
        return X[rows], y[there], like(weights[there], X), rows

    def _n_sampled(self, labels: np.ndarray) -> int | None:
        """The number of rows to search among; None: all."""
        return sample_size(self.n_references, len(labels), np.inf)

    def _neighbours(self, X, labels):
        """Targets and impostors of every point."""
        references = None
        n_references = self._n_sampled(labels)
        if n_references is not None:
            references = sample_rows(labels, n_references, self.n_targets, self.random_state)
        return neighbours_by_label(X, labels, self.n_targets, self.n_impostors, references)

    def _store_input(self, X, found, checkpoint):
        """Set the attributes of a fit in blocks."""
        self.n_features_in_ = found.rows.n_features
        if self.kernel is not None:  # then these are coordinates
            self.n_features_in_ = X.shape[1]
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self._check_n_components(found.rows.n_features)
        if checkpoint is not None:
            found.space.keep_in(checkpoint, self._label(found))

    def _label(self, found: ConstraintsInBlocks) -> dict[str, Any]:
        """What a checkpoint is of: a solve resumes only from one with the same label."""
        label = {
            "estimator": type(self).__name__,
            "features": found.rows.n_features,
            "dtype": str(found.rows.dtype),
            "constraints of each block": found.space.gather(len, found.index),
        }
        parameters = self.get_params()
        # it may be resumed with other values of these
        for name in sorted(parameters.keys() - {"verbose", "tol", "max_iter", "n_components"}):
            label[name] = _as_json(parameters[name])
        return label


def refuse_halves(pairs: Any, similar: Any, remedy: str) -> None:
    """Refuse pairs without the mask of the similar ones, or the mask alone."""
    if pairs is None and similar is not None:
        raise ValueError(f"Got similar without pairs; {remedy}.")
    if similar is None and pairs is not None:
        raise ValueError(f"Got pairs without similar; {remedy}.")


def refuse_one_kind(n_similar: int, n_pairs: int) -> None:
    """Refuse pairs that are all similar, or all dissimilar."""
    if n_similar in (0, n_pairs):
        raise ValueError(
            f"similar calls {n_similar} of {n_pairs} pairs similar; pass pairs of both kinds."
        )


def _weighted(
    found: in_memory.ConstraintsInMemory, sample_weight: Any, kind: str
) -> in_memory.ConstraintsInMemory:
    """The constraints of positive weight."""
    if sample_weight is None:
        return found
    points = found.points
    weights = check_weights(sample_weight, len(found.index), kind)
    check_range(weights, points.dtype)
    there = like(np.flatnonzero(weights), points, namespace(points).int64)
    similar = found.similar
    if similar is not None:
        similar = similar[there]
    weights = like(weights, points)[there]
    return replace(found, index=found.index[there], similar=similar, weights=weights)


def _as_json(value):
    """A parameter as a JSON value, the same in every process."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "shape"):
        array = to_numpy(value)
        return f"array {array.shape}, sha256 {hashlib.sha256(array.tobytes()).hexdigest()}"
    if isinstance(value, str | float | int | None):
        return value
    return repr(value)
