"""Optional libraries: imported on first use; if one is missing, the error names its extra."""

import importlib
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import ``module``, by its full name, and return it.

    If its library is not installed, the error names the extra of conemetric that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:  # the library is there, and one that it imports is missing
            raise
        raise ImportError(
            f"{package} is not installed; get it by: python -m pip install 'conemetric[{extra}]'",
            name=package,
        ) from error
