"""BM25 of texts as a column of scores, by bm25s, and columns of what an engine itself lists."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
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
        stored = index.scores
        parts = (stored["data"], stored["indices"], stored["indptr"])
        n_words = len(stored["indptr"]) - 1
        # by word too: a query has few of them, and only their columns are read
        self._by_word = sparse.csc_array(parts, shape=(len(documents), n_words))
        self.documents = self._by_word.tocsr()
        self.vocabulary: dict[str, int] = index.vocab_dict

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of texts, as they are counted."""
        options = {**self._options, "return_ids": False, "show_progress": False}
        return require("bm25s", "lexical").tokenize([text or "" for text in texts], **options)

    def transform(self, queries: Sequence[str]) -> sparse.csr_array:
        """Vectors (n_queries, n_words) that count the words of queries."""
        rows = []
        columns = []
        for query, words in enumerate(self.words(queries)):
            for word in words:
                if word in self.vocabulary:
                    rows.append(query)
                    columns.append(self.vocabulary[word])
        place = (np.array(rows, np.int64), np.array(columns, np.int64))
        shape = (len(queries), self.documents.shape[1])
        return sparse.csr_array((np.ones(len(rows)), place), shape)  # adds up what comes twice

    def listed(self, queries: Sequence[str], n_listed: int = LISTED) -> sparse.csr_array:
        """The first ``n_listed`` documents of every query, as a column (n_queries, n_documents);
        those without a common word are never listed.
        """
        vectors = self.transform(queries)
        lists = []
        for query in range(len(queries)):
            part = slice(*vectors.indptr[query : query + 2])
            scores = self._by_word[:, vectors.indices[part]] @ vectors.data[part]
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
    lists = []
    strange: set[Hashable] = set()
    for query in queries:
        listed = []
        for name, score in search(query):
            if name in place:
                listed.append((place[name], score))
            else:
                strange.add(name)
        lists.append(listed)
    if strange:
        raise ValueError(
            f"search lists {len(strange):,} documents that are not among the ids, such as "
            f"{next(iter(strange))!r}; pass the ids of all documents that it searches."
        )
    return _column(lists, len(ids))


def _column(lists, n_documents):
    """Lists of (document, score) as a sparse matrix; a score of 0 is listed too."""
    query = np.repeat(np.arange(len(lists)), list(map(len, lists)))
    pairs = np.array(list(chain.from_iterable(lists)), float).reshape(-1, 2)
    document = pairs[:, 0].astype(np.int64)
    return sparse.csr_array((pairs[:, 1], (query, document)), (len(lists), n_documents))
