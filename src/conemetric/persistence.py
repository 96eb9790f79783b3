"""A learned metric in one file: safetensors with a checked JSON header; nothing in it is ever executed.

The file holds one affine map, x -> components x + offset, with scaler and PCA folded in, so that whoever loads it needs neither
the estimator nor the preprocessing. The header says where it came from: method, parameters, certificate, feature names. A
checksum over header and arrays turns every flipped bit into an error, and files appear under their name only once complete.
"""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from .arrays import to_numpy
from .estimators.base import MahalanobisMetric
from .solvers.base import Certificate, Status

FORMAT = 1
MAX_BYTES = 4 << 30  # of a file; 20,000 x 20,000 in float64 fits
MAX_HEADER = 32 << 20
KEYS = {"format", "method", "parameters", "certificate", "feature_names", "preprocessing", "shape", "notes"}


class MetricFileError(ValueError):
    """The file is not a metric this version can load; the message says what is wrong with it."""


class LearnedMetric(MahalanobisMetric):
    """A metric on its own, as loaded from a file: an affine map whose output is compared by Euclidean distance.

    It is a fitted scikit-learn transformer: put it before a `KNeighborsClassifier` in a pipeline; ``fit`` and
    `sklearn.base.clone` leave it as it is. Made by `load_metric` or `LearnedMetric.from_estimator`.

    Parameters
    ----------
    components : array (rank, n_features)
    offset : array (rank,)
        ``transform(X) = X @ components.T + offset``; distances do not depend on it.
    method : str
        Class name of the estimator that learned it.
    parameters : dict, default=None
        The parameters of that estimator.
    certificate : Certificate, default=None
        What was proven about the fit.
    feature_names : sequence of str, default=None
    preprocessing : sequence of str, default=()
        The steps folded into the map, in words.
    notes : dict, default=None
        Anything else worth keeping, as JSON values.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from conemetric import FrobMetric, LearnedMetric
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), FrobMetric()).fit(X, y)
    >>> metric = LearnedMetric.from_estimator(pipeline)
    >>> bool(abs(metric.transform(X) - pipeline.transform(X)).max() < 1e-9)
    True
    """

    def __init__(
        self,
        components,
        offset,
        *,
        method="LearnedMetric",
        parameters=None,
        certificate=None,
        feature_names=None,
        preprocessing=(),
        notes=None,
    ):
        self.components = self.components_ = components
        self.offset = offset
        self.method = method
        self.parameters = parameters
        self.certificate = self.certificate_ = certificate
        self.feature_names = feature_names
        self.preprocessing = preprocessing
        self.notes = notes
        self.n_features_in_ = components.shape[1]

    @classmethod
    def from_estimator(cls, estimator, *, feature_names=None, notes=None):
        """Fold a fitted estimator, or a pipeline of `StandardScaler`, `PCA` and an estimator, into one affine map.

        Parameters
        ----------
        estimator : fitted estimator of this library, or Pipeline that ends in one
        feature_names : sequence of str, default=None
            Names of the columns; taken from the estimator where it saw a data frame.
        notes : dict, default=None

        Returns
        -------
        LearnedMetric
        """
        if isinstance(estimator, cls):
            return estimator
        steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
        steps = [step for step in steps if step not in (None, "passthrough")]
        learned = steps[-1]
        if not isinstance(learned, MahalanobisMetric):
            raise TypeError(f"The last step is {type(learned).__name__}, which is not a metric of conemetric.")
        if feature_names is None:
            feature_names = getattr(steps[0], "feature_names_in_", None)
        components, offset = _affine(steps[0])
        for step in steps[1:]:
            A, b = _affine(step)
            components, offset = A @ components, A @ offset + b
        return cls(
            components,
            offset,
            method=type(learned).__name__,
            parameters={name: _plain(value) for name, value in learned.get_params(deep=False).items()},
            certificate=learned.certificate_,
            feature_names=None if feature_names is None else [str(name) for name in feature_names],
            preprocessing=[_in_words(step) for step in steps[:-1]],
            notes=notes,
        )

    def _validate_X(self, X, reset=False, min_samples=1):
        names = getattr(X, "columns", None)
        if self.feature_names is not None and names is not None and list(names) != list(self.feature_names):
            missing = [name for name in self.feature_names if name not in set(names)]
            fault = f"has no column {missing[0]!r}" if missing else "has other columns, or the same in another order"
            raise ValueError(f"X {fault}; select metric.feature_names first.")
        return super()._validate_X(X if names is None else X.to_numpy(), reset, min_samples)

    def fit(self, X=None, y=None):
        """Do nothing: the metric is learned already."""
        return self

    def transform(self, X):
        """Map rows to the space where the learned metric is the Euclidean one.

        Parameters
        ----------
        X : array-like (n, n_features_in_)

        Returns
        -------
        array (n, rank)
        """
        mapped = super().transform(X)
        mapped += self.offset.astype(mapped.dtype)
        return mapped

    def truncated(self, n_components):
        """The best approximation of this metric by one of ``n_components`` directions."""
        if not 1 <= n_components <= len(self.components):
            raise ValueError(f"n_components={n_components}; this metric has 1 to {len(self.components)} directions.")
        kept = {"components": self.components[:n_components], "offset": self.offset[:n_components]}
        return LearnedMetric(**{**self.get_params(deep=False), **kept})

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def __repr__(self, N_CHAR_MAX=700):
        rank, n_features = self.components.shape
        return f"<LearnedMetric of {self.method}: {n_features} features to {rank} dimensions>"


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
    arrays = {name: np.ascontiguousarray(getattr(metric, name), np.float64) for name in ("components", "offset")}
    certificate = metric.certificate
    header = json.dumps(
        {
            "format": FORMAT,
            "method": metric.method,
            "parameters": metric.parameters or {},
            "certificate": None if certificate is None else {name: _plain(value) for name, value in vars(certificate).items()},
            "feature_names": metric.feature_names,
            "preprocessing": list(metric.preprocessing),
            "shape": list(metric.components.shape),
            "notes": metric.notes or {},
        },
        allow_nan=False,
    )
    _check(_parse(header), {name: array.shape for name, array in arrays.items()}, path)
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
        raise MetricFileError(f"'{path}' has {path.stat().st_size:,} bytes; a metric file has at most {MAX_BYTES:,}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = _parse(_header_text(metadata, path))
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            _check(header, {name: tuple(part.get_shape()) for name, part in found.items()}, path)
            if {part.get_dtype() for part in found.values()} != {"F64"}:
                raise MetricFileError(f"'{path}' does not hold float64 arrays.")
            arrays = {name: file.get_tensor(name) for name in found}
    except SafetensorError as error:
        raise MetricFileError(f"'{path}' is not a metric file, or is damaged: {error}.") from error
    except (json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MetricFileError(f"'{path}' has a header that is not JSON: {error}.") from error
    if metadata.get("sha256") != _digest(metadata["conemetric"], arrays):
        raise MetricFileError(f"'{path}' was changed after it was written: its checksum does not match.")
    _check_values(arrays, path)
    certificate = header["certificate"]
    return LearnedMetric(
        arrays["components"],
        arrays["offset"],
        certificate=None if certificate is None else _certificate(certificate, path),
        **{name: header[name] for name in ("method", "parameters", "feature_names", "preprocessing", "notes")},
    )


@contextmanager
def atomic_path(path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name when the block ends well, and vanishes when it does not."""
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _umask():
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# ---- folding


def _affine(step):
    """(A, b) with transform(x) = A x + b, in float64."""
    if isinstance(step, StandardScaler):
        scale = 1 / step.scale_ if step.with_std else np.ones(step.n_features_in_)
        mean = step.mean_ if step.with_mean else np.zeros(step.n_features_in_)
        return np.diag(scale), -mean * scale
    if isinstance(step, PCA):
        A = step.components_.astype(np.float64)
        if step.whiten:
            A = A / np.sqrt(step.explained_variance_)[:, None]
        return A, -A @ step.mean_
    if isinstance(step, LearnedMetric):
        return step.components, step.offset
    if isinstance(step, MahalanobisMetric):
        step.get_mahalanobis_matrix()  # refuses a metric that is not linear in x
        A = to_numpy(step.components_).astype(np.float64)
        return A, np.zeros(len(A))
    raise TypeError(
        f"{type(step).__name__} cannot be folded into a metric file; before a metric use StandardScaler or PCA, "
        "or transform the data first and save the metric alone."
    )


def _in_words(step):
    return f"PCA({step.n_components_})" if isinstance(step, PCA) else type(step).__name__


def _plain(value):
    """``value`` as JSON can hold it; arrays and other objects become a description."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (str, int, bool, type(None))):
        return str(value) if isinstance(value, Status) else value
    if hasattr(value, "shape"):
        return f"array {tuple(value.shape)}"
    return type(value).__name__


# ---- checking


def _digest(header, arrays):
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _header_text(metadata, path):
    text = metadata.get("conemetric")
    if text is None:
        raise MetricFileError(f"'{path}' is a safetensors file, but not one that conemetric wrote.")
    if len(text) > MAX_HEADER:
        raise MetricFileError(f"'{path}' has a header of {len(text):,} characters; at most {MAX_HEADER:,} are read.")
    return text


def _parse(text):
    def refuse(constant):
        raise json.JSONDecodeError(f"{constant} is not a number", text, 0)

    return json.loads(text, parse_constant=refuse)


def _check(header, shapes, path):
    """Refuse a header that is not of this format, or that does not fit the arrays."""

    def require(condition, fault):
        if not condition:
            raise MetricFileError(f"'{path}' has a header that does not fit: {fault}.")

    require(isinstance(header, dict), "it is not an object")
    version = header.get("format")
    require(isinstance(version, int) and version >= 1, "no format number")
    require(version <= FORMAT, f"format {version} is newer than the {FORMAT} this version reads; upgrade conemetric")
    require(set(header) == KEYS, f"the keys are {sorted(map(str, header))[:12]}")
    shape = header["shape"]
    good = isinstance(shape, list) and len(shape) == 2 and all(isinstance(size, int) for size in shape)
    require(good and 1 <= shape[0] <= shape[1], f"shape is {str(shape)[:80]}")
    require(
        shapes == {"components": tuple(shape), "offset": (shape[0],)}, f"the arrays are {str(shapes)[:200]}, shape is {shape}"
    )
    names = header["feature_names"]
    if names is not None:
        require(isinstance(names, list) and all(isinstance(name, str) for name in names), "feature_names are not strings")
        require(len(names) == shape[1], f"{len(names)} feature names for {shape[1]} features")
    steps = header["preprocessing"]
    require(isinstance(steps, list) and all(isinstance(step, str) for step in steps), "preprocessing is not a list of strings")
    require(isinstance(header["method"], str) and 0 < len(header["method"]) < 200, "method is not a name")
    for name in ("parameters", "notes"):
        require(isinstance(header[name], dict), f"{name} is not an object")
    require(header["certificate"] is None or isinstance(header["certificate"], dict), "certificate is not an object")


def _check_values(arrays, path):
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise MetricFileError(f"'{path}': {name} contains NaN or infinity, so it is no metric.")


def _certificate(values, path):
    try:
        fields = {name: float(values[name]) for name in ("primal", "dual", "gap", "relative_gap", "violation")}
        if len(values) != 6:
            raise KeyError("6 fields expected")
        return Certificate(**fields, status=Status(values["status"]))
    except (KeyError, TypeError, ValueError) as error:
        raise MetricFileError(f"'{path}' has a certificate that cannot be read: {error}.") from error
