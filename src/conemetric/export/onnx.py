"""ONNX: the map as one ``Gemm``, and a converter for scikit-learn pipelines."""

import json
from pathlib import Path
from typing import Any

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
    rows at a time. Its metadata hold the method, the certificate
    and the feature names as JSON under ``conemetric.method`` and so on.

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
    rank, n_features = len(metric.components), metric.n_features_in_
    arrays, nodes = _map(metric)
    single = {name: _cast(array, np.float32) for name, array in arrays.items()}
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **more) for kind, inputs, output, more in nodes],
        "conemetric",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", n_features])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", rank])],
        [numpy_helper.from_array(array, name) for name, array in single.items()],
    )
    opsets = {"ir_version": IR_VERSION, "opset_imports": [helper.make_opsetid("", OPSET)]}
    model = helper.make_model(graph, producer_name="conemetric", **opsets)
    facts = {"method": metric.method, "certificate": certificate_values(metric.certificate)}
    facts["feature_names"] = metric.feature_names
    props = {f"conemetric.{name}": json.dumps(fact) for name, fact in facts.items()}
    helper.set_model_props(model, props)
    onnx.checker.check_model(model)
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _map(metric):
    """Arrays by name, and nodes (operator, inputs, output, attributes) from X to embedding."""
    arrays, rows = {"components": metric.components, "offset": metric.offset}, "X"
    filled: list[tuple] = []
    if metric.fill is not None:
        arrays["fill"], rows = metric.fill, "complete"
        filled = [("IsNaN", ["X"], "missing", {}), ("Where", ["missing", "fill", "X"], rows, {})]
    coordinates: list[tuple] = []
    if metric.kernel is not None:
        if metric.kernel.matrix is not None:
            arrays["matrix"], arrays["shift"] = metric.kernel.matrix, metric.kernel.shift
            filled.append(("Gemm", [rows, "matrix", "shift"], "prepared", {"transB": 1}))
            rows = "prepared"
        constants, coordinates = _kernel_nodes(metric.kernel, rows)
        arrays |= constants
        rows = "coordinates"
    last = ("Gemm", [rows, "components", "offset"], "embedding", {"transB": 1})
    return arrays, [*filled, *coordinates, last]


def _kernel_nodes(kernel, rows):
    """Arrays by name, and nodes from ``rows`` to "coordinates", as `engine.kernel_map` computes them."""
    if not isinstance(kernel.kernel, str):
        raise TypeError("a kernel that is a function cannot be exported; use a named one.")
    landmarks = to_numpy(kernel.landmarks).astype(np.float64)
    arrays = {"projection": to_numpy(kernel.projection), "columns": np.array([1])}
    if kernel.kernel == "gaussian":
        # about the mean of the landmarks, which keeps digits
        arrays["centre"] = landmarks.mean(0)
        landmarks = landmarks - arrays["centre"]
        arrays["landmarks"] = landmarks.T / kernel.width**2
        arrays["sizes"] = (landmarks**2).sum(1) / (2 * kernel.width**2)
        arrays["narrowness"] = np.array([1 / (2 * kernel.width**2)])
        nodes = [
            ("Sub", [rows, "centre"], "centred", {}),
            ("Mul", ["centred", "centred"], "squares", {}),
            ("ReduceSum", ["squares", "columns"], "sums", {"keepdims": 1}),
            ("Mul", ["sums", "narrowness"], "row_sizes", {}),
            ("MatMul", ["centred", "landmarks"], "products", {}),
            ("Sub", ["products", "row_sizes"], "without_sizes", {}),
            ("Sub", ["without_sizes", "sizes"], "exponents", {}),
            ("Exp", ["exponents"], "values", {}),
        ]
    elif kernel.kernel == "laplacian":
        arrays["landmarks"] = landmarks
        arrays["last"] = np.array([2])
        arrays["width"] = np.array([-kernel.width])
        nodes = [
            ("Unsqueeze", [rows, "columns"], "alone", {}),
            ("Sub", ["alone", "landmarks"], "differences", {}),
            ("Abs", ["differences"], "sizes", {}),
            ("ReduceSum", ["sizes", "last"], "distances", {"keepdims": 0}),
            ("Div", ["distances", "width"], "exponents", {}),
            ("Exp", ["exponents"], "values", {}),
        ]
    else:
        sizes = np.linalg.norm(landmarks, axis=1, keepdims=True)
        arrays["landmarks"] = (landmarks / np.where(sizes > 0, sizes, 1)).T
        arrays["tiny"] = np.array([1e-30])
        nodes = [
            ("Mul", [rows, rows], "squares", {}),
            ("ReduceSum", ["squares", "columns"], "sums", {"keepdims": 1}),
            ("Sqrt", ["sums"], "lengths", {}),
            ("Max", ["lengths", "tiny"], "positive_lengths", {}),
            ("Div", [rows, "positive_lengths"], "units", {}),
            ("MatMul", ["units", "landmarks"], "values", {}),
        ]
    return arrays, [*nodes, ("MatMul", ["values", "projection"], "coordinates", {})]


def _cast(array, dtype):
    """Numbers in this precision; positions of axes stay integers."""
    array = np.asarray(array)
    return np.ascontiguousarray(array, np.int64 if array.dtype.kind == "i" else dtype)


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
    return {sub for direct in kind.__subclasses__() for sub in {direct, *_subclasses(direct)}}


def _output_shape(operator):
    kind = type(operator.inputs[0].type)
    rank = len(operator.raw_operator.components_)
    operator.outputs[0].type = kind([operator.inputs[0].get_first_dimension(), rank])


def _convert(scope, operator, container):
    """Add the map, in the precision of its input."""
    from skl2onnx.common.data_types import DoubleTensorType
    from skl2onnx.proto import onnx_proto

    metric = LearnedMap.from_estimator(operator.raw_operator)
    arrays, nodes = _map(metric.for_vectors("ONNX", fills=True, kernels=True))
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    kind = onnx_proto.TensorProto.DOUBLE if double else onnx_proto.TensorProto.FLOAT
    dtype = np.dtype("f8" if double else "f4")
    names = {"X": operator.inputs[0].full_name, "embedding": operator.outputs[0].full_name}
    for name, array in arrays.items():
        names[name] = scope.get_unique_variable_name(name)
        array = _cast(array, dtype)
        element = kind if array.dtype == dtype else onnx_proto.TensorProto.INT64
        container.add_initializer(names[name], element, array.shape, array.ravel())
    for node, inputs, output, more in nodes:
        if output not in names:
            names[output] = scope.get_unique_variable_name(output)
        options = {"name": scope.get_unique_operator_name("Metric"), "op_version": OPSET, **more}
        container.add_node(node, [names[name] for name in inputs], names[output], **options)
