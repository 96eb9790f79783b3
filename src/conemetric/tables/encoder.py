"""`TableEncoder`: a table of numbers, words, dates, times and missing values as one block of numbers per
column.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Integral, Real
from operator import add
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.atomic import atomic_fit
from ..core.extras import require
from ..core.fields import Each, Field, Named, Plain, Text, check, expect, with_parameters
from ..core.sklearn_private import Interval, StrOptions, get_output_config
from ..core.warn import warn_user
from ..core.weights import check_weights
from ..core.wording import first_few, listed
from .columns import Column, column_names, frame_of, positions, table_columns
from .kinds import KINDS, Kind, kind_from_state, learn_kind
from .spelling import Spelling
from .summaries import Summary, summarize

STORED_PARAMETERS = ("min_frequency", "missing", "dates", "sparse_output")
WORD_KINDS = [kind for kind, each in KINDS.items() if each.words]
# "auto" gives a sparse matrix of at most this share of nonzero entries, and of so many features
MOST_DENSITY = 0.1
FEWEST_SPARSE = 256


@dataclass(frozen=True)
class Block:
    """The features of one column.

    Attributes
    ----------
    column : str
    kind : str
        "number", "ordered", "category", "boolean", "date", "time"; "missing" for the block that says where
        the values of another block of the column are missing.
    features : slice
        Their place in the output.
    """

    column: str
    kind: str
    features: slice


@dataclass(frozen=True)
class TableSummary:
    """What `TableEncoder.summarize` finds in one pass over a part of a table. The sum of the
    summaries of all parts, in order, is that of the whole table.
    """

    columns: tuple[Summary, ...]
    named: bool

    def __add__(self, other: "TableSummary") -> "TableSummary":
        if self.names != other.names:
            found = f"{self.names[:9]} and {other.names[:9]}"
            raise ValueError(f"parts of one table have columns {found}.")
        return TableSummary(tuple(map(add, self.columns, other.columns)), self.named)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]


@dataclass(eq=False, repr=False, kw_only=True)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table with categories, dates and missing values as numbers whose Euclidean distance is a Gower
    distance: every column counts the same.

    Each column becomes a block of features that is centred and has a mean squared distance of 2
    between two random rows, as a standardised column has. Any metric of this library can then
    learn what the columns, and the values of a column, are worth:
    ``make_pipeline(TableEncoder(), FrobMetric())``.

    ==========  ==================================================================================
    kind        block
    ==========  ==================================================================================
    number      (x - mean) / std; also of text that spells numbers: 1,234.5, $1,243.56, ($5), 51.3%,
                12 km, 1.234,50 €, €1.2M, 2h 50m
    category    one-hot, minus its mean, divided by sqrt(sum p (1 - p)) with p the shares of the
                values; of two values one feature, at the same distances
    boolean     as a category of two values
    ordered     the rank in the order of an ordered category, as a number
    date        the time passed; where the data span two of them, also the place in the day, week
                and year (cosine and sine); also of text such as 2014-11-07, 11/7/14, 07-Nov-14,
                November 7, 2014
    time        a time of day, also of text such as 13:08 or 1:08 PM: as a number, or, where the times
                lie more than 18 hours apart, the place in the day
    missing     of a number, date or time of which 1 to 99% are missing: whether it is
    ==========  ==================================================================================

    A missing number is encoded at the column mean; a missing category is a category of its own. A
    category unseen during ``fit`` is encoded at the column mean, and a warning names it, unless so
    few are to be expected beside the rare categories of ``fit``. Columns that cannot help are left out and listed in
    ``ignored_``: constant, all missing, values that are all different, free text, row numbers.

    Parameters
    ----------
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Columns whose numbers are categories: a mask, positions or names. With "from_dtype" and
        None none are; words and categories of a data frame are words in any case.
    min_frequency : float or int, default=0.005
        Categories in a smaller share of the rows (float), or in fewer rows (int), are pooled as
        "(rare)", if there are at least two of them. With a float so are those of one row only.
    missing : {"auto", "center", "error"}, default="auto"
        "center" adds no features that say what is missing; "error" refuses missing values.
    dates : {"auto", "elapsed", "ignore"}, default="auto"
        "elapsed" uses no cycles.
    kinds : dict of str or int to str, default=None
        Kinds of columns by name or position, where the choice should be another: "number",
        "category", "boolean", "ordered", "date", "time" or "ignore". For values that were read from
        text before, the ``spelling`` of such a column in ``columns_``, so that new rows are read in the same way.
    sparse_output : bool or "auto", default="auto"
        Sparse output is moved by a constant row, which changes no distance. "auto" gives it where
        at most a tenth of 256 or more features is nonzero.

    Attributes
    ----------
    blocks_ : list of Block
        Column, kind and features of every block.
    columns_ : list
        The columns as learned; those of numbers have the ``spelling`` in which text is read.
    ignored_ : dict of str to str
        Columns left out, and why.
    n_features_in_ : int
    feature_names_in_ : array of str
        Of a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from conemetric import TableEncoder
    >>> df = pd.DataFrame({"doors": ["2", "4", "5more", "4"], "age": [3.0, None, 1.0, 7.0]})
    >>> encoder = TableEncoder().fit(df)
    >>> encoder.get_feature_names_out().tolist()
    ['doors=(rare)', 'age', 'age=(missing)']
    >>> encoder.transform(df.iloc[:, ::-1]).round(2).tolist()[1]
    [-1.0, 0.0, 1.73]
    """

    categorical_features: Any = "from_dtype"
    min_frequency: float | int = 0.005
    missing: str = "auto"
    dates: str = "auto"
    kinds: Mapping[str | int, str | Spelling] | None = None
    sparse_output: bool | str = "auto"

    _parameter_constraints = {
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "min_frequency": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="left"),
        ],
        "missing": [StrOptions({"auto", "center", "error"})],
        "dates": [StrOptions({"auto", "elapsed", "ignore"})],
        "kinds": [dict, None],
        "sparse_output": ["boolean", StrOptions({"auto"})],
    }
    _of_some_fits = ("feature_names_in_",)

    # ---- fit

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the kinds of the columns, their centres and scales.

        Parameters
        ----------
        X : data frame or array-like (n, d)
            A frame of pandas, polars or any library that narwhals reads.
        y : ignored
        sample_weight : array-like (n,), default=None

        Returns
        -------
        self
        """
        return self.fit_summary(self.summarize(X, sample_weight))

    def summarize(self, X: Any, sample_weight: Any = None) -> TableSummary:
        """What one pass over a table, or over a part of its rows, finds; `fit_summary` learns from
        the sum over all parts.
        """
        if hasattr(X, "to_delayed"):
            return self._summarize_parts(X, sample_weight)
        own_names = column_names(X)
        X = _validated(copy(self), X)  # validation sets attributes, and nothing is learned yet
        names = own_names or [f"x{i}" for i in range(X.shape[1])]
        kinds = self._given_kinds(names)
        requested = [(at, name, kinds.get(name) in WORD_KINDS) for at, name in enumerate(names)]
        weights = check_weights(sample_weight, len(X), "rows of X")
        used = weights > 0  # rows of weight 0 are as if they were not there, also their words
        summaries = []
        for column in table_columns(X, requested):
            column = replace(column, values=column.values[used])
            summaries.append(summarize(column, weights[used]))
        return TableSummary(tuple(summaries), named=own_names is not None)

    def _summarize_parts(self, X, sample_weight):
        """The sum over the partitions of a Dask collection, computed at once."""
        if sample_weight is not None:
            raise ValueError("sample_weight cannot be given with a Dask collection.")
        dask = require("dask", "cluster")
        if hasattr(X, "rechunk"):  # an array, whose parts must have all of the columns
            X = X.rechunk({1: -1})
        summary_of = dask.delayed(_summary)
        promised = [summary_of(self, part) for part in np.ravel(X.to_delayed())]
        summaries = dask.compute(*promised)
        # added up in the order of the partitions: whether a column numbers the rows shows in how
        # one part goes on from the part before
        return reduce(add, [summary for summary in summaries if summary is not None])

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit_summary(self, summary: TableSummary) -> Self:
        """Learn from a summary, as `fit` does from the table."""
        kinds = self._given_kinds(summary.names)
        n = summary.columns[0].n_rows
        if n < 2:
            raise ValueError(f"Found {n} sample(s) in X; a minimum of 2 is required.")
        if self.missing == "error":
            _refuse_gaps([each.name for each in summary.columns if each.missing])
        settings = self.get_params()
        columns: list[Kind] = []
        ignored: dict[str, str] = {}
        for column in summary.columns:
            learned = learn_kind(column, settings, kinds.get(column.name))
            if isinstance(learned, Kind):
                columns.append(learned)
            else:
                ignored[column.name] = learned
        if not columns:
            reasons = [f"{name!r}: {why}" for name, why in ignored.items()]
            raise ValueError(f"X has no column to learn from ({'; '.join(reasons[:9])}).")
        return self._store(columns, ignored, summary.names, summary.named)

    def _store(
        self, columns: list[Kind], ignored: dict[str, str], names: list[str], named: bool
    ) -> Self:
        """Set what is learned, and where the features of each column are."""
        self.columns_: list[Kind] = columns
        self.ignored_: dict[str, str] = ignored
        self.blocks_: list[Block] = []
        self._names: list[str] = names
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.array(names, object)
        start = 0
        for column in columns:
            for kind, suffixes in column.suffixes.items():
                stop = start + len(suffixes)
                self.blocks_.append(Block(column.name, kind, slice(start, stop)))
                start = stop
        self._n_features_out = start
        return self

    def _given_kinds(self, names: Sequence[str]) -> dict[str, str | Spelling]:
        """Kinds by name: those given, and "category" for categorical features."""
        kinds: dict[str, str | Spelling] = {}
        for column in self._given_categories(len(names)):
            kinds[_name(column, names, "categorical_features")] = "category"
        for column, kind in (self.kinds or {}).items():
            choices = (*KINDS, "ignore")
            if not isinstance(kind, Spelling) and kind not in choices:
                listed_choices = ", ".join(map(repr, choices))
                raise ValueError(f"kinds[{column!r}]={kind!r} is not one of {listed_choices}.")
            kinds[_name(column, names, "kinds")] = kind
        return kinds

    def _given_categories(self, n_columns: int) -> list[Any]:
        """Names or positions of the columns whose numbers are declared as categories."""
        given = self.categorical_features
        if given is None or isinstance(given, str):
            return []
        columns = np.asarray(given)
        if columns.dtype.kind != "b":
            return columns.tolist()
        if columns.shape != (n_columns,):
            mask = f"categorical_features is a mask of shape {columns.shape}"
            raise ValueError(f"{mask}; X has {n_columns} columns.")
        return np.flatnonzero(columns).tolist()

    # ---- transform

    def transform(self, X: Any) -> Any:
        """The features of a table.

        Parameters
        ----------
        X : data frame or array-like (n, d)
            From a frame columns are taken by name, in any order, if ``fit`` had names; further
            columns, and those in ``ignored_``, are not needed.

        Returns
        -------
        array or sparse array (n, n_features)
        """
        check_is_fitted(self)
        if hasattr(X, "to_delayed"):
            return self._transform_parts(X)
        columns = self._read(X)
        new = self._unseen(columns)
        if new:
            warn_user(f"X has categories not seen during fit: {new}.")
        if self.missing == "error":
            _refuse_gaps([kind.name for kind, column in columns if kind.gaps(column).any()])
        if self._sparse():
            blocks = [csr_array(kind.encode(column)[0]) for kind, column in columns]
            return hstack(blocks, format="csr")
        _, first = columns[0]
        out = np.empty((len(first.values), self._n_features_out))
        start = 0
        for kind, column in columns:
            block, centring = kind.encode(column)
            if issparse(block):  # without the centring, which would fill it
                block = block.toarray()
            stop = start + len(centring)
            out[:, start:stop] = block
            out[:, start:stop] += centring
            start = stop
        return out

    def unseen_categories(self, X: Any) -> str:
        """Words of a table that ``fit`` did not have, the first few, and what becomes of them; empty
        if there are none, or no more than new ones among the rare words are to be expected.
        """
        check_is_fitted(self)
        return self._unseen(self._read(X))

    def _unseen(self, columns: list[tuple[Kind, Column]]) -> str:
        """As `unseen_categories`, of columns that have been read."""
        told = []
        for kind, column in columns:
            words = kind.unseen(column)
            if words:
                told.append(f"{listed(words, 3)} (column '{kind.name}')")
        if not told:
            return ""
        return f"{first_few(told, 3)}; they are encoded at the column mean"

    def _read(self, X: Any) -> list[tuple[Kind, Column]]:
        """The columns that are used, each with its kind."""
        given = column_names(X)
        names = [kind.name for kind in self.columns_]
        # without names on both sides, columns go by their place
        if given is None or not hasattr(self, "feature_names_in_"):
            X = _validated(self, X, reset=False)
            places = positions(self._names, names)
        else:
            remedy = ", which was present during fit; add it under this name"
            if self.missing != "error":
                remedy += ", with missing values where it is unknown"
            places = positions(given, names, f"{remedy}.")
            _refuse_empty(X)
        wanted = [(at, k.name, k.words) for at, k in zip(places, self.columns_, strict=True)]
        return list(zip(self.columns_, table_columns(X, wanted), strict=True))

    def _transform_parts(self, X: Any) -> Any:
        """The features of a Dask collection, not yet computed."""
        k = self._n_features_out
        meta = np.empty((0, k))
        # parts are computed later: a copy keeps what is learned now; `meta` promises dense parts
        encoder = TableEncoder.from_state(self.state()).set_params(sparse_output=False)
        if not hasattr(X, "rechunk"):
            return X.map_partitions(encoder.transform, meta=meta)
        X = X.rechunk({1: -1})
        return X.map_blocks(encoder.transform, chunks=(X.chunks[0], (k,)), meta=meta)

    def _sparse(self) -> bool:
        """Whether the output is sparse."""
        framed = get_output_config("transform", self)["dense"] != "default"
        if self.sparse_output != "auto" or framed:  # frames have no sparse output
            return self.sparse_output is True
        # by the blocks, not by the rows at hand: all parts of a table get the same kind of output
        density = len(self.blocks_) / self._n_features_out  # about one nonzero entry for each block
        return self._n_features_out >= FEWEST_SPARSE and density <= MOST_DENSITY

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: ``column``, ``column=value``, ``column:day_cos``."""
        check_is_fitted(self)
        names: dict[str, None] = {}
        for kind in self.columns_:
            for suffix in itertools.chain(*kind.suffixes.values()):
                name = f"{kind.name}{suffix}"
                while name in names:  # a word may look like the name of another feature
                    name += "'"
                names[name] = None
        return np.array(list(names), object)

    def by_column(self, features: np.ndarray) -> np.ndarray:
        """Entries for each feature (..., n_features), added up for each column of the table."""
        sums = np.zeros((*features.shape[:-1], self.n_features_in_))
        for block in self.blocks_:
            sums[..., self._names.index(block.column)] += features[..., block.features].sum(-1)
        return sums

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    # ---- storage

    def state(self) -> dict[str, Any]:
        """The fitted encoder as a nested dict of JSON values and arrays."""
        check_is_fitted(self)
        return {
            "columns": [column.state() for column in self.columns_],
            "ignored": dict(self.ignored_),
            "names": list(self._names),
            "named": hasattr(self, "feature_names_in_"),
            "parameters": {name: getattr(self, name) for name in STORED_PARAMETERS},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "encoder") -> Self:
        """The encoder of such a state, after checking all of it."""
        check(state, FIELDS, within)
        columns = []
        for i, each in enumerate(state["columns"]):
            columns.append(kind_from_state(each, f"{within}.columns.{i}"))
        names = list(state["names"])
        ignored = dict(state["ignored"])
        told = Counter(column.name for column in columns)
        told.update(ignored.keys())
        once = told == Counter(names)
        expect(once, f"{within}.names", names, "each column that is used or ignored, once")
        encoder = with_parameters(cls, state["parameters"], f"{within}.parameters")
        return encoder._store(columns, ignored, names, state["named"])


FIELDS = {
    "columns": Each(Field(), least=1),
    "ignored": Named(Text()),
    "names": Each(Text(), distinct=True),
    "named": Plain(bool),
    "parameters": Field(),
}


def _name(column: Any, names: Sequence[str], argument: str) -> str:
    """The name of a column given by name or position."""
    if isinstance(column, int) and -len(names) <= column < len(names):
        return names[column]
    if column not in names:
        first = ", ".join(map(repr, names[:9]))
        raise ValueError(f"{argument} names {column!r}, which X does not have ({first}).")
    return column


def _validated(encoder, X, reset=True):
    """X as a frame with rows, or as a valid array."""
    if frame_of(X) is None:
        return validate_data(encoder, X, reset=reset, dtype=None, ensure_all_finite=False)
    _refuse_empty(X)
    validate_data(encoder, X, reset=reset, skip_check_array=True)
    return X


def _refuse_empty(frame):
    if not len(frame):
        raise ValueError("X has 0 sample(s); pass at least one row.")


def _summary(encoder, part):
    """The summary of a partition; None of one without rows."""
    if not len(part):
        return None
    return encoder.summarize(part)


def _refuse_gaps(names: list[str]) -> None:
    """Refuse the first of these columns, which have missing values."""
    if names:
        what = f"column {names[0]!r} has missing values and missing='error'"
        raise ValueError(f"Input X contains NaN: {what}.")
