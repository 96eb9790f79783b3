"""Learn a distance from labelled data, and test whether it helps.

Names are loaded at their first use, so that the import takes no time; `__init__.pyi` lists them.
"""

import re
from importlib import import_module
from importlib.util import find_spec
from os.path import splitext
from typing import Any

# not by pathlib, which takes 20 ms to import
with open(f"{splitext(__file__)[0]}.pyi", encoding="utf-8") as _stub:
    _imports = re.findall(r"from \.(\S+) import \(?\s*(\w+) as", _stub.read())
_HOME = {name: module for module, name in _imports}  # where each public name is defined
__all__ = sorted(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value  # found at once the next time
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
