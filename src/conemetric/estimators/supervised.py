"""What a metric is learned from: labels, triplets or pairs, validated."""

import hashlib
from numbers import Integral

import numpy as np

from ..constraints import in_blocks, in_memory
from ..constraints.base import Constraints
from ..constraints.block_labels import from_labels
from ..constraints.block_rows import is_dask, read
from ..constraints.in_memory import ConstraintsInMemory
from ..constraints.labels import (
    LOWER_TARGETS,
    check_labels,
    encode_labels,
    is_continuous,
    refuse_continuous,
)
from ..core.arrays import like, namespace, to_numpy
from ..core.sklearn_private import Interval, StrOptions
from ..core.warn import warn_user
from ..core.weights import check_range, check_weights, class_factors
from ..neighbours import (
    neighbours_by_label,
    precomputed_neighbours,
    sample_rows,
    sample_size,
)
from .base import MahalanobisMetric
from .scales import warn_if_unscaled
from .tuples import NAMES, look_up, n_in_tuple, unfold
from .validation import refuse_dask

__all__ = ["REFERENCE_PARAMETERS", "TRIPLET_PARAMETERS", "SupervisedMetric"]

TRIPLET_PARAMETERS = {
    "preprocessor": ["array-like", callable, None],
    "n_targets": [Interval(Integral, 1, None, closed="left")],
    "n_impostors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "class_weight": [StrOptions({"balanced"}), dict, None],
}
REFERENCE_PARAMETERS = {
    "n_references": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
}
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


def _refuse_neighbors(neighbors):
    if neighbors is not None:
        raise ValueError("Got neighbors; they go only with rows X and class labels y.")


class SupervisedMetric(MahalanobisMetric):
    """Base of the estimators that learn from labels, or from constraints instead."""

    _takes_sparse = True
    _takes_dask = False
    _depends_on_scales = True  # of the columns
    _dask_needs: dict[str, tuple] = {}  # parameters, and their values that blocks support
    _instead_of_labels = ", or constraints by keyword (triplets)"
    _learns_from_quantities = True
    n_references: int | str | None = "auto"

    def _validate_triplets(
        self, X, y, triplets, neighbors=None, sample_weight=None, target="auto", checkpoint=None
    ) -> Constraints:
        """Points and their triplets, given by the user or, by the papers' rule, from labels; y
        is ignored with triplets, since later steps of a pipeline may need it.
        """
        in_tuples = self._check_kind(X, (3, 4), neighbors, checkpoint)
        if in_tuples and triplets is not None:
            raise ValueError("Got tuples and triplets; give X as rows with triplets.")
        if in_tuples or triplets is not None:
            found = self._from_constraints(X, triplets, None, neighbors, sample_weight)
        else:
            found = self._from_labels(X, y, neighbors, sample_weight, target)
        return self._prepared(X, found, checkpoint)

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
    ) -> Constraints:
        """Points, their pairs and which are similar, given by the user or, by the papers'
        rule, from labels.
        """
        in_tuples = self._check_kind(X, (2,), neighbors, checkpoint)
        if in_tuples and (pairs is not None or similar is not None):
            raise ValueError("Got tuples and pairs; give X as rows with pairs and similar.")
        if in_tuples and y is None:
            raise ValueError("Pairs of points need y: +1 for similar pairs, -1 for the others.")
        if pairs is None and similar is not None:
            raise ValueError("Got similar without pairs; give both, or labels y.")
        if pairs is not None and similar is None:
            raise ValueError(
                "Got pairs without similar; give True for each pair of similar points."
            )
        if in_tuples or pairs is not None:
            similar = y if in_tuples else similar
            found = self._from_constraints(X, pairs, similar, neighbors, sample_weight)
        else:
            found = self._from_labels(X, y, neighbors, sample_weight, target, pairs=True)
        return self._prepared(X, found, checkpoint)

    def _check_kind(self, X, widths, neighbors, checkpoint):
        """Whether X holds tuples of points; refuse what does not go with its kind."""
        self.n_references_ = None
        if not is_dask(X):
            if checkpoint is not None:
                raise ValueError(
                    f"checkpoint={checkpoint!r} goes with dask collections; give X as one, or "
                    "checkpoint=None."
                )
        elif not self._takes_dask:
            refuse_dask(self, X)
        else:
            self._check_dask(neighbors)
        width = self._n_in_tuple = n_in_tuple(X, self.preprocessor)
        if width not in (None, *widths):
            wanted = " or ".join(f"{NAMES[k]} (m, {k}, n_features)" for k in widths)
            raise ValueError(
                f"X holds {width} points in each of its tuples; {type(self).__name__} learns from "
                f"{wanted}, or from rows."
            )
        return width is not None

    def _check_dask(self, neighbors):
        """Refuse what does not go with dask collections."""
        for name, usable in self._dask_needs.items():
            if getattr(self, name) not in usable:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} does not go with dask collections; give "
                    f"{name}={' or '.join(map(repr, usable))}, or X in memory."
                )
        if neighbors is not None:
            raise ValueError(
                "Got neighbors; with dask collections give triplets or pairs of row numbers."
            )
        if self.preprocessor is not None:
            raise ValueError(
                "a preprocessor does not go with dask collections; give the points themselves, "
                "or rows with triplets of their numbers."
            )

    # ---- constraints given by the user

    def _from_constraints(self, X, index, similar, neighbors, sample_weight):
        """Pairs, if ``similar`` is given, or triplets: rows of X by number, or X itself."""
        _refuse_neighbors(neighbors)
        self._refuse_class_weight()
        if is_dask(X) and index is not None:
            return in_blocks.from_numbers(read(X), index, similar, sample_weight)
        if is_dask(X):
            rows = read(X, similar, sample_weight, labelled=False)
            return in_blocks.from_tuples(rows, X.shape[1])
        in_tuples, fewest = index is None, 3 if similar is None else 2
        X, index = (
            unfold(X, self.preprocessor) if in_tuples else (look_up(X, self.preprocessor), index)
        )
        X = self._validate_X(X, reset=True, min_samples=1 if in_tuples else fewest)
        self._check_n_components()
        if similar is not None:
            index = in_memory.check_pairs(index, len(X))
            similar = like(in_memory.check_similar(similar, len(index)), X, namespace(X).bool)
        elif not in_tuples:
            index = in_memory.check_triplets(index, len(X))
        index, kind = like(index, X, namespace(X).int64), NAMES[2 if similar is not None else 3]
        index, weights, there = _weighted(index, sample_weight, kind, X)
        if similar is not None:
            similar = similar[there]
            if bool(similar.all()) or not bool(similar.any()):
                raise ValueError(
                    f"similar calls {int(similar.sum())} of {len(similar)} pairs similar; give "
                    "pairs of both kinds."
                )
        return ConstraintsInMemory(X, index, weights, similar)

    def _refuse_class_weight(self):
        if self.class_weight is not None:
            raise ValueError(
                f"class_weight={self.class_weight!r} goes with class labels y; use None, and "
                "sample_weight to weigh constraints."
            )

    # ---- constraints from labels

    def _from_labels(self, X, y, neighbors, sample_weight, target, pairs=False):
        if y is None:
            _refuse_neighbors(neighbors)
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                f"give labels y{self._instead_of_labels}."
            )
        if is_dask(X):
            return self._labels_in_blocks(X, y, sample_weight, target, pairs)
        X, y = self._validate_X_and_y(look_up(X, self.preprocessor), y)
        self._check_n_components()
        continuous = self._is_continuous(y, target)
        if continuous:
            _refuse_neighbors(neighbors)
        X, y, weights, rows = self._validate_rows(
            X, y, sample_weight, neighbors is not None, continuous
        )
        labels = similar = None
        if continuous:
            found = in_memory.triplets_from_values(X, y, self.n_targets, self.n_impostors)
        else:
            remedy = LOWER_TARGETS, self._learns_from_quantities
            labels = check_labels(y, self.n_targets, *remedy)
            lists = self._neighbours(X, labels, neighbors)
            if pairs:
                found, similar = in_memory.pairs_from_neighbours(*lists)
            else:
                found = in_memory.triplets_from_neighbours(*lists)
        own_weights = None
        if weights is not None:
            found, own_weights, there = _weighted(found, weights[found[:, 0]], "constraints", X)
            similar = similar if similar is None else similar[there]
        if neighbors is not None:  # the user's, never searched again
            labels = None
        return ConstraintsInMemory(X, found, own_weights, similar, labels, weights, rows, True)

    def _labels_in_blocks(self, X, y, sample_weight, target, pairs):
        rows = read(X, y, sample_weight)
        name = f"{type(self).__name__} from dask collections"
        assert rows.classes is not None and rows.class_counts is not None
        refuse_continuous(rows.classes, rows.class_counts.sum(0), target, name)
        self.n_references_ = sample_size(self.n_references, rows.n_rows)
        counts = self.n_targets, self.n_impostors, self.n_references
        return from_labels(rows, *counts, self.random_state, pairs, self.class_weight)

    def _is_continuous(self, y, target):
        """Whether y is a quantity: refused if no metric is learned from one, with a warning
        if whole numbers are taken for one.
        """
        if not self._learns_from_quantities:
            self._refuse_continuous(y, target)
            return False
        continuous = is_continuous(y, target)
        if continuous and target == "auto" and (y == np.round(y)).all():
            warn_user(
                f"y has {len(np.unique(y))} whole numbers in {len(y)} rows, too many to be "
                f"classes; {type(self).__name__} takes them for a quantity: rows near in y should "
                "be near in the metric. Give target='continuous' or target='classes' to fit.",
                UserWarning,
            )
        return continuous

    def _validate_rows(self, X, y, sample_weight, all_rows, continuous):
        """(points, their y, their weights or None, their row numbers or None if all rows are
        taken): rows of weight zero are left out.
        """
        weights = check_weights(sample_weight, len(X), "rows of X")
        if self.class_weight is not None:
            if continuous:
                self._refuse_class_weight()
            labelled = encode_labels(y) >= 0
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

    def _neighbours(self, X, y, given=None):
        """Targets and impostors of every point, given by the user or found by a search."""
        if given is not None:
            return precomputed_neighbours(given, X, y, self.n_targets, self.n_impostors)
        references = None  # all rows
        self.n_references_ = sample_size(self.n_references, len(y), np.inf)
        if self.n_references_ is not None:
            references = sample_rows(y, self.n_references_, self.n_targets, self.random_state)
        return neighbours_by_label(X, y, self.n_targets, self.n_impostors, references)

    # ---- attributes

    def _prepared(self, X, found, checkpoint):
        """The constraints, with the attributes of a fit in blocks set: it keeps no lists of
        constraints, and may save its states. In memory, warn of columns that need scaling.
        """
        if not is_dask(X):
            if self._depends_on_scales:
                warn_if_unscaled(self, found.points)
            return found
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
