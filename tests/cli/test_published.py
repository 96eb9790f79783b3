"""Tables as people publish them: titles above and notes below the data, headers of several lines, columns
without a name. Each is read the first time, and a line says what was done, or an error says what to do.
"""

import gzip
import shlex
import sys

import numpy as np
import polars as pl
import pytest

from conemetric import FrobMetric, MetricClassifier, TableEncoder, load_metric, save_decision
from conemetric.cli.options import Supervised
from conemetric.cli.reading import csv_files
from conemetric.cli.reading.reading import Reading
from conemetric.cli.reading.tables import read_frame, read_table
from conemetric.studies.task import table_encoder

N = 24
NAMES = ["county", "pop", "share", "label"]


def rows(separator=",", n=N):
    """Lines of words, whole numbers, numbers and labels."""
    cells = ([f"c{i % 5}", str(100 + i * i), f"{i / 7 + 0.25:.2f}", "ab"[i % 2]] for i in range(n))
    return [separator.join(each) for each in cells]


HEADER = ",".join(NAMES)
PLAIN = [HEADER, *rows()]
PAGE = [
    "</pre>",
    '<div class="footer">Exported "today"</div>',
    "<p>Contact: us, them</p>",
    "</body>",
]

# by name: the lines, and words of the note; the table in them is that of `PLAIN`
LAYOUTS = {
    "plain": (PLAIN, ""),
    "a title": (["Population by county, 2014", *PLAIN], "the header in line 2"),
    "a title like the label": (["label", *PLAIN], "the header in line 2"),
    "a title, padded": (["Population,,,", "by county,,,", ",,,", *PLAIN], "the header in line 4"),
    "empty lines": (["Population", "", "", *PLAIN], "the header in line 4"),
    "comments": (["# from: a, b, c, d", "# x,y,z,w", *PLAIN], "the header in line 3"),
    "a comment mark": ([f"# {HEADER}", *rows()], ""),
    "Excel's separator": (["sep=,", *PLAIN], "the header in line 2"),
    "groups above": ([",2014,,", *PLAIN], "the header in line 2"),
    "units below": ([HEADER, ",persons,%,", *rows()], "a header that ends in line 2"),
    "types below": ([HEADER, "text,integer,float,text", *rows()], "a header that ends in line 2"),
    "two lines below": (
        [HEADER, "name,number,rate,kind", ",persons,%,", *rows()],
        "ends in line 3",
    ),
    "a source": ([*PLAIN, "Source: Bureau of the Census"], "the end before 'Source: Bureau"),
    "notes": (
        [*PLAIN, "", "Note: preliminary, may change", "* estimated"],
        "the end before 'Note: pre",
    ),
    "notes, padded": (
        [*PLAIN, ",,,", "Source: them,,,", ",,,"],
        "the end before 'Source: them,,,'",
    ),
    "a total": ([*PLAIN, "Total,99999,100.00,"], "the end before 'Total,99999"),
    "quoted notes": ([*PLAIN, '"Source: a, b, and c, d, e, f and g"'], "the end before '\"Source"),
    "a page around it": ([*PLAIN, *PAGE], "the end before"),
    "a header that comes again": (
        [*PLAIN[:9], HEADER, *PLAIN[9:]],
        "where it comes again (1 times)",
    ),
    "separators behind": ([f"{line}," for line in PLAIN], "1 column without a name or a value"),
    "separators behind rows": ([HEADER, *(f"{line},," for line in rows())], ""),
    "empty columns": (
        [f"{HEADER},,,", *(f"{line},,," for line in rows())],
        "3 columns without a name",
    ),
    "a separator behind the header": (
        [f"{HEADER},", *rows()],
        "1 column without a name or a value",
    ),
    "names in quotes": (['"county","pop","share","label"', *rows()], ""),
    "spaces in names": ([" county , pop,share ,label", *rows()], ""),
    "short rows": ([*PLAIN[:-1], "c3,629"], ""),
}


def written(path, lines, newline="\n", encoding="utf-8"):
    text = newline.join(lines) + newline
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.costly
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_table_is_found_and_a_line_says_where(tmp_path, newline):
    expected = read_table(written(tmp_path / "plain.csv", PLAIN), Supervised(label="label"))
    assert expected.X.columns == NAMES[:3] and len(expected.X) == N
    for name, (lines, said) in LAYOUTS.items():
        path = written(tmp_path / "table.csv", lines, newline)
        table = read_table(path, Supervised(label="label"))
        n = N - 1 if name == "short rows" else N  # the last one has no label
        assert table.names == NAMES[:3], (name, table.names, table.notes)
        assert table.X.to_dicts() == expected.X[:n].to_dicts(), name
        assert table.labels.tolist() == expected.labels[:n].tolist(), name
        notes = " ".join(table.notes)
        assert said in notes, (name, notes)
        assert said or "read with" not in notes, (name, notes)


def test_with_other_separators_and_encodings_too(tmp_path):
    for separator, encoding in ((";", "cp1252"), ("\t", "utf-16"), ("|", "utf-8-sig")):
        mark = separator
        for name, (lines, _) in LAYOUTS.items():
            if name in ("Excel's separator", "quoted notes", "comments", "a page around it"):
                continue
            if encoding == "utf-16" and ("note" in name or name in ("a source", "a total")):
                continue  # which is read as a whole
            path = written(
                tmp_path / "t.csv", [x.replace(",", mark) for x in lines], "\r\n", encoding
            )
            table = read_table(path, Supervised(label="label"))
            assert table.names == NAMES[:3], (name, separator, table.notes)
            assert len(table.X) == N - (name == "short rows"), (name, separator, table.notes)


def test_rows_that_look_like_titles_or_notes_stay(tmp_path):
    cases = {
        "missing values above": [HEADER, ",,,a", ",,,b", *rows()],
        "a row of names": [HEADER, "c1,,,a", *rows()],
        "a slip in the first row": [HEADER, "Smith,adult,1.8,unique", *rows()],
        "a placeholder": [HEADER, "c1,-,-,a", *rows()],
        "missing values below": [*PLAIN, "c1,5,,", "c2,,,b"],
        "a category Total": [
            HEADER,
            *(line.replace("c1", "Total") for line in rows()),
            "Total,5,6.5,a",
        ],
        "several lines in quotes": [*PLAIN, '"c1', 'and <b>more</b>, of it",7,8.5,a'],
        "text like a page in quotes": [*PLAIN, '"c1', "<p>more", '</p>",7,8.5,a', "c2,8,9.5,b"],
        "a label among the data": [HEADER, *rows(), "label,5,6.5,a"],
    }
    for name, lines in cases.items():
        path = written(tmp_path / "table.csv", lines)
        table = read_table(path, Reading(id_column=None, categorical=["county"]))
        n_rows = len(list(csv_files.sniff(path, Reading()).records(path))) - 1
        assert len(table.X) == n_rows, name
        assert n_rows > N, name


def test_a_label_that_is_no_column_is_not_taken_for_one(tmp_path):
    """Although it stands in a line further down."""
    for lines in (PLAIN, [line.replace("100", "word") for line in PLAIN]):
        path = written(tmp_path / "table.csv", lines)
        with pytest.raises(ValueError, match=r"no column 'c3'"):
            read_table(path, Supervised(label="c3"))


def test_the_label_finds_the_header_where_the_first_line_looks_like_data(tmp_path):
    years = ["county,2005,2010,label", *rows()]
    for lines in (years, ["1,2,3,4", *PLAIN], [*["x,y,z,w"] * 2, *PLAIN]):
        path = written(tmp_path / "table.csv", lines)
        table = read_table(path, Supervised(label="label"))
        assert len(table.X) == N and table.names[0] == "county", lines[0]


def test_exports_of_well_known_sources(tmp_path):
    """By name: the lines, the label, the names of the other columns, and how many rows."""
    values = [f"{i * i % 7},{i / 4}" for i in range(N)]
    kinds = ["ab"[i % 2] for i in range(N)]
    cases = {
        "World Bank": (
            [
                '"Data Source","World Development Indicators",',
                "",
                '"Last Updated Date","2014-07-01",',
                "",
            ]
            + ['"Country Name","Code","1960","1961",']
            + [f'"Country {i % 9}","{kinds[i]}","{i * 3}","{i / 8}",' for i in range(N)],
            "Code",
            ["Country Name", "1960", "1961"],
        ),
        "Qualtrics": (
            ["Progress,Q1,kind", '"Progress","How many, in 2014?\n(a number)","Which kind?"']
            + ['"{""ImportId"":""progress""}","{""ImportId"":""QID1""}","{""ImportId"":""QID2""}"']
            + [f"{value},{kind}" for value, kind in zip(values, kinds, strict=True)],
            "kind",
            ["Progress", "Q1"],
        ),
        "the census": (
            ["GEO.id,HD01,kind", "Id,Total; Estimate; 25 to 34 years,Kind of place"]
            + [f"{value},{kind}" for value, kind in zip(values, kinds, strict=True)],
            "kind",
            ["GEO.id", "HD01"],
        ),
        "SQL": (
            ["id,rate,kind", "--,----,----"]
            + [f"{value},{kind}" for value, kind in zip(values, kinds, strict=True)]
            + ["", "(24 rows affected)"],
            "kind",
            ["id", "rate"],
        ),
        "Google Trends": (
            ["Category: All categories", "", "Month,interest: (World),kind"]
            + [f"{2004 + i // 12}-{i % 12 + 1:02},{i * i % 7},{kinds[i]}" for i in range(N)],
            "kind",
            ["Month", "interest: (World)"],
        ),
        "Excel": (
            ['code,rate,"kind"'] + [f'"=""0{i % 5}""",{i / 4},{kinds[i]}' for i in range(N)],
            "kind",
            ["code", "rate"],
        ),
        "statistics of sports": (
            ["Rk,Pts,kind"]
            + [f"{value},{kind}" for value, kind in zip(values[:20], kinds, strict=False)]
            + ["Rk,Pts,kind"]
            + [f"{value},{kind}" for value, kind in zip(values[20:], kinds, strict=False)],
            "kind",
            ["Rk", "Pts"],
        ),
    }
    for name, (lines, label, names) in cases.items():
        path = written(tmp_path / "t.csv", lines)
        table = read_table(path, Supervised(label=label))
        assert table.names == names, (name, table.names, table.notes)
        assert len(table.X) == N and set(table.labels) == {"a", "b"}, (name, table.notes)
    assert table.X.shape == (N, 2) and isinstance(table.X, np.ndarray)
    path = written(tmp_path / "t.csv", cases["Excel"][0])
    assert read_table(path, Supervised(label="kind")).X[1].tolist() == [1, 0.25]


def test_a_first_line_of_a_file_without_names(tmp_path):
    lines = [
        "|1x3 Cross validator",
        *(f"{i}, c{i % 3}, {i * i}, {'ab'[i % 2]}." for i in range(N)),
        "",
    ]
    table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="column_3"))
    assert table.names == ["column_1", "column_2"] and table.labels.tolist()[:2] == ["a.", "b."]


def test_groups_above_tell_columns_with_one_name_apart(tmp_path):
    lines = [",2013,,2014,,", "county,pop,rate,pop,rate,label"]
    lines += [f"c{i % 5},{i * i},{i / 4},{i * 3},{i / 8},{'ab'[i % 2]}" for i in range(N)]
    table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="label"))
    assert table.names == ["county", "2013 pop", "2013 rate", "2014 pop", "2014 rate"]
    assert "names that occur twice as '2013 pop', '2013 rate'" in " ".join(table.notes)


def test_spaces_between_the_fields(tmp_path):
    """As R and many programs write them; a title in words is none of the columns."""
    for title in ([], ["Population by county"]):
        lines = [*title, '"county" "pop" "share" "label"']
        lines += [f'"c {i % 5}"  {100 + i * i}   {i / 7:.2f} "{"ab"[i % 2]}"' for i in range(N)]
        table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="label"))
        assert table.names == NAMES[:3] and len(table.X) == N
        assert "space as separator" in " ".join(table.notes)
    texts = [f"dark red {i % 3}" for i in range(N)]
    labels = written(tmp_path / "labels.csv", ["colour", *texts])
    path = written(tmp_path / "t.csv", [line.rpartition(",")[0] for line in PLAIN])
    assert read_table(path, Supervised(labels=labels)).labels.tolist() == texts


def test_long_fields(tmp_path):
    lines = [*PLAIN, '"' + "word " * 100_000 + '",5,6.5,a']
    assert len(read_table(written(tmp_path / "t.csv", lines), Supervised(label="label")).X) == N + 1


def test_names_of_rows_that_the_header_does_not_name(tmp_path):
    """As R writes them."""
    lines = [HEADER, *(f"row {i},{line}" for i, line in enumerate(rows()))]
    table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="label"))
    assert table.names == NAMES[:3]
    notes = " ".join(table.notes)
    assert "names of the rows in front" in notes and "Ignored: 'index': all values" in notes


def test_columns_without_a_name(tmp_path):
    header = ",county,,label"
    lines = [header, *(f"{i},c{i % 3},{i * i % 7},{'ab'[i % 2]}" for i in range(N))]
    table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="label"))
    assert table.names == ["county", "column_2"]
    notes = " ".join(table.notes)
    assert "Columns without a name are called 'index', 'column_2'." in notes
    assert "Ignored: 'index': looks like a row number" in notes


def test_names_with_quotes_line_ends_and_spaces(tmp_path):
    names = ['say ""data""', "two\nlines", "  many   spaces ", "label"]
    header = ",".join(f'"{name}"' for name in names)
    for quote in ("", '"'):
        lines = [header, *(line.replace("c1", f"{quote}c1{quote}") for line in rows())]
        table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="label"))
        assert table.names == ['say "data"', "two lines", "many spaces"]
        assert len(table.X) == N


def test_columns_with_names_that_polars_uses(tmp_path):
    names = ["value", "variable", "column", "entry", "words", "label"]
    lines = [
        ",".join(names),
        *(f"{i % 7},NA,c{i % 3},{i * i},${i % 5}.50,{'ab'[i % 2]}" for i in range(N)),
    ]
    table = read_table(written(tmp_path / "t.csv", lines), Supervised(label="label"))
    assert table.names == ["value", "column", "entry", "words"]
    assert "'NA' as missing, in 'variable'" in " ".join(table.notes)


def on_side(path, n=40):
    rng = np.random.default_rng(0)
    group = rng.integers(1, 5, n)
    lines = ["network," + ",".join(map(str, group)), "hemi," + ",".join(rng.choice(["l", "r"], n))]
    lines += ["," * n]
    lines += [f"{t}," + ",".join(map(str, (rng.normal(size=n) + group).round(3))) for t in range(9)]
    return written(path, lines), group


def test_a_table_on_its_side_is_turned(run, tmp_path):
    path, group = on_side(tmp_path / "t.csv")
    table = read_table(path, Supervised(label="network"))
    assert table.names == ["hemi", *map(str, range(9))] and len(table.X) == 40
    assert table.labels.tolist() == group.tolist()
    notes = " ".join(table.notes)
    assert "names stand in the first column" in notes and "1 column without a name" in notes
    encoder = TableEncoder().fit(table.X)
    again = read_table(path, Reading(), encoder)
    np.testing.assert_array_equal(encoder.transform(again.X), encoder.transform(table.X))


def test_new_rows_are_found_by_the_columns_that_training_used(run, tmp_path):
    """Also where the label is not there, and the first line looks like data."""
    train = read_table(written(tmp_path / "plain.csv", PLAIN), Supervised(label="label"))
    classifier = MetricClassifier(metric=None, random_state=0).fit(train.X, train.labels)
    decision = tmp_path / "decision.safetensors"
    save_decision(decision, classifier)
    expected = classifier.predict(train.X).tolist()
    for name, (lines, _) in LAYOUTS.items():
        if name == "short rows":
            continue
        path = written(tmp_path / "new.csv", lines)
        answer = run("predict", path, "--decision", decision, "--rows", "0", "--json").json
        assert [row["class"] for row in answer["predictions"]] == expected, name
    years = ["county,2005,2010,label", *rows()]
    table = read_table(written(tmp_path / "years.csv", years), Supervised(label="label"))
    encoder = TableEncoder().fit(table.X)
    only = [line.rsplit(",", 1)[0] for line in years]
    again = read_table(written(tmp_path / "new.csv", only), Reading(), encoder)
    np.testing.assert_array_equal(encoder.transform(again.X), encoder.transform(table.X))


def test_embed_finds_the_table_in_batches_too(run, tmp_path):
    train = read_table(written(tmp_path / "plain.csv", PLAIN), Supervised(label="label"))
    X = train.X.drop("county")
    metric, out = tmp_path / "metric.safetensors", tmp_path / "z.npy"
    from conemetric import save_metric

    save_metric(metric, FrobMetric().fit(X.to_numpy(), train.labels), feature_names=X.columns)
    expected = load_metric(metric).transform(X.to_numpy())
    for name in ("a title", "units below", "notes", "separators behind rows"):
        path = written(tmp_path / "new.csv", LAYOUTS[name][0])
        result = run("embed", path, "--metric", metric, "--out", out, "--overwrite")
        assert result.code == 0, (name, result.err)
        np.testing.assert_allclose(np.load(out), expected, err_msg=name)


# ---- what cannot be read


def test_what_is_no_csv_is_named(tmp_path):
    cases = {
        "a web page": b"\n<!DOCTYPE html>\n<html><body>Not found</body></html>",
        "an Excel workbook": b"PK\x03\x04 and so on",
        "a PDF": b"%PDF-1.4",
        "a Parquet file": b"PAR1\x00\x01",
        "gzipped": gzip.compress(b"a,b\n1,2\n"),
        "git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "is empty": b"\n\n",
    }
    for words, content in cases.items():
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path / "t.csv", Supervised(label="label"))


def test_errors_name_the_zipped_file_that_was_given(run, tmp_path):
    path = written(tmp_path / "table.csv.gz", PLAIN)
    result = run("learn", path, "--label", "lable", "--no-decision", "--out", tmp_path / "out")
    assert result.code == 2 and f"'{path}' has no column 'lable'" in result.err, result.err


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("t.xlsx", "save the sheet as CSV"),
        ("t.data", "rename it to end in .csv"),
        ("t.png", ".npz."),
    ],
)
def test_files_of_other_kinds_have_a_remedy(name, remedy, tmp_path):
    path = written(tmp_path / name, PLAIN)
    with pytest.raises(ValueError, match=f"is not a file this command reads; .*{remedy}"):
        read_table(path, Supervised(label="label"))


def test_errors_show_how_the_file_begins(run, tmp_path):
    faults = {
        "a field too many": [*PLAIN[:9], "1,2,3,4,5", *PLAIN[9:]],
        "no such column": [line.replace("label", "kind") for line in PLAIN],
    }
    for name, lines in faults.items():
        path = written(tmp_path / "t.csv", lines)
        result = run("learn", path, "--label", "label", "--out", tmp_path / "out")
        assert result.code == 2 and result.err.count("\n") == 1, name
        assert f"the file begins {lines[0]!r} / 'c0,100,0.25,a' / " in result.err, (
            name,
            result.err,
        )


def test_a_column_that_counts_up_is_offered_where_there_is_no_other(run, tmp_path):
    lines = ["visit so far,flow", *(f"{1871 + i},{i * i % 50}.5" for i in range(N))]
    path, out = written(tmp_path / "t.csv", lines), tmp_path / "out"
    usual = ("learn", path, "--label", "flow", "--no-decision", "--out", out)
    result = run(*usual)
    assert result.code == 2 and '--numeric "visit so far" learns from that column.' in result.err
    assert result.err.count("no column to learn from") == 1
    assert run(*usual, "--numeric", "visit so far").code == 0


def test_rows_too_wide_for_polars_are_read_or_named_wherever_they_are(run, tmp_path):
    many = rows(n=3000)
    path = written(tmp_path / "t.csv", [HEADER, *many, f"{many[0]},", *many])
    table = read_table(path, Supervised(label="label"))
    assert len(table.X) == 6001
    path = written(tmp_path / "t.csv", [HEADER, *many, f"{many[0]},x", *many])
    result = run("learn", path, "--label", "label", "--out", tmp_path / "out")
    assert result.code == 2 and "line 3002: 5 fields in a table of 4 columns" in result.err


# ---- all of it at once


def published(rng):
    """A table as lines, its label and its columns, with titles, units, notes, ... at random."""
    mark = str(rng.choice([",", ";", "\t", "|"]))
    decimal = "," if mark != "," and rng.random() < 0.5 else "."
    quoted, index, behind = (bool(rng.random() < share) for share in (0.3, 0.2, 0.15))
    n = int(rng.choice([12, 60]))

    def money(value):
        text = f"{value:,.2f}"
        return f"${text}" if decimal == "." else text.translate(str.maketrans(",.", ".,")) + " €"

    columns = {
        "town": [str(town) for town in rng.choice(["North Hill", "Old, Town", "x"], n)],
        "count": [str(each) for each in rng.integers(0, 5000, n)],
        "price": [money(each) for each in rng.uniform(1, 9999, n)],
        "day": [f"{d:02}.03.20{10 + i % 9}" for i, d in enumerate(rng.integers(1, 29, n))],
        "score": [f"{v:.3f}".replace(".", decimal) for v in rng.normal(size=n)],
        "result": [str(each) for each in rng.choice(["win", "loss"], n)],
    }
    names = [str(name) for name in rng.permutation(list(columns))]

    def field(text):
        return f'"{text}"' if quoted or mark in text else text

    def line(fields, first=""):
        return mark.join([first] * index + list(fields) + [""] * (2 * behind))

    above = ["Results", "Table 3: towns, counts and more", "", "# a comment"]
    below = ["", "Source: Office, of Statistics", "* preliminary", "(c) 2014 them"]
    units = {"count": "persons", "score": "points", "price": "EUR"}
    lines = [field(str(title)) for title in rng.choice(above, rng.integers(0, 3))]
    lines.append(line([field(name) for name in names]))
    if rng.random() < 0.3:
        lines.append(line([units.get(name, "") for name in names]))
    for i in range(n):
        lines.append(line([field(columns[name][i]) for name in names], str(i)))
    lines += [field(str(note)) for note in rng.choice(below, rng.integers(0, 3))]
    return lines, columns


def test_published_tables_of_all_kinds(tmp_path, seed):
    kinds = {
        "price": "number",
        "count": "number",
        "score": "number",
        "day": "date",
        "town": "category",
    }
    for instance in range(25):
        rng = np.random.default_rng([seed, instance])
        lines, columns = published(rng)
        newline, encoding = str(rng.choice(["\n", "\r\n"])), str(rng.choice(["utf-8", "cp1252"]))
        path = written(tmp_path / "t.csv", lines, newline, encoding)
        table = read_table(path, Supervised(label="result"))
        assert sorted(table.names) == sorted(kinds), (instance, table.notes)
        assert table.labels.tolist() == columns["result"], (instance, table.notes)
        encoder = table_encoder(table.X, table.kinds).fit(table.X)
        assert {each.name: each.kind for each in encoder.columns_} == kinds, instance
        again = read_table(path, Reading(), encoder)
        Z = encoder.transform(table.X)
        np.testing.assert_allclose(encoder.transform(again.X), Z, err_msg=str(instance))


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl"])
@pytest.mark.parametrize("name", ["wine [2019]", "a*b?", "{x,y} 5%"])
def test_a_path_is_no_pattern(name, kind, tmp_path):
    if sys.platform == "win32" and set(name) & set("*?"):
        pytest.skip("Windows allows no such name")
    table = pl.DataFrame({"x": np.arange(30.0) ** 2, "y": ["a", "b"] * 15})
    (tmp_path / name).mkdir()
    path = tmp_path / name / f"{name}.{kind}"
    if kind == "csv":
        table.write_csv(path)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(table.write_csv().encode()))
    elif kind == "parquet":
        with path.open("wb") as file:
            table.write_parquet(file)
    else:
        table.write_ndjson(path)
    (tmp_path / name / f"other.{kind}").write_bytes(path.read_bytes())
    if kind == "jsonl":
        x = read_frame(path, [])["x"]
    else:
        x = np.ravel(read_table(path, Reading(label="y")).X)
    np.testing.assert_array_equal(x, table["x"])


def with_markers(tmp_path, entry):
    """A table in which this entry stands for a missing number, and the table without it."""
    x = [entry if i % 5 == 0 else f"{i / 4:.2f}" for i in range(40)]
    path = tmp_path / "marked.csv"
    path.write_text("\n".join(["x,z,y", *(f"{x[i]},{i % 7},{'ab'[i % 2]}" for i in range(40))]))
    return path, [None if word == entry else float(word) for word in x]


@pytest.mark.parametrize("entry", ["-999", "9999", "n.b.", "?!"])
def test_a_marker_of_missing_values(entry, tmp_path):
    path, expected = with_markers(tmp_path, entry)
    table = read_table(path, Reading(label="y", missing=[entry]))
    assert table.X["x"].to_list() == expected
    assert any(f"'{entry}' as missing, in 'x'" in note for note in table.notes)


def test_a_marker_that_is_not_there_is_noted(tmp_path):
    path, _ = with_markers(tmp_path, "-999")
    table = read_table(path, Reading(label="y", missing=["-99"]))
    assert any("no entry '-99' (--missing)" in note for note in table.notes)
    binary = tmp_path / "table.parquet"
    pl.read_csv(path).write_parquet(binary)
    with pytest.raises(ValueError, match="--missing names an entry of a CSV file"):
        read_table(binary, Reading(label="y", missing=["-99"]))


def test_predict_reads_the_marker_that_learn_names(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, _ = with_markers(tmp_path, "-999")
    options = "--label", "y", "--missing", "-999", "--out", "out"
    learned = run("learn", path, *options)
    assert learned.code == 0, learned.err
    command = next(line for line in learned.out.splitlines() if "conemetric predict" in line)
    assert "--missing -999" in command
    words = shlex.split(command[command.index("conemetric predict") :])[1:]
    predicted = run(*words, "--json")
    assert predicted.code == 0, predicted.err
