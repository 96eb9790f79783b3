"""Fits on Dask collections: where their blocks are computed."""

from typing import Any

from .threads import Threads

__all__ = ["Cluster", "Threads"]


def __getattr__(name: str) -> Any:
    if name == "Cluster":  # needs dask.distributed
        from .cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
