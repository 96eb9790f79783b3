"""What the command lines of benchmarks share."""

import argparse
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src"


def command_parser(doc, module):
    """The parser of a benchmark's arguments, from its ``__doc__`` and ``__name__``."""
    name = module.rpartition(".")[2]
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


# ---- versions of the library


class Tree(NamedTuple):
    """A version of the library: its name in the output, and the folder that holds the package."""

    name: str
    folder: str


def add_trees(parser):
    """``--trees``: the versions of the library to measure, one after the other."""
    parser.add_argument(
        "--trees",
        nargs="+",
        type=tree,
        default=[Tree("now", str(SOURCE))],
        metavar="NAME=FOLDER",
        help="versions of the library, such as before=../before/src now=src",
    )


def tree(text):
    """The `Tree` of ``NAME=FOLDER``."""
    name, separator, folder = text.partition("=")
    path = Path(folder).resolve()
    if not (separator and (path / "conemetric").is_dir()):
        raise argparse.ArgumentTypeError(
            f"{text!r} names no version of the library; pass NAME=FOLDER, where FOLDER holds the "
            "package conemetric, such as now=src"
        )
    return Tree(name, str(path))


# ---- devices


def add_device(parser, default="cuda"):
    """``--device``: where PyTorch computes."""
    parser.add_argument(
        "--device", type=device, default=default, help="cuda or cpu (default: %(default)s)"
    )


def device(name):
    """The name of a device that can be used here."""
    if name == "cpu":
        return name
    try:
        import torch
    except ImportError:
        raise argparse.ArgumentTypeError(
            f"{name} needs PyTorch, which this Python does not have; pass --device cpu"
        ) from None
    if not torch.cuda.is_available():
        raise argparse.ArgumentTypeError(
            f"PyTorch finds no GPU for {name}; pass --device cpu to run on the processor"
        )
    return name
