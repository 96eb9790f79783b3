"""A learned metric in the formats of other systems, and learned weights of scores as queries of
search engines.

FAISS, ONNX, sentence-transformers and SQL get the affine map z = components x + offset in float32;
the Euclidean distance of mapped vectors is the learned one. Only ONNX fills missing values; the
others warn if the metric does. `conemetric.storage` keeps the metric itself, in float64.
"""

from .faiss import to_faiss
from .hybrid import to_hybrid_query
from .onnx import register_onnx_converters, to_onnx
from .postgres import Examples, postgres_connection, postgres_scores
from .sentence_transformers import to_sentence_transformers
from .sql import to_sql

__all__ = [
    "Examples",
    "postgres_connection",
    "postgres_scores",
    "register_onnx_converters",
    "to_faiss",
    "to_hybrid_query",
    "to_onnx",
    "to_sentence_transformers",
    "to_sql",
]
