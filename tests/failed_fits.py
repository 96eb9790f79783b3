"""Ways to make a fit fail, and what an estimator is before and after it.

``PYTHONPATH=src:tests python tests/failed_fits.py`` prints the table of all public estimators and
all ways; it takes three minutes.
"""

import contextvars
import linecache
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from public_estimators import CASES, Case, Update
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import conemetric
from conemetric import watching
from conemetric.core.progress import all_or_nothing

SOURCE = str(Path(conemetric.__file__).parent)
N_MOMENTS = 20  # at which Ctrl-C is pressed
STORING = 60  # lines at the end of a fit, where what was learned is stored
SHARE_STORING = 0.3  # of the moments that are among these


# ---- what an estimator is


def contents(case: Case, estimator: Any) -> dict[str, Any]:
    """All that a failed fit could have changed, by value: attributes, parameters, what users get
    from it, and the file that it is saved in.
    """
    unfitted = not _is_fitted(estimator)
    found = {
        "attributes": {name: joblib.hash(value) for name, value in vars(estimator).items()},
        "parameters": joblib.hash(estimator.get_params(deep=True)),
        "outputs": "none" if unfitted else joblib.hash(quietly(case.outputs, estimator)),
    }
    if case.write is not None:
        found["file"] = "none" if unfitted else _file(case, estimator)
    return found


def _is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _file(case, estimator):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "saved"
        try:
            case.write(estimator, path)
        except Exception as error:  # such as a bad parameter set since
            return repr(error).replace(folder, "")
        with safe_open(path, "numpy") as file:  # its checksum is that of all arrays, too
            return file.metadata()


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of what differs."""
    parts = [name for name in before if name != "attributes" and before[name] != after[name]]
    one, other = before["attributes"], after["attributes"]
    changed = [name for name in one | other if one.get(name) != other.get(name)]
    return [*parts, *changed]


# ---- what is done to it


@dataclass(frozen=True)
class Operation:
    """A method that learns: of an unfitted estimator, or of one fitted to the first data."""

    name: str
    method: str
    taken: dict[str, Any]
    refused: dict[str, dict[str, Any]]
    fitted_before: bool
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def start(self, case: Case) -> Any:
        """A new estimator to which this is done: fitted once, and copied each time."""
        if not self.fitted_before:
            return clone(case.estimator)
        if "fitted" not in self.kept:
            estimator = quietly(clone(case.estimator).fit, **case.first)
            contents(case, estimator)  # fills what is computed on demand
            self.kept["fitted"] = deepcopy(estimator)
        return deepcopy(self.kept["fitted"])

    def run(self, estimator: Any, **changed: Any) -> Any:
        """Call the method, with some keywords replaced."""
        return getattr(estimator, self.method)(**{**self.taken, **changed})


def operations(case: Case) -> list[Operation]:
    """Everything that changes an estimator."""
    fits = [
        Operation("first fit", "fit", case.second, case.refused, False),
        Operation("second fit", "fit", case.second, case.refused, True),
    ]
    if not case.refused:  # it comes fitted, and ``fit`` does nothing
        fits = []
    updates = [_operation(update) for update in case.updates]
    return fits + updates


def _operation(update: Update) -> Operation:
    return Operation(update.method, update.method, update.taken, update.refused, True)


def quietly(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call without warnings, and without leaving anything in the context."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return contextvars.copy_context().run(call, *args, **kwargs)


# ---- ways to fail


class NotRefused(Exception):
    """What should have failed did not."""


def refused(case: Case, operation: Operation, way: str) -> list[str]:
    """What changes when keywords that are wrong in this way are refused."""
    estimator = operation.start(case)
    return _changed_by(case, estimator, lambda: operation.run(estimator, **operation.refused[way]))


def with_parameters(
    case: Case, operation: Operation, parameters: dict[str, Any], data: dict[str, Any]
) -> list[str]:
    """What changes in a fit with parameters that make it fail, which were set before it."""
    estimator = operation.start(case).set_params(**parameters)
    return _changed_by(case, estimator, lambda: operation.run(estimator, **data))


def warned(case: Case, operation: Operation) -> list[str]:
    """What changes where warnings are errors."""
    estimator = operation.start(case).set_params(**case.warning)

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            operation.run(estimator, **case.warning_data)

    return _changed_by(case, estimator, run)


def watched(case: Case, operation: Operation, error: type[BaseException]) -> list[str] | None:
    """What changes when a watcher raises at an event in the middle; None without events."""
    events: list[Any] = []
    estimator = operation.start(case)
    with watching(events.append):
        quietly(operation.run, deepcopy(estimator))
    if not events:
        return None
    left = [len(events) // 2]

    def press(event):
        left[0] -= 1
        if left[0] < 0:
            raise error

    def run():
        with watching(press), all_or_nothing():
            operation.run(estimator)

    return _changed_by(case, estimator, run)


def _changed_by(case, estimator, run):
    """What changes by something that must raise."""
    before = contents(case, estimator)
    try:
        quietly(run)
    except (Exception, KeyboardInterrupt):
        return differences(before, contents(case, estimator))
    raise NotRefused


# ---- errors at any line


@contextmanager
def raising_at(line: int | None, error: type[BaseException]) -> Iterator[list[int]]:
    """Raise an error at the line of this number that the package runs in this thread; yields a list
    whose only entry counts the lines.

    Lines that begin a ``with`` are not counted: they are visited again when the block ends, and an
    error there would keep it from being closed (a lock stays locked), which Ctrl-C never does.
    """
    lines = [0]

    def local(frame, event, argument):
        if event == "line" and not _begins_with(frame):
            lines[0] += 1
            if lines[0] == line:
                raise error
        return local

    def trace(frame, event, argument):
        return local if frame.f_code.co_filename.startswith(SOURCE) else None

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(earlier)


def _begins_with(frame):
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return text.lstrip().startswith("with ")


def moments(n_lines: int, n: int, rng: np.random.Generator) -> list[int]:
    """Lines at which to raise, in order: anywhere, and some where results are stored."""
    n_last = round(SHARE_STORING * n)
    anywhere = rng.integers(1, n_lines + 1, n - n_last)
    last = rng.integers(max(1, n_lines - STORING), n_lines + 1, n_last)
    return sorted({*anywhere.tolist(), *last.tolist()})


def struck(
    case: Case, operation: Operation, error: type[BaseException], n: int, seed: int = 0
) -> list[str]:
    """What is wrong after an error at n random lines: an estimator must be as it was, or, if the
    method returned or was about to, as if nothing had happened.
    """
    fitted = deepcopy(operation.start(case))  # copies of copies have arrays in the same order
    whole = deepcopy(fitted)
    quietly(operation.run, whole)  # compiles what has to be
    counted = deepcopy(fitted)
    with raising_at(None, error) as lines:
        quietly(operation.run, counted)
    contents(case, fitted)
    before = contents(case, fitted)
    done = contents(case, whole)
    faults = []
    for line in moments(lines[0], n, np.random.default_rng(seed)):
        estimator = deepcopy(fitted)
        returned = False
        try:
            with raising_at(line, error):
                quietly(operation.run, estimator)
            returned = True
        except error:
            pass
        changed = _wrong(before, contents(case, estimator), done, returned)
        faults += [f"line {line}: {name}" for name in changed]
    return faults


def signalled(case: Case, operation: Operation, n: int, seed: int = 0) -> list[str]:
    """What is wrong after n real signals, each at a random time of the method."""
    fitted = deepcopy(operation.start(case))
    whole = deepcopy(fitted)
    quietly(operation.run, whole)
    began = time.perf_counter()
    quietly(operation.run, deepcopy(fitted))
    seconds = time.perf_counter() - began
    contents(case, fitted)
    before = contents(case, fitted)
    done = contents(case, whole)
    faults = []
    for after in np.random.default_rng(seed).uniform(0, seconds, n).tolist():
        estimator = deepcopy(fitted)
        returned = False
        try:
            with ctrl_c_after(max(after, 1e-6)):
                quietly(operation.run, estimator)
                returned = True
        except (KeyboardInterrupt, Exception):  # NumPy turns it into a TypeError here and there
            pass
        changed = _wrong(before, contents(case, estimator), done, returned)
        faults += [f"after {after:.3g} s: {name}" for name in changed]
    return faults


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    """Interrupt the block after so many seconds, unless it has ended."""

    def press(number, frame):
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGALRM, press)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _wrong(before, after, done, returned):
    """What is wrong with the contents after an error: they must be those before it, or of a method
    that is done.
    """
    if returned:  # a solver keeps its best point so far, for one
        complete = after["attributes"].keys() == done["attributes"].keys()
        return [] if complete else ["it returned without some attributes"]
    if after["outputs"] == done["outputs"] != before["outputs"]:
        return []
    return differences(before, after)


# ---- the table

WAYS = {
    "missing values": "refused",
    "one class": "refused",
    "rows all alike": "refused",
    "too few rows": "refused",
    "wrong number of labels": "refused",
    "a missing label": "refused",
    "unreadable rows": "refused",
    "other features": "refused",
    "not a number": "refused",
    "a bad parameter": "bad",
    "what was passed raises": "broken",
    "a warning is an error": "warning",
    "a watcher raises": ValueError,
    "Ctrl-C at an iteration": KeyboardInterrupt,
}


def cell(case: Case, operation: Operation, way: str) -> list[str] | None:
    """What is changed by this way to fail; None where it does not apply."""
    if way in operation.refused:
        return refused(case, operation, way)
    how = WAYS[way]
    if isinstance(how, type):
        return watched(case, operation, how)
    if operation.method != "fit" or how == "refused":
        return None
    if how == "warning":
        return warned(case, operation) if case.warning or case.warning_data else None
    if not getattr(case, how):
        return None
    data = case.broken_data if how == "broken" else {}
    return with_parameters(case, operation, getattr(case, how), data)


def main():
    """Print the table."""
    print(
        "estimator | operation | "
        + " | ".join([*WAYS, f"Ctrl-C at {N_MOMENTS} lines", "no memory at 10 lines"])
    )
    for name, case in CASES.items():
        for operation in operations(case):
            cells = []
            for way in WAYS:
                try:
                    cells.append(cell(case, operation, way))
                except NotRefused:
                    cells.append(["NOT REFUSED"])
            cells.append(struck(case, operation, KeyboardInterrupt, N_MOMENTS))
            cells.append(struck(case, operation, MemoryError, N_MOMENTS // 2))
            words = ["-" if each is None else "; ".join(each) or "unchanged" for each in cells]
            print(f"{name} | {operation.name} | {' | '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
