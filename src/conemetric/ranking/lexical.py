"""BM25 of texts as a column of scores, by bm25s."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..core.extras import require

__all__ = ["LANGUAGES", "bm25"]

# stop words of bm25s and a stemmer of Snowball; "none" has neither
LANGUAGES = (
    *("danish", "dutch", "english", "french", "german", "italian", "norwegian"),
    *("portuguese", "russian", "spanish", "swedish", "turkish", "none"),
)
LISTED = 200  # documents of a query, as many as people rerank


def bm25(
    queries: Sequence[str],
    documents: Sequence[str],
    language: str = "english",
    n_listed: int = LISTED,
) -> sparse.csr_array:
    """BM25 of the best documents of every query, as a column for ``fit(..., scores=...)``.

    Parameters
    ----------
    queries, documents : sequences of str
    language : str, default="english"
        Which stop words to leave out and how to stem, one of `LANGUAGES`; "none" does neither.
    n_listed : int, default=200
        Documents listed for each query, at most; those without a common word never are.

    Returns
    -------
    sparse matrix (n_queries, n_documents)

    Examples
    --------
    >>> from conemetric.ranking.lexical import bm25
    >>> bm25(["running cats"], ["A cat runs.", "The dog sleeps."]).indices.tolist()
    [0]
    """
    if language not in LANGUAGES:
        raise ValueError(f"language={language!r} is not known; use one of {', '.join(LANGUAGES)}.")
    bm25s = require("bm25s", "lexical")
    options: dict[str, Any] = {"stopwords": None, "return_ids": False, "show_progress": False}
    if language != "none":
        stemmer = require("snowballstemmer", "lexical").stemmer(language)
        options |= {"stopwords": language, "stemmer": stemmer}
    words = [
        bm25s.tokenize([text or "" for text in texts], **options) for texts in (queries, documents)
    ]
    if not any(words[1]):
        raise ValueError("documents have no words that BM25 could count; check their texts.")
    index = bm25s.BM25()
    index.index(words[1], show_progress=False)
    rows, columns, values = [], [], []
    for query, known in enumerate(
        [word for word in of if word in index.vocab_dict] for of in words[0]
    ):
        scores = index.get_scores(known) if known else np.zeros(len(documents))
        listed = np.flatnonzero(scores)
        best = listed[np.argsort(-scores[listed], kind="stable")[:n_listed]]
        rows.append(np.full(len(best), query))
        columns.append(best)
        values.append(scores[best].astype(np.float64))
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(entries, (len(queries), len(documents)))
