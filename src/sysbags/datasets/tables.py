"""Tables of numbers with a column of times, CSV or Parquet, read row by row."""

from __future__ import annotations

import csv
import math
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.messages import warn
from sysbags._common.types import Array
from sysbags.errors import FileError, ParameterError, StreamWarning

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")
TIMES = ("time", "datetime", "timestamp", "date", "t")  # names of a column of times
MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}  # instead of a number, in any case
SEPARATORS = "\t;,"
POLL_SECONDS = 0.5

Row = tuple[float, Array]


class Table(NamedTuple):
    """The result of `open_table`.

    Attributes
    ----------
    name : str
        For messages.
    columns : list of str
        The columns of numbers.
    rows : iterator of (float, (p,) array)
        The time and the numbers of each row. Rows in which a number is missing or cannot be read are left
        out; a warning says how many.
    has_dates : bool
        Whether times are dates, as seconds since 1970, rather than numbers.
    """

    name: str
    columns: list[str]
    rows: Iterator[Row]
    has_dates: bool


def open_table(
    source: str | os.PathLike[str],
    *,
    time: str | None = None,
    columns: Sequence[str] | None = None,
    has_stopped: Callable[[], bool] = lambda: False,
) -> Table:
    r"""Open a table whose rows are in the order of time.

    Parameters
    ----------
    source : path or "-"
        A ``.parquet`` file, or a file or the standard input with values separated by commas, semicolons or
        tabs, whose first line has the names of the columns.
    time : str, optional
        The column of times: seconds, or dates in ISO 8601, which are UTC unless they say otherwise. By
        default a column called time, datetime, timestamp, date or t.
    columns : sequence of str, optional
        The columns of numbers; by default all others.
    has_stopped : callable, optional
        Whether to stop waiting for the standard input.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pump.csv"
    >>> _ = path.write_text("time;bar;note\n2026-01-01 00:00:00;0,5;\n2026-01-01 00:00:01;0,7;new\n")
    >>> table = open_table(path, columns=["bar"])
    >>> table.columns, [(time - 1767225600, numbers.tolist()) for time, numbers in table.rows]
    (['bar'], [(0.0, [0.5]), (1.0, [0.7])])
    """
    name = "the standard input" if source == "-" else os.fspath(source)
    if Path(source).suffix.lower() == ".parquet":
        header, records = _parquet(Path(source))
    else:
        header, records = _csv(source, name, has_stopped)
    if time is None:
        time = next((column for column in header if column.lower() in TIMES), None)
        if time is None:
            raise ParameterError(f"{name} has no column called {', '.join(TIMES)}: give its name (--time)")
    names = [column for column in header if column != time] if columns is None else list(columns)
    for column in (time, *names):
        if column not in header:
            raise ParameterError(f"{name} has no column {column!r}, but only {', '.join(header)}")
    if len({time, *names}) <= len(names):
        raise ParameterError(f"{name} needs columns that differ and are not that of times, {time!r}: {names}")
    if not names:
        raise ParameterError(f"{name} has no column of numbers beside {time!r}")
    first = next(records, None)
    if first is None:
        raise FileError(f"{name} has no row")
    places = header.index(time), [header.index(column) for column in names]
    has_dates = not _is_number(first[places[0]])
    return Table(name, names, _rows(name, header, first, records, *places), has_dates)


def _rows(
    name: str, header: list[str], first: list[Any], records: Iterator[list[Any]], time: int, places: list[int]
) -> Iterator[Row]:
    """Yield the rows that can be read; it is an error if there are fewer of them than of the others."""
    count = unread = missing = 0
    for count, record in enumerate(chain([first], records), 1):
        try:
            moment, numbers = _row(header, record, time, places)
        except ValueError as error:
            unread += 1
            example = f"row {count} of {name} has {error}"
            if 2 * unread > count:
                raise FileError(f"{example}: leave the column out (--columns)") from None
            if unread == 1:
                warn(f"{example}: this row is left out", StreamWarning)
            continue
        if np.isfinite(numbers).all():
            yield moment, numbers
        else:
            missing += 1
    if missing + unread == count:
        raise FileError(f"no row of {name} has a number in each column: give some of them (--columns)")
    if missing + unread:
        left_out = f"{missing + unread} of {count} rows of {name} were left out"
        warn(f"{left_out}: a number is missing, or cannot be read", StreamWarning)


def _row(header: list[str], record: list[Any], time: int, places: list[int]) -> Row:
    """Return the time and the numbers of a record, NaN where one is missing."""
    if len(record) != len(header):
        raise ValueError(f"{len(record)} values, but {len(header)} columns")
    place = time
    try:
        moment = _moment(record[time])
        numbers = np.empty(len(places))
        for k, place in enumerate(places):
            numbers[k] = math.nan if _is_missing(record[place]) else float(record[place])
    except (TypeError, ValueError):
        kind = "a time" if place == time else "a number"
        text = f"{record[place]!r} in the column {header[place]!r}, but it must be {kind}"
        raise ValueError(text) from None
    return moment, numbers


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _moment(value: Any) -> float:
    """Return a time in seconds, of a date since 1970."""
    if isinstance(value, str) and not _is_number(value):
        value = datetime.fromisoformat(value.strip())
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    moment = float(value)
    if not math.isfinite(moment):
        raise ValueError
    return moment


def _csv(
    source: str | os.PathLike[str], name: str, has_stopped: Callable[[], bool]
) -> tuple[list[str], Iterator[list[Any]]]:
    lines = _piped(has_stopped) if source == "-" else _stored(source)
    first = next(lines, "")
    separator = max(SEPARATORS, key=first.count)
    header = next(csv.reader([first], delimiter=separator), [])
    if not header or all(map(_is_number, header)) or len(set(header)) < len(header):
        raise FileError(f"{name} is no table: its first line must have a different name for each column")
    records = (record for record in csv.reader(lines, delimiter=separator) if record)
    if separator == ";":  # then a comma is a decimal point
        return header, ([cell.replace(",", ".") for cell in record] for record in records)
    return header, records


def _stored(path: str | os.PathLike[str]) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from file
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is no table: it must be text in UTF-8") from None


def _piped(has_stopped: Callable[[], bool]) -> Iterator[str]:
    """Yield the lines of the standard input, each when it is complete."""
    descriptor, rest = sys.stdin.fileno(), b""
    while not has_stopped():
        if not select.select([descriptor], [], [], POLL_SECONDS)[0]:
            continue
        data = os.read(descriptor, 1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        if not data and rest:
            lines = [rest]
        for line in lines:
            yield line.decode("utf-8-sig", "replace") + "\n"
        if not data:
            return


def _parquet(path: Path) -> tuple[list[str], Iterator[list[Any]]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise ParameterError(f"{path} needs pyarrow: pip install 'sysbags[export]'") from None
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise FileError(f"cannot read {path}: {error}") from None
    batches = (batch.to_pydict().values() for batch in file.iter_batches())
    return file.schema_arrow.names, (list(row) for batch in batches for row in zip(*batch, strict=True))
