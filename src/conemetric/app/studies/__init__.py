"""The whole job on one data set: hold rows out, prepare, learn, compare with the
Euclidean distance, keep what a report needs.
"""

from .learning import Study, run_study
from .options import Options

__all__ = ["Options", "Study", "run_study"]
