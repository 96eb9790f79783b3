"""What a metric is learned from: labels, triplets or pairs, validated, as index arrays."""

from numbers import Integral

from sklearn.utils._param_validation import Interval, StrOptions

from .. import constraints
from ..arrays import like, namespace
from ..neighbours import given_neighbours, neighbours_by_label
from .base import MahalanobisMetric
from .tuples import NAMES, look_up, n_in_tuple, unfold

TRIPLET_PARAMETERS = {
    "preprocessor": ["array-like", callable, None],
    "n_targets": [Interval(Integral, 1, None, closed="left")],
    "n_impostors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "neighbors": [StrOptions({"auto", "exact", "approximate"})],
}


class SupervisedMetric(MahalanobisMetric):
    """Base of the estimators that learn from labels, or from constraints in their place."""

    _takes_sparse = True
    _instead_of_labels = ", or constraints by keyword (triplets)"

    def _unfold(self, X, widths):
        """(points, tuples of their row numbers), or (rows, None) where X holds no tuples."""
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

    def _validate_labels(self, X, y):
        """X and encoded labels; errors name what is wrong before any work starts."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                f"give labels y{self._instead_of_labels}."
            )
        X, y = self._validate_X_and_y(X, y)
        self._check_n_components(X)
        return X, constraints.check_labels(y, self.n_targets)

    def _check_neighbors(self, neighbors, y, constraints_given):
        """Refuse neighbours of the user's that there are no labels to go with."""
        self.neighbor_recall_ = None
        if neighbors is None:
            return
        if y is None or constraints_given or constraints.is_continuous(y):
            raise ValueError("Got neighbors; they go with rows X and class labels y, and no more.")

    def _neighbours(self, X, y, given=None):
        """Targets and impostors of every point, as the user gives them or by a search."""
        if given is None:
            found = neighbours_by_label(
                X, y, self.n_targets, self.n_impostors, self.neighbors, self.random_state
            )
        else:
            found = given_neighbours(given, X, y, self.n_targets, self.n_impostors)
        self.neighbor_recall_ = found.recall
        return found.targets, found.impostors

    def _validate_triplets(self, X, y, triplets, neighbors=None):
        """X and its triplets, from labels by the papers' rule or as the user gives them;
        y is then for others, later in a pipeline.
        """
        X, given = self._unfold(X, (3, 4))
        self._check_neighbors(neighbors, y, given is not None or triplets is not None)
        if given is not None:
            if triplets is not None:
                raise ValueError("Got tuples and triplets; give X as rows with triplets.")
            X = self._validate_X(X, reset=True)
            self._check_n_components(X)
            return X, like(given, X, namespace(X).int64)
        if triplets is None:
            if y is not None and constraints.is_continuous(y):
                X, y = self._validate_X_and_y(X, y)
                self._check_n_components(X)
                return X, constraints.triplets_from_values(X, y, self.n_targets, self.n_impostors)
            X, y = self._validate_labels(X, y)
            found = constraints.triplets_from_neighbours(*self._neighbours(X, y, neighbors))
        else:
            X = self._validate_X(X, reset=True, min_samples=3)
            self._check_n_components(X)
            found = like(constraints.check_triplets(triplets, len(X)), X, namespace(X).int64)
        return X, found

    def _validate_pairs(self, X, y, pairs, similar, neighbors=None):
        """X, its pairs and which are similar, from labels by the papers' rule or as the
        user gives them.
        """
        X, given = self._unfold(X, (2,))
        self._check_neighbors(neighbors, y, given is not None or pairs is not None)
        if given is not None:
            if pairs is not None or similar is not None:
                raise ValueError("Got tuples and pairs; give X as rows with pairs and similar.")
            if y is None:
                raise ValueError("Pairs of points need y: +1 for those alike, -1 for the others.")
            y, pairs, similar = None, given, y
        if pairs is None:
            if similar is not None:
                raise ValueError("Got similar without pairs; give both, or labels y.")
            X, y = self._validate_labels(X, y)
            lists = self._neighbours(X, y, neighbors)
            found, similar = constraints.pairs_from_neighbours(*lists)
        else:
            if similar is None:
                raise ValueError(
                    "Got pairs without similar; say of each pair whether its points are alike."
                )
            X = self._validate_X(X, reset=True, min_samples=2)
            self._check_n_components(X)
            found = like(constraints.check_pairs(pairs, len(X)), X, namespace(X).int64)
            mask = constraints.check_similar(similar, len(found))
            if mask.all() or not mask.any():
                raise ValueError(
                    f"similar calls {int(mask.sum())} of {len(mask)} pairs similar; give pairs of "
                    "both kinds."
                )
            similar = like(mask, X, namespace(X).bool)
        return X, found, similar
