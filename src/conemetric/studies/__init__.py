"""The whole job on one data set: hold rows out, learn, compare with the Euclidean distance."""

from .options import Options
from .study import Study, run_study

__all__ = ["Options", "Study", "run_study"]
