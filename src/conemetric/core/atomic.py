"""Methods that change an estimator altogether or not at all.

A fit can be refused, or interrupted, after hours of work and between any two lines. So it never
works on the estimator itself: it works on a draft, which shares the parameters and what earlier
fits learned, and the estimator takes over the whole state of the draft in one assignment at the
end. If the method raises, whatever it raises, the draft is dropped and the estimator is as it was.

A draft is a shallow copy: a method must replace what earlier fits learned, never change it in
place. `tests/test_failed_fits.py` holds every public estimator to that.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .sklearn_private import fit_context

Method = TypeVar("Method", bound=Callable[..., Any])


def atomic_fit(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Decorate a ``fit``, which returns self: it validates the parameters as scikit-learn does, and
    begins without what only some fits set.

    Classes name such attributes in ``_of_some_fits`` (a threshold, names of columns): otherwise one
    of an earlier fit would outlive a later fit that does not set it. ``prefer_skip_nested_validation``
    is False where the user's own estimators are fitted within.
    """
    validated = fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorated(method: Method) -> Method:
        return _on_draft(method, validated(method), afresh=True)

    return decorated


def atomic_update(method: Method) -> Method:
    """Decorate a method that adds to what was learned (a threshold, more rows) and returns self."""
    return _on_draft(method, method, afresh=False)


def _on_draft(method: Method, run: Callable[..., Any], afresh: bool) -> Method:
    @wraps(method)
    def atomic(self: Any, *args: Any, **kwargs: Any) -> Any:
        draft = object.__new__(type(self))
        draft.__dict__.update(vars(self))
        if afresh:
            for name in _names_of_some_fits(type(self)):
                draft.__dict__.pop(name, None)
        run(draft, *args, **kwargs)
        self.__dict__ = draft.__dict__  # one step: Ctrl-C comes before or after it
        return self

    return atomic  # type: ignore[return-value]


def _names_of_some_fits(kind: type) -> set[str]:
    """What the class and its bases declare, each only its own attributes."""
    names: set[str] = set()
    for base in kind.__mro__:
        names.update(vars(base).get("_of_some_fits", ()))
    return names
