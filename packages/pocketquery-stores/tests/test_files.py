"""Servers with an index's vectors find what the device finds, with the device's encoder."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from server_index import K, recall

from pocketquery import sdk
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import InvalidInputError, MissingExtraError
from pocketquery.sdk.files import sha256_file
from pocketquery.sdk.index.documents import metadata_text
from pocketquery_stores.files import INFO, export_vectors
from pocketquery_stores.sync import SyncReport

faiss = pytest.importorskip("faiss")
parquet = pytest.importorskip("pyarrow.parquet")


def test_faiss_finds_what_the_device_finds(
    index: Path, queries: Floats, encoder: sdk.Encoder, tmp_path: Path
) -> None:
    report = export_vectors(index, tmp_path / "out", format="faiss")
    assert (report.documents, report.space_id) == (290, encoder.space_id)
    lines = (tmp_path / "out" / "documents.jsonl").read_text("utf-8").splitlines()
    documents = [json.loads(line) for line in lines]
    server = faiss.read_index(str(tmp_path / "out" / "vectors.faiss"))
    assert (server.ntotal, server.d) == (290, encoder.dimension)
    _, rows = server.search(queries, K)
    assert recall(index, queries, [[documents[r]["id"] for r in row] for row in rows]) >= 0.99
    with sdk.open_index(index) as opened:
        for one in documents:
            document = opened.get(one["id"])
            assert document is not None
            assert document.metadata == one["metadata"]


def test_parquet_finds_what_the_device_finds(
    index: Path, queries: Floats, encoder: sdk.Encoder, tmp_path: Path
) -> None:
    report = export_vectors(index, tmp_path / "out")
    files = {file.name: file for file in (tmp_path / "out").iterdir()}
    assert report.bytes == sum(file.stat().st_size for file in files.values())
    table = parquet.read_table(files["vectors.parquet"])
    assert table.schema.metadata[b"pocketquery.space_id"].decode() == encoder.space_id
    vectors = np.array(table["vector"].to_pylist(), np.float32)
    assert vectors.shape == (290, encoder.dimension)
    ids = table["id"].to_pylist()
    best = np.argsort(-(queries @ vectors.T), axis=1)[:, :K]
    assert recall(index, queries, [[ids[row] for row in rows] for rows in best]) >= 0.99
    with sdk.open_index(index) as opened:
        expected = {one.id: metadata_text(one) for one in opened.documents() if one.text}
    assert dict(zip(ids, table["metadata"].to_pylist(), strict=True)) == expected
    info = json.loads(files[INFO].read_text())
    assert info["space"] == {"id": encoder.space_id, "dimension": encoder.dimension}
    assert info["files"]["vectors.parquet"]["sha256"] == sha256_file(files["vectors.parquet"])


def test_what_is_refused_leaves_everything_as_it_was(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InvalidInputError, match="is not vectors of an index; it is left alone"):
        export_vectors(index, tmp_path / "thesis")
    with pytest.raises(InvalidInputError, match="expected parquet or faiss"):
        export_vectors(index, tmp_path / "out", format="csv")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"pocketquery-stores\[faiss\]"):
        export_vectors(index, tmp_path / "out", format="faiss")
    assert [one.name for one in tmp_path.iterdir()] == ["thesis"]


def test_the_shell_writes_and_replaces(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["vectors", "--index", str(index), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--format", "faiss"]) == 0
    assert "290 vectors" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "parquet"
    assert {one.name for one in (tmp_path / "out").iterdir()} == {INFO, "vectors.parquet"}


def test_a_store_is_found_by_the_scheme_of_its_address(
    index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = "pocketquery.vector_stores"
    stores = EntryPoints([EntryPoint("kept", "test_files:keep", group)])
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **given: stores.select(**given))
    command = ["vectors", "--index", str(index), "--table", "notes", "--to"]
    assert main([*command, "kept://host/name"]) == 0
    assert "notes: 3 documents (1 added, 2 changed, 0 removed)" in capsys.readouterr().out
    for database in ("postgresql://host/name", "service=search", "other://host"):
        assert main([*command, database]) == 2
        assert 'pip install "./packages/pocketquery-stores[postgres]"' in capsys.readouterr().err


def keep(index: str, database: str, **options: Any) -> SyncReport:
    assert database == "kept://host/name"
    assert options == {"table": "notes", "vector_type": "halfvec", "public_key": None}
    return SyncReport("notes", 3, 1, 2, 0, "space", 384)
