"""Tables of numbers with times: separators, dates, Parquet, missing values, and mistakes."""

from __future__ import annotations

import datetime
import os
import sys

import numpy as np
import pytest

from sysbags._common.messages import collect_warnings
from sysbags.datasets.tables import open_table
from sysbags.errors import FileError, ParameterError

SECOND = datetime.datetime(2026, 3, 9, 10, 14, 33, tzinfo=datetime.UTC).timestamp()


def read(path, **options):
    table = open_table(path, **options)
    with collect_warnings():
        rows = list(table.rows)
    return table.columns, [time for time, _ in rows], np.array([numbers for _, numbers in rows]).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "time,a,b\n0,1.5,2\n0.5,3,-4e1\n",
        "Time\ta\tb\r\n0\t1.5\t2\r\n0.5\t3\t-40\r\n",
        "\ufefft;a;b\n0;1,5;2\n0,5;3;-40\n",
        'timestamp,"a",b\n0,"1.5",2\n\n0.5,3,-40',
        "a,time,b\n1.5,0,2\n,0.25,1\n7,0.3,nan\n3,0.5,-40\n",  # rows with a missing number are left out
    ],
)
def test_texts(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode())
    assert read(path) == (["a", "b"], [0.0, 0.5], [[1.5, 2.0], [3.0, -40.0]])


@pytest.mark.parametrize(
    "texts",
    [
        ("2026-03-09 10:14:33", "2026-03-09 10:14:34.5"),
        ("2026-03-09T10:14:33Z", "2026-03-09T11:14:34.5+01:00"),
    ],
)
def test_dates(tmp_path, texts):
    path = tmp_path / "table.csv"
    path.write_text("when,a\n" + "".join(f"{text},1\n" for text in texts))
    table = open_table(path, time="when")
    assert table.has_dates
    assert [time for time, _ in table.rows] == [SECOND, SECOND + 1.5]


def test_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    moments = [datetime.datetime(2026, 3, 9, 10, 14, 33 + k) for k in range(3)]
    columns = {"time": moments, "a": [1.0, None, 3.0], "b": [4, 5, 6], "note": ["x", "y", "z"]}
    pq.write_table(pa.table(columns), path)
    assert read(path, columns=["b", "a"]) == (["b", "a"], [SECOND, SECOND + 2.0], [[4.0, 1.0], [6.0, 3.0]])
    path.write_bytes(b"PAR1 no")
    with pytest.raises(FileError, match="cannot read"):
        open_table(path)


def test_the_standard_input_line_by_line(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as file:
        monkeypatch.setattr(sys, "stdin", file)
        os.write(writing, b"time,a\n0,1\n1,2\n2,")
        table = open_table("-")
        assert [next(table.rows)[1][0], next(table.rows)[1][0]] == [1.0, 2.0]  # before the third is there
        os.write(writing, b"3")
        os.close(writing)
        assert [numbers[0] for _, numbers in table.rows] == [3.0]


def test_the_standard_input_is_not_waited_for_after_a_stop(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as file:
        monkeypatch.setattr(sys, "stdin", file)
        os.write(writing, b"time,a\n0,1\n")
        stopped = []
        table = open_table("-", has_stopped=lambda: bool(stopped))
        stopped.append(True)
        assert len(list(table.rows)) == 1
        os.close(writing)


@pytest.mark.parametrize(
    ("text", "options", "kind", "sentence"),
    [
        ("x,a\n0,1\n", {}, ParameterError, r"no column called .* give its name \(--time\)"),
        ("x,a\n0,1\n", {"time": "y"}, ParameterError, "no column 'y', but only x, a"),
        ("time,a\n0,1\n", {"columns": ["b"]}, ParameterError, "no column 'b', but only time, a"),
        ("time\n0\n", {}, ParameterError, "no column of numbers beside 'time'"),
        ("0,1\n1,2\n", {}, FileError, "its first line must have a different name for each column"),
        ("time,a,a\n0,1,2\n", {}, FileError, "a different name for each column"),
        ("", {}, FileError, "a different name for each column"),
        ("time,a\n", {}, FileError, "has no row"),
        ("time,a\n1\n", {}, FileError, "row 1 of .* has 1 values, but 2 columns"),
        (
            "time,a\n0,1\n1,on\n2,on\n",
            {},
            FileError,
            "row 3 .* 'on' in the column 'a', but it must be a number",
        ),
        (
            "time,a\n0,1\nlater,1\nlater,1\n",
            {},
            FileError,
            "'later' in the column 'time', but it must be a time",
        ),
        ("time,a\n0,1\nnan,1\nnan,2\n", {}, FileError, "'nan' in the column 'time', but it must be a time"),
        ("time,a\n0,\n1,NA\n", {}, FileError, "no row of .* has a number in each column"),
        ("time,a\n0,1\n", {"columns": ["a", "a"]}, ParameterError, "needs columns that differ"),
        ("time,a\n0,1\n", {"columns": ["a", "time"]}, ParameterError, "are not that of times, 'time'"),
        ("time,a\n0,\xe4\n", {}, FileError, "must be text in UTF-8"),
    ],
)
def test_mistakes(tmp_path, text, options, kind, sentence):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1"))
    with collect_warnings(), pytest.raises(kind, match=sentence):
        list(open_table(path, **options).rows)


def test_rows_that_cannot_be_read_are_left_out(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("time,a,b\n0,1,2\n1,ERR,2\n2,NA,2\n3,1\n4,-,2\n5,3,4\n6,5,6\nlater,5,6\n")
    with collect_warnings() as texts:
        rows = list(open_table(path).rows)
    assert [(time, numbers.tolist()) for time, numbers in rows] == [(0, [1, 2]), (5, [3, 4]), (6, [5, 6])]
    assert "row 2 of" in texts[0]
    assert "'ERR' in the column 'a'" in texts[0]
    assert texts[1:] == [f"5 of 8 rows of {path} were left out: a number is missing, or cannot be read"]


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        open_table(tmp_path / "none.csv")
