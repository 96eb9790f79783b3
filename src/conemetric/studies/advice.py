"""Errors and warnings of the library, with their remedies as options of the commands."""

from typing import Any

# by parameter; what changes another one cannot be done on the command line
REMEDIES = {
    "tol": "raise --tol to accept this solution",
    "v": "try another --method",
    "method": "try another --method",
    "alpha": "raise --alpha",
}


def in_options(message: Any) -> str:
    """An error or a warning, its remedies expressed in options of the commands."""
    from ..core.advice import Advice

    if not isinstance(message, Advice):
        return str(message)
    return message.in_options(REMEDIES, f"--{message.argument.replace('_', '-')}")
