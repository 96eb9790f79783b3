"""BM25 of texts as a column of scores, by bm25s, and columns of what an engine itself lists."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..core.extras import require

# stop words of bm25s and a stemmer of Snowball; "none" has neither
LANGUAGES = (
    *("danish", "dutch", "english", "french", "german", "italian", "norwegian"),
    *("portuguese", "russian", "spanish", "swedish", "turkish", "none"),
)
LISTED = 200  # documents of a query, as many as people rerank


class BM25Vectors:
    """BM25 as inner products of sparse vectors, for engines that store such vectors, and as a
    column for ``fit(..., scores=...)``: ``BM25Vectors(documents).listed(queries)``.

    Parameters
    ----------
    documents : sequence of str
    language : str, default="english"
        Which stop words to leave out and how to stem, one of `LANGUAGES`; "none" does neither.

    Attributes
    ----------
    documents : sparse matrix (n_documents, n_words)
        The vectors to store.
    vocabulary : dict of str to int
        The place of every word.

    Examples
    --------
    >>> from conemetric.ranking.lexical import BM25Vectors
    >>> vectors = BM25Vectors(["A cat runs.", "The dog sleeps."])
    >>> (vectors.transform(["running cats"]) @ vectors.documents.T).toarray()[0].round(2).tolist()
    [0.55, 0.0]
    >>> vectors.listed(["running cats"]).indices.tolist()
    [0]
    """

    def __init__(self, documents: Sequence[str], language: str = "english") -> None:
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise ValueError(f"language={language!r} is not known; use one of {known}.")
        bm25s = require("bm25s", "lexical")
        self._options: dict[str, Any] = {"stopwords": None, "stemmer": None}
        if language != "none":
            stemmer = require("snowballstemmer", "lexical").stemmer(language)
            self._options = {"stopwords": language, "stemmer": stemmer}
        words = self.words(documents)
        if not any(words):
            raise ValueError("documents have no words that BM25 could count; check their texts.")
        index = bm25s.BM25()
        index.index(words, show_progress=False)
        parts = tuple(index.scores[part] for part in ("data", "indices", "indptr"))
        self._by_word = sparse.csc_array(parts, shape=(len(documents), len(parts[2]) - 1))
        self.documents = self._by_word.tocsr()
        self.vocabulary: dict[str, int] = index.vocab_dict

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of texts, as they are counted."""
        options = {**self._options, "return_ids": False, "show_progress": False}
        return require("bm25s", "lexical").tokenize([text or "" for text in texts], **options)

    def transform(self, queries: Sequence[str]) -> sparse.csr_array:
        """Vectors (n_queries, n_words) that count the words of queries."""
        known = [
            (query, self.vocabulary[word])
            for query, words in enumerate(self.words(queries))
            for word in words
            if word in self.vocabulary
        ]
        place = np.array(known, np.int64).reshape(-1, 2).T
        shape = len(queries), self.documents.shape[1]
        return sparse.csr_array((np.ones(len(known)), tuple(place)), shape)

    def listed(self, queries: Sequence[str], n_listed: int = LISTED) -> sparse.csr_array:
        """The first ``n_listed`` documents of every query, as a column (n_queries, n_documents);
        those without a common word are never listed.
        """
        of = self.transform(queries)
        lists = []
        for query in range(len(queries)):
            part = slice(*of.indptr[query : query + 2])
            scores = self._by_word[:, of.indices[part]] @ of.data[part]
            found = np.flatnonzero(scores)
            found = found[np.argsort(-scores[found], kind="stable")[:n_listed]]
            lists.append(list(zip(found.tolist(), scores[found].tolist(), strict=True)))
        return _column(lists, self.documents.shape[0])


def engine_scores(
    search: Callable[[Any], Iterable[tuple[Hashable, float]]],
    queries: Iterable[Any],
    ids: Sequence[Hashable],
) -> sparse.csr_array:
    """What an engine itself lists, as a column for ``fit(..., scores=...)``.

    Parameters
    ----------
    search : callable
        ``search(query)`` gives pairs of a document's id and its score, the higher the better: as
        many as the engine will list later.
    queries : iterable
    ids : sequence
        The ids of the documents, in the order of their vectors.

    Returns
    -------
    sparse matrix (n_queries, n_documents)

    Examples
    --------
    >>> from conemetric.ranking.lexical import engine_scores
    >>> engine_scores(lambda query: [("b", 2.0)], ["any"], ["a", "b"]).toarray()
    array([[0., 2.]])
    """
    place = {name: number for number, name in enumerate(ids)}
    lists = [list(search(query)) for query in queries]
    strange = {name for listed in lists for name, _ in listed} - set(place)
    if strange:
        raise ValueError(
            f"search lists {len(strange):,} documents that are not among the ids, such as "
            f"{next(iter(strange))!r}; give the ids of all documents that it searches."
        )
    return _column([[(place[name], score) for name, score in of] for of in lists], len(ids))


def _column(lists, n_documents):
    """Lists of (document, score) as a sparse matrix; a score of 0 is listed too."""
    query = np.repeat(np.arange(len(lists)), [len(listed) for listed in lists])
    pairs = np.array([pair for listed in lists for pair in listed], float).reshape(-1, 2)
    place = query, pairs[:, 0].astype(np.int64)
    return sparse.csr_array((pairs[:, 1], place), (len(lists), n_documents))
