"""A learned ranking: the maps of queries and documents, and the scores that it adds up."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from sklearn.utils.validation import check_array

from ..core.arrays import float64, is_torch, like, namespace, refuse_masked, to_numpy
from ..core.fields import ArrayField, Named, Number, Stored, Text, expect
from ..estimators.validation import FLOATS, check_tensor
from .columns import EMBEDDING, Pool, check_scores, picked
from .engines import ENGINES, NORMALIZATIONS, SIMILARITIES
from .top_k import Ranking, centred_if_far, check_depth, search, tie_ranks, unit_rows


@dataclass(frozen=True)
class RankingModel(Stored):
    """What a fitted `QueryAdapter` or `RelevanceMetric` ranks by, without its data (``model_``).

    The score of a document d for a query q is ::

        weights["embedding"] * similarity(query_map q, document_map d) + sum_c weights[c] s_c(q, d)

    with s_c the column c in its normalisation (`conemetric.ranking.columns`). "inner" is the
    inner product, "cosine" that of a query which is mapped after being scaled to unit length with a
    document scaled to unit length, before its map and after, "euclidean" minus the squared distance.

    Parameters
    ----------
    query_map, document_map : array (rank, n_features) or None
        None leaves rows unchanged.
    similarity : {"cosine", "inner", "euclidean"}
    weights : dict of str to float
        Of the embedding's own scores ("embedding") and of every column, none negative.
    normalization : {"raw", "range", "spread"} or None
        Of the columns; None if none has a weight.
    target : str, default=None
        The search engine that it was learned for (`conemetric.ranking.engines`): the embedding
        counts beside columns as it does in the query exported to that engine.
    window : int, default=None
        Documents that each score lists there: `rank` uses no more of a column.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from conemetric.ranking.model import RankingModel
    >>> model = RankingModel(np.eye(2), None, "inner", {"embedding": 1.0, "words": 2.0}, "raw")
    >>> words = csr_array([[0.0, 3.0]])
    >>> documents, scores = model.rank([[1.0, 0.0]], np.eye(2), {"words": words})
    >>> documents.tolist(), scores.tolist()
    ([[1, 0]], [[6.0, 1.0]])
    """

    query_map: Annotated[Any, ArrayField("f", ("rank", "features"), optional=True)]
    document_map: Annotated[Any, ArrayField("f", ("rank", "document_features"), optional=True)]
    similarity: Annotated[str, Text(SIMILARITIES)]
    weights: Annotated[dict[str, float], Named(Number(0))]
    normalization: Annotated[str | None, Text(NORMALIZATIONS, optional=True)] = None
    target: Annotated[str | None, Text(tuple(ENGINES), optional=True)] = None
    window: Annotated[int | None, Number(1, whole=True, optional=True)] = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns, with or without a weight."""
        return [name for name in self.weights if name != EMBEDDING]

    def transform_queries(self, Q: Any) -> Any:
        """Map queries."""
        return _mapped(check_rows(Q, "Q"), self.query_map, "Q")

    def transform_documents(self, D: Any) -> Any:
        """Map documents."""
        return _mapped(check_rows(D, "D"), self.document_map, "D")

    def rank(self, queries: Any, documents: Any, scores: Any = None, k: int = 10) -> Ranking:
        """The first ``k`` documents of every query. Those with equal scores are in an order
        that depends on their vectors as given, not on their numbers.

        Parameters
        ----------
        queries, documents, scores, k
            As in `QueryAdapter.rank`.

        Returns
        -------
        documents, scores : arrays (n_queries, min(k, n_documents)) on the host
            Best first; -1 and minus infinity where a query has fewer.
        """
        check_depth(k)
        queries = check_rows(queries, "queries")
        documents = check_rows(documents, "documents")
        namespace(queries, documents)  # refuses mixed libraries
        used = [name for name in self.columns if self.weights[name]]
        scores = picked(scores, used, self.columns)
        columns = None
        if used and self.normalization is not None:
            columns = check_scores(scores, len(queries), len(documents))
            columns = columns.listed_by(self.target, self.window)
        # by the documents as given: a map may make different ones equal
        ties = tie_ranks(documents)
        queries, documents, centre = self._mapped_points(queries, documents)
        if queries.shape[1] != documents.shape[1]:
            raise ValueError(
                f"documents has {documents.shape[1]} features, but mapped queries have "
                f"{queries.shape[1]}; map the documents as when the ranking was learned."
            )
        depth = k
        listed = None
        weights = np.zeros(0)
        if columns:
            depth = columns.depth(k)
            listed = columns.listed
            weights = np.array([self.weights[name] for name in columns.names])
        found = search(
            queries, documents, depth, self.similarity, listed=listed, ties=ties, centre=centre
        )
        pool = Pool.of(columns, [found], ties)
        k = min(k, len(documents))
        return pool.rank(self.normalization, weights, k, self.weights[EMBEDDING])

    def _mapped_points(self, queries, documents):
        """Queries and documents after their maps; and, of inner products, what was subtracted from
        the mapped documents, or None.

        Rows far from the origin are centred before the map, which would round away what differs
        among them, unless the order of the documents depends on the origin.
        """
        if self.similarity == "cosine":
            queries = unit_rows(queries)
            documents = unit_rows(documents)
        centre = None
        if self.similarity == "inner":
            documents, centre = centred_if_far(documents)
        elif self.similarity == "euclidean" and self.query_map is self.document_map:
            documents, moved = centred_if_far(documents)
            if moved is not None:
                queries = queries - moved
        queries = _mapped(queries, self.query_map, "queries")
        documents = _mapped(documents, self.document_map, "documents")
        if centre is not None:
            centre = _mapped(float64(centre)[None], self.document_map, "documents")[0]
        return queries, documents, centre

    def state(self) -> dict[str, Any]:
        """JSON values and arrays that hold it; `from_state` inverts it."""
        state = super().state()
        state["query_map"] = _on_host(self.query_map)
        state["document_map"] = _on_host(self.document_map)
        state["weights"] = dict(self.weights)
        return state

    @classmethod
    def from_state(cls, state: Any, within: str = "ranking") -> Self:
        """The model of a `state`; a `FieldError` that names a value which it cannot use."""
        model = super().from_state(state, within)
        weights = model.weights
        names = sorted(weights)[:9]
        expect(EMBEDDING in weights, f"{within}.weights", names, f"one of {EMBEDDING}")
        scaled = [name for name, weight in weights.items() if weight and name != EMBEDDING]
        fits = model.normalization is not None or not scaled
        expect(fits, f"{within}.normalization", None, f"the scale of {scaled[:9]}")
        return model


def _on_host(map_):
    if map_ is None:
        return None
    return to_numpy(map_)


def _mapped(X, map_, name):
    if map_ is None:
        return X
    if X.shape[1] != map_.shape[1]:
        raise ValueError(
            f"{name} has {X.shape[1]} features, but the ranking is expecting {map_.shape[1]} "
            "features as input."
        )
    return X @ like(map_, X).T


def check_rows(X: Any, name: str) -> Any:
    """Validate rows of floats: a tensor or a NumPy array."""
    refuse_masked(X, name)
    if is_torch(X):
        return check_tensor(X, 1)
    return check_array(X, dtype=FLOATS, input_name=name)
