"""The whole job on one data set: hold rows out, prepare, learn, compare with the
Euclidean distance, keep what a report needs.
"""

from typing import TYPE_CHECKING, Any

from .options import Options

if TYPE_CHECKING:
    from .study import Study, run_study

__all__ = ["Options", "Study", "run_study"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import study  # at first use: the command line needs only the options for its help

    return getattr(study, name)
