"""A learned metric in one file: safetensors with a checked JSON header; nothing in it
is ever executed.

The file holds one affine map, x -> components x + offset, with scaler and PCA folded
in, what stands for missing values, and the words that columns of words were expanded to,
so that whoever loads it needs neither the estimator nor the preprocessing. The header
says where it came from: method, parameters, certificate, feature names. A
checksum over header and arrays turns every flipped bit into an error, and files appear
under their name only once complete.
"""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from ..problems.base import Bounds
from ..solvers.base import Certificate, Status
from .atomic import atomic_path
from .learned import LearnedMetric, certificate_values, columns_of, expanded

FORMAT = 2
MAX_BYTES = 4 << 30  # of a file; 20,000 x 20,000 in float64 fits
MAX_HEADER = 32 << 20
BLOCK = 1 << 20  # numbers read at a time for the checksum
MOST = 1e150  # size of a number whose square is one
ROUNDING = 1e-6  # by which a relative gap of a feasible point may be negative
KEYS = {
    "format",
    "method",
    "parameters",
    "certificate",
    "feature_names",
    "preprocessing",
    "categories",
    "shape",
    "notes",
}


class MetricFileError(ValueError):
    """The file is not a metric this version can load; the message says what is wrong with it."""


def save_metric(path, estimator, *, feature_names=None, notes=None):
    """Write a learned metric to one safetensors file, whole or not at all.

    Parameters
    ----------
    path : str or path
    estimator : fitted estimator, Pipeline that ends in one, or LearnedMetric
    feature_names : sequence of str, default=None
    notes : dict, default=None
        Anything else worth keeping, as JSON values.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric, load_metric, save_metric
    >>> X, y = load_iris(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "iris.safetensors")
    >>> save_metric(path, FrobMetric().fit(X, y))
    >>> metric = load_metric(path)
    >>> metric.method, metric.transform(X).shape[0], metric.certificate.status.value
    ('FrobMetric', 150, 'converged')
    >>> folder.cleanup()
    """
    metric = LearnedMetric.from_estimator(estimator, feature_names=feature_names, notes=notes)
    arrays = {
        name: np.ascontiguousarray(getattr(metric, name), np.float64)
        for name in ("components", "offset", "fill")
        if getattr(metric, name) is not None
    }
    header = json.dumps(
        {
            "format": FORMAT,
            "method": metric.method,
            "parameters": metric.parameters or {},
            "certificate": certificate_values(metric.certificate),
            "feature_names": metric.feature_names,
            "preprocessing": list(metric.preprocessing),
            "categories": metric.categories,
            "shape": list(metric.components.shape),
            "notes": metric.notes or {},
        },
        allow_nan=False,
    )
    _check(_parse(header, path), {name: array.shape for name, array in arrays.items()}, path)
    _check_values(arrays, path)
    metadata = {"conemetric": header, "sha256": _digest(header, arrays)}
    with atomic_path(path) as temporary:
        temporary.write_bytes(to_safetensors(arrays, metadata))


def load_metric(path):
    """Read a metric written by `save_metric`, checking everything before it is used.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LearnedMetric

    Raises
    ------
    MetricFileError
        When the file is not one, is damaged, or was written by a later format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no metric file at '{path}'.")
    if path.stat().st_size > MAX_BYTES:
        raise MetricFileError(
            f"'{path}' has {path.stat().st_size:,} bytes; a metric file has at most {MAX_BYTES:,}."
        )
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = _parse(_header_text(metadata, path), path)
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            _check(header, {name: tuple(part.get_shape()) for name, part in found.items()}, path)
            if {part.get_dtype() for part in found.values()} != {"F64"}:
                raise MetricFileError(f"'{path}' does not hold float64 arrays.")
            if metadata.get("sha256") != _digest(metadata["conemetric"], found):
                raise MetricFileError(
                    f"'{path}' was changed after it was written: its checksum does not match."
                )
            arrays = {name: file.get_tensor(name) for name in found}
    except SafetensorError as error:
        raise MetricFileError(f"'{path}' is not a metric file, or is damaged: {error}.") from error
    _check_values(arrays, path)
    certificate = header["certificate"]
    return LearnedMetric(
        **arrays,
        certificate=None if certificate is None else _certificate(certificate, path),
        **{
            name: header[name]
            for name in (
                "method",
                "parameters",
                "feature_names",
                "preprocessing",
                "categories",
                "notes",
            )
        },
    )


# ---- checking


def _digest(header, arrays):
    """Checksum of header and arrays, or of slices of a file; these are read in blocks, so
    that a damaged file is refused before it fills memory.
    """
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        shape = array.shape if isinstance(array, np.ndarray) else array.get_shape()
        step = max(1, BLOCK // max(1, math.prod(shape[1:])))
        for start in range(0, shape[0], step):
            rows = np.ascontiguousarray(array[start : min(start + step, shape[0])])
            digest.update(rows.data)
    return digest.hexdigest()


def _header_text(metadata, path):
    text = metadata.get("conemetric")
    if text is None:
        raise MetricFileError(f"'{path}' is a safetensors file, but not one that conemetric wrote.")
    if len(text) > MAX_HEADER:
        raise MetricFileError(
            f"'{path}' has a header of {len(text):,} characters; at most {MAX_HEADER:,} are read."
        )
    return text


def _parse(text, path):
    def refuse(constant):
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # integers of thousands of digits, too
        raise MetricFileError(f"'{path}' has a header that is not JSON: {error}.") from error


def _check(header, shapes, path):
    """Refuse a header that is not of this format, or that does not fit the arrays."""

    def require(condition, fault):
        if not condition:
            raise MetricFileError(f"'{path}' has a header that does not fit: {fault}.")

    require(isinstance(header, dict), "it is not an object")
    version = header.get("format")
    require(isinstance(version, int) and version >= 1, "no format number")
    require(
        version <= FORMAT,
        f"format {version} is newer than the {FORMAT} this version reads; upgrade conemetric",
    )
    if version == 1:  # before words and missing values were kept
        header.setdefault("categories", None)
    require(set(header) == KEYS, f"the keys are {sorted(map(str, header))[:12]}")
    shape = header["shape"]
    good = (
        isinstance(shape, list) and len(shape) == 2 and all(isinstance(size, int) for size in shape)
    )
    require(good and 1 <= shape[0] <= shape[1], f"shape is {str(shape)[:80]}")
    expected = {"components": tuple(shape), "offset": (shape[0],)}
    if "fill" in shapes:
        expected["fill"] = (shape[1],)
    require(shapes == expected, f"the arrays are {str(shapes)[:200]}, shape is {shape}")
    names = header["feature_names"]
    if names is not None:
        require(
            isinstance(names, list) and all(isinstance(name, str) for name in names),
            "feature_names are not strings",
        )
        require(len(names) == shape[1], f"{len(names)} feature names for {shape[1]} features")
    categories = header["categories"]
    if categories is not None:
        good = isinstance(categories, dict) and all(
            isinstance(values, list) and all(isinstance(value, str) for value in values)
            for values in categories.values()
        )
        require(good and names is not None, "categories are not lists of words of named columns")
        columns = columns_of(names, categories)
        require(
            set(categories) <= set(columns) and expanded(columns, categories) == names,
            "categories differ from feature_names",
        )
    steps = header["preprocessing"]
    require(
        isinstance(steps, list) and all(isinstance(step, str) for step in steps),
        "preprocessing is not a list of strings",
    )
    require(
        isinstance(header["method"], str) and 0 < len(header["method"]) < 200,
        "method is not a name",
    )
    for name in ("parameters", "notes"):
        require(isinstance(header[name], dict), f"{name} is not an object")
    require(
        header["certificate"] is None or isinstance(header["certificate"], dict),
        "certificate is not an object",
    )


def _check_values(arrays, path):
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise MetricFileError(f"'{path}': {name} contains NaN or infinity, so it is no metric.")
        if abs(array).max(initial=0.0) > MOST:
            raise MetricFileError(
                f"'{path}': {name} is larger than distances can be computed with."
            )


def _certificate(values, path):
    """The certificate of a header, unless no fit can have given it."""

    def refuse(fault):
        raise MetricFileError(f"'{path}' has a certificate that cannot be true: {fault}.")

    try:
        primal, dual, gap, relative_gap, violation = (
            float(values[name]) for name in ("primal", "dual", "gap", "relative_gap", "violation")
        )
        status = Status(values["status"])
        if len(values) != 6:
            raise KeyError("6 fields expected")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise MetricFileError(
            f"'{path}' has a certificate that cannot be read: {error}."
        ) from error
    certificate = Certificate.from_bounds(Bounds(primal, dual, violation), status)
    if not (violation >= 0 and math.isclose(gap, certificate.gap, rel_tol=1e-9)):
        refuse(f"primal {primal}, dual {dual}, gap {gap}, violation {violation}")
    if not math.isclose(relative_gap, certificate.relative_gap, rel_tol=1e-9):
        refuse(f"the relative gap is {certificate.relative_gap}, not {relative_gap}")
    if violation == 0 and relative_gap < -ROUNDING:
        refuse(f"the objective {primal} is below the bound {dual}")
    return certificate
