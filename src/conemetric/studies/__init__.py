"""The whole job on one data set: hold rows out, learn, compare with the Euclidean distance."""

from typing import TYPE_CHECKING, Any

from .options import Options

if TYPE_CHECKING:
    from .study import Study, run_study

__all__ = ["Options", "Study", "run_study"]


def __getattr__(name: str) -> Any:
    # loaded when used, so that the command starts, and shows its help, without scikit-learn
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import study

    return getattr(study, name)
