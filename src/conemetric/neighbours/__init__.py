"""Who is near whom: one question, and those who answer it.

`question` states it: for each query its nearest references, of the same label and of
others. It is answered exactly on the host (`exact`), on a device (`device`) and among
sparse points (`sparse`), approximately on the host (`approximate`), or by the user
(`given`).
"""

from .given import given_neighbours
from .progress import watching_searches
from .question import Labelled, Nearest, Question
from .search import Neighbours, answer, nearest, neighbours_by_label

__all__ = [
    "Labelled",
    "Nearest",
    "Neighbours",
    "Question",
    "answer",
    "given_neighbours",
    "nearest",
    "neighbours_by_label",
    "watching_searches",
]
