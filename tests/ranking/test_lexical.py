"""BM25 by its formula, stop words and stems by language."""

import numpy as np
import pytest

from conemetric.ranking.lexical import LANGUAGES, LISTED, BM25Vectors

pytest.importorskip("bm25s")


def bm25(queries, documents, language="english", n_listed=LISTED):
    return BM25Vectors(documents, language).listed(queries, n_listed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_listed", [3, 200])
def test_scores_are_those_of_lucene(seed, n_listed):
    """idf tf / (tf + k1 (1 - b + b length / mean length)), k1 = 1.5 and b = 0.75."""
    rng = np.random.default_rng(seed)
    documents = [rng.integers(12, size=rng.integers(3, 9)) for _ in range(20)]
    queries = [rng.choice(14, 3, replace=False) for _ in range(6)]  # 12 and 13 occur nowhere
    texts = [[" ".join(f"w{word}" for word in of) for of in rows] for rows in (queries, documents)]
    found = bm25(*texts, language="none", n_listed=n_listed).toarray()
    lengths = np.array([len(of) for of in documents])
    wanted = np.zeros((6, 20))
    for q, words in enumerate(queries):
        for word in words:
            tf = np.array([(of == word).sum() for of in documents])
            idf = np.log(1 + (20 - (tf > 0).sum() + 0.5) / ((tf > 0).sum() + 0.5))
            wanted[q] += idf * tf / (tf + 1.5 * (0.25 + 0.75 * lengths / lengths.mean()))
    assert (np.count_nonzero(found, axis=1) == np.minimum((wanted > 0).sum(1), n_listed)).all()
    np.testing.assert_allclose(found[found > 0], wanted[found > 0], rtol=1e-5)
    least = np.where(found > 0, wanted, np.inf).min(1)
    assert (np.where(found > 0, 0, wanted) <= least[:, None] * (1 + 1e-5)).all()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_what_it_needs(language):
    found = bm25(["zebra", ""], ["zebra", "zebra zebra", None], language)
    assert found.shape == (2, 3) and sorted(found.indices) == [0, 1]


def test_words_of_one_stem_are_one_and_stop_words_none():
    documents = ["the houses", "das Haus und die Häuser"]
    assert bm25(["the house"], documents).indices.tolist() == [0]
    assert bm25(["die Häusern und"], documents, "german").indices.tolist() == [1]
    assert bm25(["the house"], documents, "none").indices.tolist() == [0]  # "the" alone
    assert bm25(["house"], documents, "none").nnz == 0
    with pytest.raises(ValueError, match="language='latin' is not known; use one of danish"):
        bm25(["a"], ["b"], "latin")
    with pytest.raises(ValueError, match="no words"):
        bm25(["house"], ["the", ""])
