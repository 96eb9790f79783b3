"""
From an encoder to a better index
=================================

A search should find the right page for a query. An encoder maps queries and pages to
vectors; from queries whose page is known, `QueryAdapter` learns a map of the queries, and
the index stays as it is. Here the pages are scikit-learn's reference, a query is the first
sentence about a class or function, and the encoder counts words (replace it by any other,
such as a sentence transformer).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.datasets import reference_pages
from conemetric.evaluation.statistics import paired_difference
from conemetric.ranking.measures import ndcg, rank

pages = reference_pages()
words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
encoder = make_pipeline(words, TruncatedSVD(64, random_state=0)).fit(pages.documents)
documents, queries = (
    encoder.transform(pages.documents),
    encoder.transform(pages.queries),
)
documents /= np.linalg.norm(documents, axis=1, keepdims=True)
queries /= np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-9)

order = np.random.default_rng(0).permutation(len(queries))
train, test = np.split(order, [len(order) * 2 // 3])


def judged(rows):
    """Query i of these is about page rows[i]."""
    return np.column_stack([np.arange(len(rows)), rows])


# %%
# C, margin and negatives are chosen on training queries that are held out from the fit.

before = ndcg(rank(queries[test], documents, 10), judged(test))
after = {}
for kind in (QueryAdapter, RelevanceMetric):
    fitted = kind(random_state=0).fit(queries[train], documents, judged(train))
    mapped = (
        fitted.transform_queries(queries[test]),
        fitted.transform_documents(documents),
    )
    similarity = "cosine" if kind is QueryAdapter else "euclidean"
    after[kind.__name__] = ndcg(rank(*mapped, 10, similarity), judged(test))
    change = paired_difference(before, after[kind.__name__], random_state=0)
    print(
        f"{kind.__name__:15s} nDCG@10 {before.mean():.3f} -> {after[kind.__name__].mean():.3f}"
        f" (95 % interval of the difference {change.low:+.3f} to {change.high:+.3f}), "
        f"{fitted.certificate_.status}, gap {fitted.certificate_.relative_gap:.0e}"
    )

# %%
# How many queries gained, and how many lost?

figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
for name, values in after.items():
    axis.plot(np.sort(values - before), label=name)
axis.axhline(0, color="grey", linewidth=0.5)
axis.set(xlabel="held-out queries, sorted", ylabel="change of nDCG@10")
axis.legend()
plt.show()
