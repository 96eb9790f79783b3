"""ONNX: the map as one ``Gemm``, and a converter for scikit-learn pipelines."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..core.extras import require
from ..estimators.base import MahalanobisMetric
from ..storage import LearnedMap, atomic_path, certificate_values

OPSET = 13  # the latest version of Gemm
IR_VERSION = 8  # read by every onnxruntime of recent years


def to_onnx(metric: Any, path: str | Path) -> None:
    """Write the learned map as an ONNX model.

    The model maps ``X``, float32 (n, n_features), to ``embedding``, float32 (n, rank), and
    fills missing values if the metric does. Its metadata hold the method, the certificate
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

    metric = LearnedMap.from_estimator(metric).for_vectors("ONNX", fills=True)
    rank, n_features = metric.components.shape
    arrays, nodes = _map(metric)
    single = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
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
    return arrays, [*filled, ("Gemm", [rows, "components", "offset"], "embedding", {"transB": 1})]


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
    arrays, nodes = _map(metric.for_vectors("ONNX", fills=True))
    double = isinstance(operator.inputs[0].type, DoubleTensorType)
    kind = onnx_proto.TensorProto.DOUBLE if double else onnx_proto.TensorProto.FLOAT
    dtype = np.dtype("f8" if double else "f4")
    names = {"X": operator.inputs[0].full_name, "embedding": operator.outputs[0].full_name}
    for name, array in arrays.items():
        names[name] = scope.get_unique_variable_name(name)
        container.add_initializer(names[name], kind, array.shape, array.astype(dtype).ravel())
    for node, inputs, output, more in nodes:
        if output not in names:
            names[output] = scope.get_unique_variable_name(output)
        options = {"name": scope.get_unique_operator_name("Metric"), "op_version": OPSET, **more}
        container.add_node(node, [names[name] for name in inputs], names[output], **options)
