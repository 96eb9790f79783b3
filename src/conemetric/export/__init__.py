"""A learned metric in the formats of other systems, and learned weights of scores as queries of
search engines.

FAISS, ONNX, sentence-transformers and SQL get the affine map z = components x + offset in float32;
the Euclidean distance of mapped vectors is the learned one. Only ONNX fills missing values; the
others warn if the metric does. `conemetric.storage` keeps the metric itself, in float64.
"""

from .faiss import to_faiss as to_faiss
from .hybrid import to_hybrid_query as to_hybrid_query
from .onnx import register_onnx_converters as register_onnx_converters
from .onnx import to_onnx as to_onnx
from .postgres import Examples as Examples
from .postgres import postgres_connection as postgres_connection
from .postgres import postgres_scores as postgres_scores
from .sentence_transformers import to_sentence_transformers as to_sentence_transformers
from .sql import to_sql as to_sql
