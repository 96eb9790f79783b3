"""Options that several commands have, each written once."""

from pathlib import Path
from typing import Annotated

import typer

DataArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, npy or npz file, or iris, wine, wdbc or digits (default). A pattern "
        "(quoted) names many Parquet files, learned from partition by partition.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column (or npz array) that holds the classes."),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="npy, CSV or text file with one label per row, instead of --label."
    ),
]
Target = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="What the labels are: classes, continuous (a quantity: regression), or auto, by "
        "their look.",
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column that names the rows; unique."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Column to learn from although it looks like row numbers; may be repeated.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing or infinite values.")
]
Impute = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Fill missing values by the mean or the median of their column in the training rows.",
    ),
]
OneHot = Annotated[
    bool,
    typer.Option("--one-hot", help="Learn from columns of words too: a feature for each value."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are there already.")
]
Pairs = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Learn from pairs: a file of id, id, same."),
]
Triplets = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Learn from triplets: a file of id, id, id; the first is nearer the second.",
    ),
]
Scale = Annotated[
    str, typer.Option(metavar="HOW", help="Standardise the columns: auto, standard or none.")
]
Pca = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Reduce to this many principal components first."),
]
Neighbours = Annotated[
    int,
    typer.Option(
        "-k", "--neighbors", metavar="K", min=1, help="Neighbours that vote when judging."
    ),
]
TestSize = Annotated[
    float, typer.Option(metavar="SHARE", min=0.01, max=0.9, help="Share held out to judge on.")
]
Tolerance = Annotated[
    float, typer.Option(metavar="GAP", min=0, help="Certified relative gap to stop at.")
]
MaxTestRows = Annotated[
    int, typer.Option(metavar="N", min=10, help="Judge on at most this many held-out rows.")
]
MaxRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=10,
        help="Learn from at most this many rows, drawn class by class; default: all, or as many "
        "as take minutes.",
    ),
]
