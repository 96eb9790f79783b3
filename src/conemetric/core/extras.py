"""Libraries that only some users need: imported on first use, and named by their extra
where they are missing.
"""

import importlib
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import ``module``, or say which extra of conemetric brings it.

    Parameters
    ----------
    module : str
        Full name, as in ``matplotlib.pyplot``.
    extra : str
        The extra that brings it, as in ``cli``.

    Returns
    -------
    module

    Examples
    --------
    >>> from conemetric.core.extras import require
    >>> require("json", "cli").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:  # a fault inside the library
            raise
        raise ImportError(
            f"{package} is not installed; get it by: python -m pip install 'conemetric[{extra}]'",
            name=package,
        ) from error
