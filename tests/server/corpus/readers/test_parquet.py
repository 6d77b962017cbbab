"""Columns of every type as metadata, or refused by their names."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus import read_documents
from pocketquery.server.corpus.readers.document_groups import read_document_groups

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (extra shards)")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (extra shards)")

DAY, NOON = dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 12, 0, 0, 500)
COLUMNS: dict[str, tuple[Any, Any]] = {  # a column, and what its metadata are
    "date": (pa.array([DAY]), "2024-01-31"),
    "date64": (pa.array([DAY], pa.date64()), "2024-01-31"),
    "timestamp": (pa.array([NOON], pa.timestamp("us")), "2024-01-31T12:00:00.000500"),
    "seconds": (pa.array([NOON], pa.timestamp("s")), "2024-01-31T12:00:00"),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), "1970-01-01T00:00:00"),
    "zone": (
        pa.array([NOON], pa.timestamp("ns", tz="Europe/Oslo")), "2024-01-31T13:00:00.000500+01:00",
    ),
    "offset": (pa.array([NOON], pa.timestamp("ms", tz="+02:00")), "2024-01-31T14:00:00+02:00"),
    "time": (pa.array([dt.time(9, 30)]), "09:30:00"),
    "time of nanoseconds": (pa.array([1001], pa.time64("ns")), "00:00:00.000001"),
    "duration": (pa.array([dt.timedelta(days=1, milliseconds=5)]), 86400.005),
    "duration of nanoseconds": (pa.array([10**9 + 1], pa.duration("ns")), 1.0),
    "whole decimal": (pa.array([Decimal("12.00")]), 12),
    "decimal": (pa.array([Decimal("1.10")]), 1.1),
    "long decimal": (pa.array([Decimal("0.1234567890123456789")]), "0.1234567890123456789"),
    "binary text": (pa.array(["é".encode()]), "é"),
    "categories": (pa.array(["a"]).dictionary_encode(), "a"),
    "half": (pa.array([1.5], pa.float16()), 1.5),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), 2**64 - 1),
    "list": (pa.array([[DAY, None]]), ["2024-01-31", None]),
    "large list": (pa.array([["x"]], pa.large_list(pa.large_string())), ["x"]),
    "empty list": (pa.array([[]], pa.list_(pa.int8())), []),
    "object": (pa.array([{"a": {"b": [DAY]}}]), {"a": {"b": ["2024-01-31"]}}),
    "map": (pa.array([[("k", DAY)]], pa.map_(pa.string(), pa.date32())), {"k": "2024-01-31"}),
    "map of numbers": (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), {"1": 2}),
    "true": (pa.array([True]), True),
}  # fmt: skip
BAD: dict[str, tuple[Any, str]] = {
    "bytes": (pa.array([b"\xff\xfe"]), "2 bytes that are not UTF-8"),
    "not a number": (pa.array([float("nan")]), "the number nan"),
    "a key twice": (
        pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8())),
        "a map with a key twice",
    ),
    "infinite": (pa.array([[1.0, float("inf")]]), "the number inf"),
    "bytes inside": (pa.array([{"a": [b"\xff"]}]), "bytes that are not UTF-8"),
    "year": (pa.array([400_000_000], pa.date32()), "out of range"),
}


def written(path: Path, rows: int = 1, **columns: Any) -> Path:
    ids = pa.array([str(number) for number in range(rows)])
    texts = columns.pop("text", pa.array(["a text"] * rows))
    pq.write_table(pa.table({"_id": ids, "text": texts, **columns}), path)
    return path


def test_every_type_has_a_form_in_json(tmp_path: Path) -> None:
    columns = {name: column for name, (column, _) in COLUMNS.items()} | {"null": pa.nulls(1)}
    (document,) = read_documents(written(tmp_path / "c.parquet", **columns))
    assert dict(document.metadata) == {name: value for name, (_, value) in COLUMNS.items()}
    assert json.loads(json.dumps(document.metadata)) == document.metadata


@pytest.mark.parametrize("name", BAD)
def test_what_has_none_is_refused_by_the_columns_name(tmp_path: Path, name: str) -> None:
    column, found = BAD[name]
    three = pa.concat_arrays([column.take(pa.array([None], pa.int64()))] * 2 + [column])
    path = written(tmp_path / "c.parquet", 3, **{name: three})
    where = "row 1" if name == "year" else "row 3"  # pyarrow refuses the whole column
    with pytest.raises(CorpusError, match=f"c.parquet, {where}: the column '{name}'.*{found}") as e:
        list(read_documents(path))
    assert "leave the column out" in str(e.value)


def test_ids_and_texts_as_old_writers_leave_them(tmp_path: Path) -> None:
    columns = {"_id": pa.array([b"1"]), "text": pa.array(["é".encode()])}
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    (document,) = read_documents(tmp_path / "c.parquet")
    assert (document.id, document.text) == ("1", "é")


@pytest.mark.parametrize("name", ["text", "sentences"])
def test_a_text_of_null_is_empty_as_in_json_lines(tmp_path: Path, name: str) -> None:
    rows = [{"_id": "1", name: ["x"] if name == "sentences" else "x"}, {"_id": "2", name: None}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [list(read_documents(tmp_path / f"c.{kind}")) for kind in ("parquet", "jsonl")]
    assert found[0] == found[1]
    assert [one.text for one in found[0]] == ["x", ""]
    groups = [list(read_document_groups(tmp_path / f"c.{kind}")) for kind in ("parquet", "jsonl")]
    assert groups[0] == groups[1]
