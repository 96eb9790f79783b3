"""Leave out modules whose library is not installed: doctest collection imports every file."""

from importlib.util import find_spec

NEEDS = {
    "src/conemetric/neighbours/gpu.py": "torch",
    "src/conemetric/engine/operators/torch_pairs.py": "torch",
    "src/conemetric/ranking/lexical.py": "bm25s",
}

collect_ignore = [path for path, library in NEEDS.items() if find_spec(library) is None]
