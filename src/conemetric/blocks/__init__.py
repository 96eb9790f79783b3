"""Fits on Dask collections: where their blocks are computed."""

from .threads import Threads

__all__ = ["Cluster", "Threads"]


def __getattr__(name: str):
    if name == "Cluster":  # needs dask.distributed
        from .cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
