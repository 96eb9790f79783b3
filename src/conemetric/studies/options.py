"""How to learn and how to judge, by the choices of the user; light, for the command line."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Options:
    """How to learn and how to evaluate.

    Attributes
    ----------
    method : str or None
        A name from `conemetric.studies.methods`; None takes the first that learns from
        the given supervision: "auto" (`AutoMetric`) for labels.
    parameters : dict
        Parameters of the estimator; those its class does not have are ignored.
    scale : {"auto", "standard", "none"}
        "auto" standardises the columns if that lowers the Euclidean error on training rows. A
        table with categories or missing values is encoded by `TableEncoder` instead.
    n_pca : int or None
        Reduce to this many principal components first.
    n_neighbors : int
        Neighbours that vote, also within "auto".
    test_size : float
        Share of the rows held out; of pairs and triplets the share of the rows that they are of.
    max_rows : int or None
        Learn from at most this many rows, drawn class by class; None: as many as can be
        learned from in minutes.
    max_test_rows : int
        Evaluate on at most this many held-out rows.
    repeats : int
        Evaluate on this many random splits; the metric is that of the first.
    seed : int
        Of the first split; the others count on from it.
    tol : float
        Certified relative gap to stop at.
    kernel : str or None
        Learn in the coordinates of this kernel; "auto" lets `AutoMetric` choose between kernels
        and columns. The classifier or regressor is learned without.
    """

    method: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    scale: str = "auto"
    n_pca: int | None = None
    n_neighbors: int = 3
    test_size: float = 0.3
    max_rows: int | None = None
    max_test_rows: int = 5_000
    repeats: int = 1
    seed: int = 0
    tol: float = 1e-3
    kernel: str | None = None


@dataclass(frozen=True)
class AdaptOptions:
    """How to adapt and how to judge."""

    # what to map: "queries", "both", or "auto", which tries both and takes the more reliable gain
    # on held-out training queries; an inner-product index allows "queries" only
    map: str = "auto"
    similarity: str = "cosine"  # or "inner"
    n_components: int | None = None
    target: str | None = None  # search engine that will rank, which maps queries only
    normalization: str = "auto"  # of other scores: "raw", "range" or "spread"
    test_size: float = 0.3  # share of the judged queries, unless the collection names them
    tol: float = 1e-3
    seed: int = 0
