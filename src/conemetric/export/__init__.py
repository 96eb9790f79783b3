"""A learned metric in the formats of other systems: FAISS, ONNX, sentence-transformers,
LlamaIndex and SQL; and learned weights of scores as queries of search systems.

Each of the first holds the affine map z = components x + offset in float32; the Euclidean distance of
mapped vectors is the learned one. `conemetric.storage` keeps the metric itself, in float64
and with its certificate. Only ONNX fills missing values; the others warn if the metric
does.
"""

from .faiss import to_faiss
from .hybrid import Examples, to_hybrid_query
from .llama_index import to_llama_index
from .onnx import register_onnx_converters, to_onnx
from .postgres import postgres_connection, postgres_scores
from .sentence_transformers import to_sentence_transformers
from .sql import to_sql

__all__ = [
    "Examples",
    "postgres_connection",
    "postgres_scores",
    "register_onnx_converters",
    "to_faiss",
    "to_hybrid_query",
    "to_llama_index",
    "to_onnx",
    "to_sentence_transformers",
    "to_sql",
]
