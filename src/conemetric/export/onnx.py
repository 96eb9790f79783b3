"""ONNX: the map as one ``Gemm``, and a converter for scikit-learn pipelines."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import to_numpy
from ..core.extras import require
from ..estimators.base import MahalanobisMetric
from ..storage import LearnedMap, atomic_path, certificate_values

OPSET = 13  # the latest version of Gemm
IR_VERSION = 8  # read by every onnxruntime of recent years


def to_onnx(metric: Any, path: str | Path) -> None:
    """Write the learned map as an ONNX model.

    The model maps ``X``, float32 (n, n_features), to ``embedding``, float32 (n, rank), and
    fills missing values if the metric does. A kernel's landmarks and width are constants of the
    model; a Laplacian kernel takes (n, landmarks, n_features) numbers of memory, so pass some hundred
    rows at a time. Its metadata hold the method, the certificate and the feature names as JSON under
    ``conemetric.method`` and so on.

    Parameters
    ----------
    metric : fitted estimator, Pipeline that ends in one, or LearnedMetric
    path : str or path

    Examples
    --------
    >>> import os, tempfile
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric
    >>> from conemetric.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = FrobMetric().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(metric, os.path.join(folder, "iris.onnx"))
    ...     session = onnxruntime.InferenceSession(os.path.join(folder, "iris.onnx"))
    >>> (Z,) = session.run(None, {"X": X.astype("float32")})
    >>> bool(abs(Z - metric.transform(X)).max() < 1e-5)
    True
    """
    onnx = require("onnx", "export")
    from onnx import TensorProto, helper, numpy_helper

    metric = LearnedMap.from_estimator(metric).for_vectors("ONNX", fills=True, kernels=True)
    rank = len(metric.components)
    n_features = metric.n_features_in_
    graph = _graph_of(metric)
    nodes = []
    for node in graph.nodes:
        made = helper.make_node(node.operator, node.inputs, [node.output], **node.attributes)
        nodes.append(made)
    constants = []
    for name, array in graph.arrays.items():
        constants.append(numpy_helper.from_array(_cast(array, np.float32), name))
    whole = helper.make_graph(
        nodes,
        "conemetric",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", n_features])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", rank])],
        constants,
    )
    model = helper.make_model(
        whole,
        producer_name="conemetric",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    facts = {
        "method": metric.method,
        "certificate": certificate_values(metric.certificate),
        "feature_names": metric.feature_names,
    }
    props = {f"conemetric.{name}": json.dumps(fact) for name, fact in facts.items()}
    helper.set_model_props(model, props)
    onnx.checker.check_model(model)
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


class Node(NamedTuple):
    """An operator of ONNX, with the names of what it takes and of what it gives."""

    operator: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]


class Graph:
    """Constant arrays by name, and the nodes in the order in which they are computed."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.nodes: list[Node] = []

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        self.nodes.append(Node(operator, inputs, output, attributes))
        return output


def _graph_of(metric):
    """The graph from "X" to "embedding"."""
    graph = Graph()
    rows = "X"
    if metric.fill is not None:
        graph.arrays["fill"] = metric.fill
        graph.add("IsNaN", ["X"], "missing")
        rows = graph.add("Where", ["missing", "fill", "X"], "complete")
    if metric.kernel is not None:
        rows = _add_kernel(graph, metric.kernel, rows)
    graph.arrays["components"] = metric.components
    graph.arrays["offset"] = metric.offset
    graph.add("Gemm", [rows, "components", "offset"], "embedding", transB=1)
    return graph


def _add_kernel(graph, kernel, rows):
    """Add what `engine.kernel_map` computes, from ``rows`` to coordinates."""
    if not isinstance(kernel.kernel, str):
        raise TypeError("a kernel that is a function cannot be exported; use a named one.")
    if kernel.matrix is not None:
        graph.arrays["matrix"] = kernel.matrix
        graph.arrays["shift"] = kernel.shift
        rows = graph.add("Gemm", [rows, "matrix", "shift"], "prepared", transB=1)
    graph.arrays["projection"] = to_numpy(kernel.projection)
    graph.arrays["columns"] = np.array([1])  # the axis that sums run over
    landmarks = to_numpy(kernel.landmarks).astype(np.float64)
    values = KERNELS[kernel.kernel](graph, rows, landmarks, kernel.width)
    return graph.add("MatMul", [values, "projection"], "coordinates")


def _add_gaussian(graph, rows, landmarks, width):
    """exp(x'z / w^2 - |x|^2 / 2w^2 - |z|^2 / 2w^2) for rows x and landmarks z, both taken from the mean
    of the landmarks, which keeps digits.
    """
    centre = landmarks.mean(0)
    landmarks = landmarks - centre
    graph.arrays["centre"] = centre
    graph.arrays["landmarks"] = landmarks.T / width**2
    graph.arrays["sizes"] = (landmarks**2).sum(1) / (2 * width**2)
    graph.arrays["narrowness"] = np.array([1 / (2 * width**2)])
    graph.add("Sub", [rows, "centre"], "centred")
    graph.add("Mul", ["centred", "centred"], "squares")
    graph.add("ReduceSum", ["squares", "columns"], "sums", keepdims=1)
    graph.add("Mul", ["sums", "narrowness"], "row_sizes")
    graph.add("MatMul", ["centred", "landmarks"], "products")
    graph.add("Sub", ["products", "row_sizes"], "without_sizes")
    graph.add("Sub", ["without_sizes", "sizes"], "exponents")
    return graph.add("Exp", ["exponents"], "values")


def _add_laplacian(graph, rows, landmarks, width):
    """exp(-|x - z|_1 / w) for rows x and landmarks z."""
    graph.arrays["landmarks"] = landmarks
    graph.arrays["last"] = np.array([2])
    graph.arrays["width"] = np.array([-width])
    graph.add("Unsqueeze", [rows, "columns"], "alone")
    graph.add("Sub", ["alone", "landmarks"], "differences")
    graph.add("Abs", ["differences"], "sizes")
    graph.add("ReduceSum", ["sizes", "last"], "distances", keepdims=0)
    graph.add("Div", ["distances", "width"], "exponents")
    return graph.add("Exp", ["exponents"], "values")


def _add_cosine(graph, rows, landmarks, _):
    """x'z / |x| |z| for rows x and landmarks z; 0 for rows of zeros."""
    sizes = np.linalg.norm(landmarks, axis=1, keepdims=True)
    graph.arrays["landmarks"] = (landmarks / np.where(sizes > 0, sizes, 1)).T
    graph.arrays["tiny"] = np.array([1e-30])
    graph.add("Mul", [rows, rows], "squares")
    graph.add("ReduceSum", ["squares", "columns"], "sums", keepdims=1)
    graph.add("Sqrt", ["sums"], "lengths")
    graph.add("Max", ["lengths", "tiny"], "positive_lengths")
    graph.add("Div", [rows, "positive_lengths"], "units")
    return graph.add("MatMul", ["units", "landmarks"], "values")


KERNELS = {"gaussian": _add_gaussian, "laplacian": _add_laplacian, "cosine": _add_cosine}


def _cast(array, dtype):
    """Numbers in this precision; positions of axes stay integers."""
    array = np.asarray(array)
    if array.dtype.kind == "i":
        dtype = np.int64
    return np.ascontiguousarray(array, dtype)


def register_onnx_converters() -> None:
    """Let skl2onnx convert pipelines that contain estimators of this library.

    Examples
    --------
    >>> import skl2onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from conemetric import FrobMetric
    >>> from conemetric.export import register_onnx_converters
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(FrobMetric(), KNeighborsClassifier(3)).fit(X, y)
    >>> register_onnx_converters()
    >>> model = skl2onnx.to_onnx(pipeline, X[:1].astype("float32"))
    >>> [output.name for output in model.graph.output]
    ['output_label', 'output_probability']
    """
    skl2onnx = require("skl2onnx", "export")
    for kind in _subclasses(MahalanobisMetric):
        alias = f"Conemetric{kind.__name__}"
        skl2onnx.update_registered_converter(kind, alias, _output_shape, _convert)


def _subclasses(kind) -> set[Any]:
    """All classes below this one."""
    found = set()
    for direct in kind.__subclasses__():
        found |= {direct, *_subclasses(direct)}
    return found


def _output_shape(operator):
    kind = type(operator.inputs[0].type)
    rank = len(operator.raw_operator.components_)
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), rank])


def _convert(scope, operator, container):
    """Add the map, in the precision of its input."""
    from skl2onnx.common.data_types import DoubleTensorType
    from skl2onnx.proto import onnx_proto

    metric = LearnedMap.from_estimator(operator.raw_operator)
    graph = _graph_of(metric.for_vectors("ONNX", fills=True, kernels=True))
    dtype: type[np.floating] = np.float32
    element = onnx_proto.TensorProto.FLOAT
    if isinstance(operator.inputs[0].type, DoubleTensorType):
        dtype = np.float64
        element = onnx_proto.TensorProto.DOUBLE
    # names must be unique in the whole pipeline
    names = {"X": operator.inputs[0].full_name, "embedding": operator.outputs[0].full_name}
    for name, array in graph.arrays.items():
        names[name] = scope.get_unique_variable_name(name)
        constant = _cast(array, dtype)
        kind = element
        if constant.dtype != dtype:
            kind = onnx_proto.TensorProto.INT64
        container.add_initializer(names[name], kind, constant.shape, constant.ravel())
    for node in graph.nodes:
        if node.output not in names:
            names[node.output] = scope.get_unique_variable_name(node.output)
        container.add_node(
            node.operator,
            [names[name] for name in node.inputs],
            names[node.output],
            name=scope.get_unique_operator_name("Metric"),
            op_version=OPSET,
            **node.attributes,
        )
