"""CSV files as people write them: read back to the same frame, or refused in the file's own
words.
"""

import itertools

import numpy as np
import polars as pl
import pytest
from cases import pairs_of
from sklearn.pipeline import make_pipeline

from conemetric import (
    FrobMetric,
    MetricClassifier,
    TableEncoder,
    load_metric,
    save_decision,
    save_metric,
)
from conemetric.cli.options import Supervised
from conemetric.cli.reading.csv_files import scan_text
from conemetric.cli.reading.dialects import sniff
from conemetric.cli.reading.reading import Reading
from conemetric.cli.reading.tables import read_frame, read_table
from conemetric.studies.task import table_encoder

SEPARATORS = [",", ", ", " ,", ";", "; ", "\t", "|"]
WORDS = {"utf-8": "Żółw", "utf-8-sig": "Żółw", "cp1252": "Grüße €", "latin-1": "Grüße"}
WORDS["utf-16"] = "Żółw"


def rows_of(seed, n=40):
    """Numbers of several kinds, a label, and a word with marks of all kinds in it."""
    rng = np.random.default_rng(seed)
    kinds = np.array(["iris", "Rose", "Lily of the valley"])
    return {
        "width": np.round(rng.normal(size=n), 3).tolist(),
        "length cm": rng.integers(-5, 50, n).tolist(),
        "tiny": (rng.random(n) * 10.0 ** rng.integers(-9, 9, n)).tolist(),
        "kind": kinds[rng.integers(3, size=n)].tolist(),
        "note": [f'a, b; c | "{i}"' if i % 3 else "plain" for i in range(n)],
    }


def write(path, columns, separator, decimal, encoding, header, quoting, newline="\n"):
    """Write a CSV file by hand, so that separators may have spaces."""

    def field(value):
        text = repr(value).replace(".", decimal) if isinstance(value, float) else str(value)
        marks = {"needed": (separator.strip(" "), '"', " "), "all": ("",), "none": ()}[quoting]
        quoted = any(mark in text for mark in marks)
        return '"' + text.replace('"', '""') + '"' if quoted else text

    lines = [list(columns)] if header else []
    lines += [list(row) for row in zip(*columns.values(), strict=True)]
    text = newline.join(separator.join(map(field, line)) for line in lines) + newline
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.cases(6)
@pairs_of(separator=SEPARATORS, encoding=WORDS, decimal=(".", ","), header=(True, False))
def test_every_dialect_reads_back_to_the_same_frame(tmp_path, separator, decimal, encoding, header):
    for seed, (quoting, newline) in enumerate(itertools.product(("needed", "all"), ("\n", "\r\n"))):
        columns = rows_of(seed)
        if separator == " ,":  # nothing may follow a closing quotation mark but a separator
            columns["note"], quoting = ["plain"] * 40, "none"
            if decimal == ",":
                continue
        columns["kind"][3] = WORDS[encoding]
        path = write(
            tmp_path / "file.csv", columns, separator, decimal, encoding, header, quoting, newline
        )
        names = list(columns) if header else [f"column_{i}" for i in range(5)]
        table = read_table(path, Reading(label=names[3]))
        assert table.names == names[:3]
        expected = np.column_stack([columns[name] for name in ("width", "length cm", "tiny")])
        np.testing.assert_array_equal(table.X, expected)
        assert table.labels.tolist() == columns["kind"]
        notes = " ".join(table.notes)
        assert ("no header" in notes) == (not header)
        assert ("decimal commas" in notes) == (decimal == ",")
        unusual = encoding in ("cp1252", "latin-1", "utf-16")
        assert (f"encoding {'cp1252' if encoding == 'latin-1' else encoding}" in notes) == unusual


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_line_ends_and_empty_lines(tmp_path, newline, separator):
    columns = rows_of(0)
    path = write(tmp_path / "f.csv", columns, separator, ".", "utf-8", True, "needed", newline)
    path.write_bytes(path.read_bytes() + 2 * newline.encode())
    assert len(read_table(path, Reading(label="kind")).X) == 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n3,4\n", {"header": True}),
        ("0,1,2,y\n.5,3,2,u\n.7,1,2,v\n", {"header": True}),  # as pandas names columns
        ("0,1,2,u\n5,3,2,u\n7,1,2,v\n", {"header": False}),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n7,3.2,other\n", {"header": False}),
        ("e,x,s\np,x,s\ne,b,s\np,b,s\n", {"header": False}),  # words alone, all come again
        ("class,cap,ring\np,x,s\ne,b,s\n", {"header": True}),
        (",a,b\n0,1.5,2\n1,2.5,3\n", {"header": True}),  # an index without a name
        ("a;b\n1,5;2\n2,5;3\n", {"separator": ";", "decimal": ","}),
        ("a;b\n1,500;2\n2,250;3\n", {"separator": ";", "decimal": ","}),
        ('a,b\n"1,500",2\n"2,250",3\n', {"separator": ",", "decimal": "."}),  # thousands
        ('a,b\n"1,5",2\n"2,25",3\n', {"separator": ",", "decimal": ","}),
        ("name,x\na;b,1.5\nc;d,2.5\n", {"separator": ","}),
        ("id\nb1\nb2\n", {"separator": ",", "header": True}),
    ],
)
def test_what_is_found_out(tmp_path, text, expected):
    path = tmp_path / "f.csv"
    path.write_text(text)
    found = sniff(path, Reading())
    assert {name: getattr(found, name) for name in expected} == expected


def test_options_decide_where_the_file_leaves_room(tmp_path):
    path = tmp_path / "f.csv"
    path.write_bytes("a;b;ß\n1,234;2;x\n5,678;3;y\n".encode("latin-1"))
    reading = Reading(separator=";", decimal=".", encoding="latin-1", header=False)
    assert sniff(path, reading).decimal == "."
    assert read_table(path, Reading(label="ß")).X[0].tolist() == [1.234, 2]
    given = Reading(separator="semicolon", encoding="cp850", header=True, decimal=",")
    assert read_table(path, given).names == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--separator", ";;"), "not one character"),
        (("--decimal", "x"), "--decimal 'x'"),
        (("--encoding", "klingon"), "--encoding 'klingon' is not known"),
        (("--encoding", "ascii"), "not encoded in ascii"),
    ],
)
def test_options_that_do_not_fit(run, frame, tmp_path, options, words):
    path = tmp_path / "f.csv"
    frame.with_columns(note=pl.lit("rosé")).write_csv(path)
    result = run("learn", path, "--label", "kind", *options, "--out", tmp_path / "out")
    assert result.code == 2 and words in result.err


def test_the_command_reports_what_it_found_out(run, frame, tmp_path):
    path = tmp_path / "f.csv"
    frame.write_csv(path, separator=";", decimal_comma=True, include_header=False)
    args = ("learn", path, "--label", "column_13", "--method", "frob", "--no-decision")
    args += ("--out", tmp_path / "out")
    result = run(*args, "--json")
    assert result.json["features"] == 13, result.err
    note = next(note for note in result.json["notes"] if "read with" in note)
    for words in (
        "semicolon as separator",
        "decimal commas",
        "no header",
        "--separator",
        "column_0",
    ):
        assert words in note
    assert run(*args, "--overwrite", "--separator", "comma").code == 2
    given = ("--no-header", "--separator", ";", "--decimal", ",", "--encoding", "utf-8")
    assert run(*args, "--overwrite", *given).code == 0


# ---- faults, by line, column and value


OTHER_MARKS = [
    (";", ",", "2.877", 2877.0),
    (";", ",", "1.002.877,30", 1002877.3),
    (";", ",", "0.5", 0.5),
    (",", ".", "2,877.30", 2877.3),
    (",", ".", "2 877.30", 2877.3),
]


@pytest.mark.parametrize(("separator", "decimal", "value", "number"), OTHER_MARKS)
def test_separators_of_thousands_and_other_decimal_marks_are_read(
    tmp_path, separator, decimal, value, number
):
    path = tmp_path / "prices.csv"
    lines = [f'{i}{decimal}5{separator}"{i % 9}"{separator}02.03.{2000 + i}' for i in range(30)]
    lines[3] = f'3{decimal}5{separator}"{value}"{separator}02.03.2003'
    path.write_text("\n".join([f"size{separator}price{separator}day", *lines]))
    X = read_table(path, Supervised(label="size")).X
    assert X["price"].to_list() == [number if i == 3 else i % 9 for i in range(30)]
    X = read_table(path, Supervised(label="size", categorical=["price"])).X
    assert X["price"][3] == value


@pytest.mark.parametrize(("separator", "decimal", "value", "number"), OTHER_MARKS)
def test_new_rows_with_other_marks_are_read_as_in_training(
    run, frame, tmp_path, separator, decimal, value, number
):
    """In columns that are used as numbers; others may hold what they like."""
    rows, path, out = frame.select("f0", "f12"), tmp_path / "new.csv", tmp_path / "z.npy"
    metric, decision = tmp_path / "metric.safetensors", tmp_path / "decision.safetensors"
    save_metric(metric, make_pipeline(TableEncoder(), FrobMetric()).fit(rows, frame["kind"]))
    fitted = MetricClassifier(metric=None, random_state=0).fit(rows, frame["kind"])
    save_decision(decision, fitted)
    for header in (("f0", "f12", "other"), ("f0", "other", "f12")):
        line = separator.join((f"1{decimal}5", f'"{value}"', f"2{decimal}5"))
        path.write_text("\n".join([separator.join(header), line, line]))
        options = ("embed", path, "--metric", metric, "--out", out, "--overwrite")
        assert run(*options).code == 0
        given = {"f0": [1.5], "f12": [number if header[1] == "f12" else 2.5]}
        expected = load_metric(metric).transform(pl.DataFrame(given))
        np.testing.assert_allclose(np.load(out), np.repeat(expected, 2, axis=0))
        result = run("predict", path, "--decision", decision, "--json")
        assert result.code == 0 and "--categorical" not in str(result.json["notes"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("kind", "learned", "new"),
    [
        ("category", [0, 1, 2], [0.0, 1.0, 2.0]),  # pandas writes whole numbers beside gaps so
        ("number", [0, 1, 1], [False, True, True]),
        ("boolean", [False, True, True], [0.0, 1.0, 1.0]),
        ("category", ["False", "True", "True"], ["False", "True", "True"]),
        ("category", ["FALSE", "TRUE", "TRUE"], ["FALSE", "TRUE", "TRUE"]),
    ],
)
def test_a_file_is_read_as_a_frame_is(tmp_path, kind, learned, new, ending):
    size, path = np.arange(30) ** 2, tmp_path / f"rows.{ending}"
    rows, same = (pl.DataFrame({"size": size, "column": each * 10}) for each in (learned, new))
    encoder = TableEncoder(kinds={"column": kind}).fit(rows)
    same.write_csv(path) if ending == "csv" else same.write_parquet(path)
    table = read_table(path, Reading(), encoder)
    np.testing.assert_array_equal(encoder.transform(table.X), encoder.transform(rows))
    assert not table.notes


def test_categories_of_numbers_are_the_same_words_with_and_without_gaps(tmp_path):
    path, words = tmp_path / "rows.csv", Supervised(label="kind", categorical=["code"])
    for codes in ([3.0, 5.0, None], [3, 5, 5]):
        data = {"code": codes * 10, "size": np.arange(30) ** 2, "kind": ["a", "b", "a"] * 10}
        pl.DataFrame(data).write_csv(path)
        assert set(read_table(path, words).X["code"].drop_nulls()) == {"3", "5"}


@pytest.mark.parametrize("new", [[0, 1, 1], [0.0, 1.0, None], ["no", "yes", "yes"]])
def test_truth_values_that_a_study_learned_are_read_in_other_spellings(tmp_path, new):
    path = tmp_path / "rows.csv"
    for column in ([False, True, None if None in new else True], new):
        data = {"column": column * 10, "size": np.arange(30) ** 2, "kind": ["a", "b", "a"] * 10}
        pl.DataFrame(data, strict=False).write_csv(path)
        if column is not new:
            X = read_table(path, Supervised(label="kind")).X
            encoder = table_encoder(X).fit(X)
    table = read_table(path, Reading(), encoder)
    np.testing.assert_array_equal(encoder.transform(table.X), encoder.transform(X))
    assert not table.notes


def test_times_and_durations_are_read_as_in_python(tmp_path):
    """They were taken as missing, or an internal error."""
    seconds = (np.arange(30) ** 2 * 1_000_000).tolist()
    span = pl.Series(seconds).cast(pl.Duration("us"))
    of_day = (pl.Series(seconds) * 1000).cast(pl.Time)
    frame = pl.DataFrame({"span": span, "of_day": of_day, "kind": ["a", "b", "a"] * 10})
    path = tmp_path / "rows.parquet"
    frame.write_parquet(path)
    X = read_table(path, Supervised(label="kind")).X
    assert X["span"].to_list() == (np.arange(30) ** 2).tolist()
    encoder = TableEncoder().fit(frame.drop("kind"))
    assert [column.kind for column in encoder.columns_] == ["number", "time"]
    np.testing.assert_array_equal(table_encoder(X).fit_transform(X), encoder.transform(frame))
    new = read_table(path, Reading(), encoder).X
    np.testing.assert_allclose(encoder.transform(new), encoder.transform(frame))


def test_numbers_too_large_to_square_are_gaps_that_are_noted(tmp_path):
    size, path = (np.arange(30.0) ** 2).tolist(), tmp_path / "rows.csv"
    pl.DataFrame({"size": [*size[:-1], 1e200], "kind": ["a", "b", "a"] * 10}).write_csv(path)
    encoder = TableEncoder().fit(pl.DataFrame({"size": size}))
    for given, learned in ((Supervised(label="kind"), None), (Reading(), encoder)):
        table = read_table(path, given, learned)
        assert table.X["size"].to_list() == [*size[:-1], None]
        assert any("'size' has 1 entry that is not numeric" in note for note in table.notes)


def broken(lines, change):
    """The lines of a file with something wrong in line 5."""
    return [*lines[:4], change(lines[4]), *lines[5:]]


FAULTS = {
    "a field too many": (lambda line: "1," + line, ("line 5", "17 fields", "16 columns")),
    "a quote never closed": (
        lambda line: line.replace("dry", '"dry'),
        ("line 5", "never closed", '"dry'),
    ),
    "text after a quote": (
        lambda line: line.replace("dry", '"dry" wine'),
        ("line 5", "follows a closing"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("spaced", [False, True])
def test_a_fault_is_named_by_line_column_and_value(run, csv, tmp_path, fault, spaced):
    change, words = FAULTS[fault]
    lines = broken(csv.read_text().splitlines(), change)
    csv.write_text("\n".join(lines).replace(",", ", " if spaced else ",") + "\n")
    result = run("learn", csv, "--label", "kind", "--out", tmp_path / "out")
    assert result.code == 2 and result.err.count("\n") == 1
    for word in words:
        assert word in result.err, result.err


@pytest.mark.parametrize(
    ("digits", "many"), [*itertools.product(["٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९"], [1, 178])]
)
def test_digits_of_other_scripts_are_named(run, csv, frame, tmp_path, digits, many):
    column = frame["f12"].cast(pl.Int64).cast(pl.String).to_list()
    table = str.maketrans("0123456789", digits)
    column = [text.translate(table) if i < many else text for i, text in enumerate(column)]
    frame.with_columns(f12=pl.Series(column)).write_csv(csv)
    result = run("learn", csv, "--label", "kind", "--out", tmp_path / "out")
    assert result.code == 2 and "line 2" in result.err and "f12" in result.err
    assert column[0] in result.err and "digits 0 to 9" in result.err


@pytest.mark.parametrize("separator", [",", ";"])
def test_names_that_come_twice_are_numbered_unless_they_are_asked_for(csv, separator):
    csv.write_text(csv.read_text().replace("f3", "f1", 1).replace(",", separator))
    table = read_table(csv, Supervised(label="kind"))
    assert table.names[:5] == ["f0", "f1", "f2", "f1.1", "f4"]
    assert any("names that occur twice as 'f1.1'" in note for note in table.notes)
    with pytest.raises(ValueError, match=r"line 1: the header has 'f1' 2 times \(fields 2, 4\)"):
        read_table(csv, Supervised(label="f1"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_without_values_is_ignored_and_said_so(run, frame, tmp_path, kind):
    path = tmp_path / f"f.{kind}"
    empty = frame.with_columns(f1=pl.lit(None, pl.Float64))
    getattr(empty, f"write_{kind}")(path)
    args = ("--label", "kind", "--method", "frob", "--no-decision", "--out", tmp_path / "out")
    result = run("learn", path, *args, "--json")
    assert result.json["features"] == 12, result.err
    assert any("'f1': all missing" in note for note in result.json["notes"])


def test_an_empty_file(run, tmp_path):
    (tmp_path / "f.csv").write_text("")
    result = run("learn", tmp_path / "f.csv", "--label", "kind")
    assert result.code == 2 and "is empty" in result.err


def test_a_field_with_a_lone_quotation_mark_is_read(tmp_path):
    path = tmp_path / "f.csv"
    lines = [f'{i}.5,{i} 5" pipe,{"ab"[i % 2]}' for i in range(20)]
    path.write_text("\n".join(["x,size,y", *lines]) + "\n")
    assert len(read_table(path, Reading(label="y")).X) == 20


def test_a_backslash_before_a_quotation_mark(tmp_path):
    """As databases write them; elsewhere a field may end in a backslash."""
    path = tmp_path / "t.csv"
    lines = ["name,label", r'"H. \"Barney\", Ewell",a', r'"a\\b",b', '"c",a']
    path.write_text("\n".join(lines) + "\n")
    notes = []
    table = read_frame(path, notes)
    assert table["name"].to_list() == ['H. "Barney", Ewell', r"a\b", "c"]
    assert "quotation marks within fields after a backslash" in notes[0]
    path.write_text("\n".join(["name,label", r'"C:\dir\",a', '"c, d",b']) + "\n")
    notes = []
    assert read_frame(path, notes)["name"].to_list() == ["C:\\dir\\", "c, d"] and not notes


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("place", [0, 1, 5, 6])
@pytest.mark.parametrize("count", [1, 2])
def test_empty_lines_anywhere_are_no_rows(tmp_path, place, count, newline):
    lines = ["a,b", "1,2", "3,4", "5,6", "7,8", "9,10"]
    lines[place:place] = [""] * count
    path = tmp_path / "gaps.csv"
    path.write_bytes((newline.join(lines) + newline).encode())
    table = read_table(path, Reading(numeric=["a", "b"]))
    np.testing.assert_array_equal(table.X, np.arange(1.0, 11).reshape(5, 2))


def test_gaps_are_those_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas")
    words = sorted(pandas._libs.parsers.STR_NA_VALUES)
    path, notes = tmp_path / "gaps.csv", []
    lines = [f"{i},{word},{word}" for i, word in enumerate(words)]
    path.write_text("\n".join(["x,number,word", *lines, "99,1.5,none", "100,2,na"]))
    frame = scan_text(path, Reading(), notes).collect()
    assert frame["number"].to_list() == [None] * len(words) + [1.5, 2.0]
    assert frame["word"].to_list() == [None] * len(words) + ["none", "na"]
    assert frame.null_count().row(0) == tuple(pandas.read_csv(path).isna().sum())
    [note] = notes
    assert "read with" in note and note.endswith("as missing, in 'number', 'word'.")


@pytest.mark.parametrize("own_file", [False, True])
def test_none_is_a_gap_but_may_be_a_class(tmp_path, own_file):
    given = {"x": ["1", "None", "3", "4"], "kind": ["None", "a", "NA", "b"]}
    frame, path, labels = pl.DataFrame(given), tmp_path / "rows.csv", tmp_path / "labels.csv"
    frame.with_columns(more=pl.col("x")).write_csv(path)
    frame.select("kind").write_csv(labels)
    reading = Reading(labels=labels, ignore=["kind"]) if own_file else Reading(label="kind")
    table = read_table(path, reading)
    assert table.labels.tolist() == ["None", "a", "b"]
    assert table.X["x"].to_list() == [1.0, None, 4.0]
    assert any("'None'" in note and "as missing, in 'x'" in note for note in table.notes)
    assert any("Left out: 1 row without a label" in note for note in table.notes)
    assert any("'NA' as missing, in " in note and "'kind'" in note for note in table.notes)
    quantity = read_table(path, Reading(label="x", ignore=["kind"]))
    assert quantity.labels.tolist() == [1, 3, 4]  # of numbers it is a gap


def test_codes_with_leading_zeros_are_no_numbers(tmp_path):
    rows = [f"0{i}134,{i},{i:02},2024{i:02}10,0301234{i:02}" for i in range(1, 10)]
    rows += ["10001,10,10,20241010,0301234567"]
    path = tmp_path / "codes.csv"
    path.write_text("\n".join(["zip,n,month,day,phone", *rows]))
    read = scan_text(path, Reading(), []).collect()
    assert [kind.is_integer() for kind in read.dtypes] == [False, True, True, True, False]
    assert read["zip"].to_list()[0] == "01134"
    path.write_text("zip\n00000\n10001\n20002\n")
    read = scan_text(path, Reading(missing=["00000"]), []).collect()
    assert read["zip"].to_list() == [None, 10001, 20002]
