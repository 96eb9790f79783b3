"""What a metric is learned from: labels, triplets or pairs, validated."""

import hashlib
from numbers import Integral

import numpy as np

from ..constraints import in_blocks, in_memory
from ..constraints.in_blocks import is_dask
from ..constraints.in_memory import ConstraintsInMemory
from ..core.arrays import like, namespace, to_numpy
from ..core.sklearn_private import Interval, StrOptions
from ..core.warn import warn_user
from ..core.weights import check_range, check_weights, class_factors
from ..neighbours import neighbours_by_label, precomputed_neighbours, sample_rows, sample_size
from .base import MahalanobisMetric
from .tuples import NAMES, look_up, n_in_tuple, unfold

TRIPLET_PARAMETERS = {
    "preprocessor": ["array-like", callable, None],
    "n_targets": [Interval(Integral, 1, None, closed="left")],
    "n_impostors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "neighbors": [StrOptions({"auto", "exact", "approximate"})],
    "class_weight": [StrOptions({"balanced"}), dict, None],
}
REFERENCE_PARAMETERS = {
    "n_references": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
}
_TUPLES_AND_TRIPLETS = "Got tuples and triplets; give X as rows with triplets."
_PAIRS_WITHOUT_Y = "Pairs of points need y: +1 for similar pairs, -1 for the others."
_PAIRS_WITHOUT_SIMILAR = "Got pairs without similar; give True for each pair of similar points."
# parameters that a checkpoint may be resumed with other values of
_MAY_CHANGE = ("verbose", "tol", "max_iter", "n_components")


def _weighted(index, sample_weight, kind, X):
    """(constraints of positive weight, their weights or None, their positions)"""
    if sample_weight is None:
        return index, None, slice(None)
    weights = check_weights(sample_weight, len(index), kind)
    check_range(weights, X.dtype)
    there = like(np.flatnonzero(weights), X, namespace(X).int64)
    return index[there], like(weights, X)[there], there


class SupervisedMetric(MahalanobisMetric):
    """Base of the estimators that learn from labels, or from constraints instead."""

    _takes_sparse = True
    _takes_dask = False
    _instead_of_labels = ", or constraints by keyword (triplets)"
    _learns_from_quantities = True
    n_references: int | str | None = None

    def _unfold(self, X, widths):
        """(points, tuples of their row numbers), or (rows, None) if X holds no tuples."""
        self._n_in_tuple = n_in_tuple(X, self.preprocessor)
        if self._n_in_tuple is None:
            return look_up(X, self.preprocessor), None
        if self._n_in_tuple not in widths:
            wanted = " or ".join(f"{NAMES[k]} (m, {k}, n_features)" for k in widths)
            raise ValueError(
                f"X holds {self._n_in_tuple} points in each of its tuples; "
                f"{type(self).__name__} learns from {wanted}, or from rows."
            )
        return unfold(X, self.preprocessor)

    def _validate_rows(self, X, y, sample_weight, all_rows, continuous):
        """(points, their y, their weights or None, their row numbers or None if all rows are
        taken): rows of weight zero are left out.
        """
        weights = check_weights(sample_weight, len(X), "rows of X")
        if self.class_weight is not None:
            if continuous:
                self._refuse_class_weight()
            labelled = in_memory.encode_labels(y) >= 0
            factors = class_factors(self.class_weight, y[labelled], weights[labelled])
            weights[labelled] *= factors
        check_range(weights, X.dtype, "sample_weight, times class_weight,")
        if sample_weight is None and self.class_weight is None:
            return X, y, None, None
        there = np.flatnonzero(weights)
        if all_rows or len(there) == len(X):
            return X, y, like(weights, X), None
        rows = like(there, X, namespace(X).int64)
        return X[rows], y[there], like(weights[there], X), rows

    def _require_labels(self, y):
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                f"give labels y{self._instead_of_labels}."
            )

    def _refuse_class_weight(self):
        if self.class_weight is not None:
            raise ValueError(
                f"class_weight={self.class_weight!r} goes with class labels y; use None, and "
                "sample_weight to weigh constraints."
            )

    def _check_neighbors(self, neighbors, there_are_labels):
        """Refuse the user's neighbours without labels."""
        self.neighbor_recall_ = None
        if neighbors is not None and not there_are_labels:
            raise ValueError("Got neighbors; they go only with rows X and class labels y.")

    def _is_continuous(self, y, target):
        """Whether y is a quantity: refused if no metric is learned from one, with a warning
        if whole numbers are taken for one.
        """
        if not self._learns_from_quantities:
            self._refuse_continuous(y, target)
            return False
        continuous = in_memory.is_continuous(y, target)
        if continuous and target == "auto" and (y == np.round(y)).all():
            warn_user(
                f"y has {len(np.unique(y))} whole numbers in {len(y)} rows, too many to be "
                f"classes; {type(self).__name__} takes them for a quantity: rows near in y should "
                "be near in the metric. Give target='continuous' or target='classes' to fit.",
                UserWarning,
            )
        return continuous

    def _neighbours(self, X, y, given=None):
        """Targets and impostors of every point, given by the user or found by a search."""
        if given is None:
            count = sample_size(self.n_references, len(y), partitioned=False)
            references = None  # all rows
            if count is not None:
                references = sample_rows(y, count, self.n_targets, self.random_state)
            wanted = self.n_targets, self.n_impostors, self.neighbors, self.random_state
            found = neighbours_by_label(X, y, *wanted, references)
        else:
            found = precomputed_neighbours(given, X, y, self.n_targets, self.n_impostors)
        self.neighbor_recall_ = found.recall
        return found.targets, found.impostors

    def _validate_triplets(
        self, X, y, triplets, neighbors=None, sample_weight=None, target="auto", checkpoint=None
    ):
        """Points and their triplets, given by the user or, by the papers' rule, from labels; y
        is ignored with triplets, since later steps of a pipeline may need it.
        """
        if is_dask(X) and self._takes_dask:
            width = self._width_in_blocks(X, (3, 4), neighbors)
            found = self._triplets_in_blocks(X, y, triplets, width, sample_weight, target)
            return self._keep_blocks(X, found, checkpoint)
        _refuse_checkpoint(checkpoint)
        X, given = self._unfold(X, (3, 4))
        self._check_neighbors(neighbors, y is not None and given is None and triplets is None)
        if given is not None and triplets is not None:
            raise ValueError(_TUPLES_AND_TRIPLETS)
        if given is None and triplets is None:
            return self._from_labels(X, y, neighbors, sample_weight, target)
        self._refuse_class_weight()
        X = self._validate_X(X, reset=True, min_samples=3 if given is None else 1)
        self._check_n_components()
        if given is None:
            given = in_memory.check_triplets(triplets, len(X))
        given = like(given, X, namespace(X).int64)
        return ConstraintsInMemory(X, *_weighted(given, sample_weight, "triplets", X)[:2])

    def _from_labels(self, X, y, neighbors, sample_weight, target, pairs=False):
        self._require_labels(y)
        X, y = self._validate_X_and_y(X, y)
        self._check_n_components()
        continuous = self._is_continuous(y, target)
        self._check_neighbors(neighbors, not continuous)
        X, y, weights, rows = self._validate_rows(
            X, y, sample_weight, neighbors is not None, continuous
        )
        labels = similar = None
        if continuous:
            found = in_memory.triplets_from_values(X, y, self.n_targets, self.n_impostors)
        else:
            labels = in_memory.check_labels(y, self.n_targets)
            lists = self._neighbours(X, labels, neighbors)
            if pairs:
                found, similar = in_memory.pairs_from_neighbours(*lists)
            else:
                found = in_memory.triplets_from_neighbours(*lists)
        if weights is None:
            return ConstraintsInMemory(X, found, None, similar, labels, None, rows)
        found, own_weights, there = _weighted(found, weights[found[:, 0]], "constraints", X)
        similar = similar if similar is None else similar[there]
        return ConstraintsInMemory(X, found, own_weights, similar, labels, weights, rows)

    def _validate_pairs(
        self,
        X,
        y,
        pairs,
        similar,
        neighbors=None,
        sample_weight=None,
        target="auto",
        checkpoint=None,
    ):
        """Points, their pairs and which are similar, given by the user or, by the papers'
        rule, from labels.
        """
        if is_dask(X) and self._takes_dask:
            width = self._width_in_blocks(X, (2,), neighbors)
            found = self._pairs_in_blocks(X, y, pairs, similar, width, sample_weight, target)
            return self._keep_blocks(X, found, checkpoint)
        _refuse_checkpoint(checkpoint)
        X, given = self._unfold(X, (2,))
        self._check_neighbors(neighbors, y is not None and given is None and pairs is None)
        if given is not None:
            if pairs is not None or similar is not None:
                raise ValueError("Got tuples and pairs; give X as rows with pairs and similar.")
            if y is None:
                raise ValueError(_PAIRS_WITHOUT_Y)
            y, pairs, similar = None, given, y
        if pairs is None:
            if similar is not None:
                raise ValueError("Got similar without pairs; give both, or labels y.")
            return self._from_labels(X, y, neighbors, sample_weight, target, pairs=True)
        if similar is None:
            raise ValueError(_PAIRS_WITHOUT_SIMILAR)
        self._refuse_class_weight()
        X = self._validate_X(X, reset=True, min_samples=2)
        self._check_n_components()
        found = like(in_memory.check_pairs(pairs, len(X)), X, namespace(X).int64)
        mask = like(in_memory.check_similar(similar, len(found)), X, namespace(X).bool)
        found, weights, there = _weighted(found, sample_weight, "pairs", X)
        mask = mask[there]
        if bool(mask.all()) or not bool(mask.any()):
            raise ValueError(
                f"similar calls {int(mask.sum())} of {len(mask)} pairs similar; give pairs of "
                "both kinds."
            )
        return ConstraintsInMemory(X, found, weights, mask)

    # ---- dask collections

    def _triplets_in_blocks(self, X, y, triplets, width, sample_weight, target):
        if width is None and triplets is None:
            return self._labels_in_blocks(X, y, sample_weight, target)
        if width is not None and triplets is not None:
            raise ValueError(_TUPLES_AND_TRIPLETS)
        self._refuse_class_weight()
        if width is None:
            return in_blocks.from_numbers(in_blocks.read(X), triplets, weights=sample_weight)
        return in_blocks.from_tuples(in_blocks.read(X, weights=sample_weight), width)

    def _pairs_in_blocks(self, X, y, pairs, similar, width, sample_weight, target):
        if width is None and pairs is None:
            return self._labels_in_blocks(X, y, sample_weight, target, pairs=True)
        if width is not None and (y is None or pairs is not None):
            raise ValueError(_PAIRS_WITHOUT_Y)
        if width is None and similar is None:
            raise ValueError(_PAIRS_WITHOUT_SIMILAR)
        self._refuse_class_weight()
        if width is None:
            return in_blocks.from_numbers(in_blocks.read(X), pairs, similar, sample_weight)
        return in_blocks.from_tuples(in_blocks.read(X, y, sample_weight, labelled=False), width)

    def _labels_in_blocks(self, X, y, sample_weight, target, pairs=False):
        self._require_labels(y)
        rows = in_blocks.read(X, y, sample_weight)
        name = f"{type(self).__name__} from dask collections"
        assert rows.classes is not None and rows.class_counts is not None
        in_memory.refuse_continuous(rows.classes, rows.class_counts.sum(0), target, name)
        self.neighbor_recall_ = 1.0  # among all rows, or among the references
        counts = self.n_targets, self.n_impostors, self.n_references
        return in_blocks.from_labels(rows, *counts, self.random_state, pairs, self.class_weight)

    def _require_for_dask(self, X, **usual):
        """Refuse dask collections unless these parameters have these values."""
        for name, value in usual.items():
            if is_dask(X) and getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} does not go with dask collections; give "
                    f"{name}={value!r}, or X in memory."
                )

    def _width_in_blocks(self, X, widths, neighbors):
        """The number of points in a tuple; None for rows."""
        self.neighbor_recall_ = None
        if neighbors is not None:
            raise ValueError(
                "Got neighbors; with dask collections give triplets or pairs of row numbers."
            )
        if self.preprocessor is not None:
            raise ValueError(
                "a preprocessor does not go with dask collections; give the points themselves, "
                "or rows with triplets of their numbers."
            )
        self._n_in_tuple = X.shape[1] if X.ndim == 3 else None
        if self._n_in_tuple not in (None, *widths):
            raise ValueError(
                f"X holds {self._n_in_tuple} points in each of its tuples; "
                f"{type(self).__name__} learns from {' or '.join(map(str, widths))}."
            )
        return self._n_in_tuple

    def _keep_blocks(self, X, found, checkpoint):
        """Set the attributes of a fit in blocks, which keeps no lists of constraints, and
        where to save its states.
        """
        lists = ("triplets_", "pairs_", "similar_", "multipliers_", "feature_names_in_")
        for name in lists:
            if hasattr(self, name):  # of an earlier fit
                delattr(self, name)
        self.n_features_in_ = found.rows.n_features
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self._check_n_components()
        if checkpoint is not None:
            label = {
                "estimator": type(self).__name__,
                "features": found.rows.n_features,
                "dtype": str(found.rows.dtype),
                "constraints of each block": found.space.gather(len, found.index),
                **{
                    name: _as_json(value)
                    for name, value in self.get_params().items()
                    if name not in _MAY_CHANGE
                },
            }
            found.space.keep_in(checkpoint, label)
        return found


def _as_json(value):
    """A parameter as a JSON value, the same in every process."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "shape"):
        array = to_numpy(value)
        return f"array {array.shape}, sha256 {hashlib.sha256(array.tobytes()).hexdigest()}"
    return value if isinstance(value, str | float | int | None) else repr(value)


def _refuse_checkpoint(checkpoint):
    if checkpoint is not None:
        raise ValueError(
            f"checkpoint={checkpoint!r} goes with dask collections; give X as one, or "
            "checkpoint=None."
        )
