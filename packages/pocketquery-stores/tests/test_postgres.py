"""A real Postgres with pgvector finds what the device finds, and a sync writes what changed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postgres_server import a_server
from server_index import K, recall

from pocketquery import sdk
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.cli import main
from pocketquery.sdk.errors import (
    InvalidInputError,
    MissingExtraError,
    PocketQueryError,
    SpaceMismatchError,
)
from pocketquery.sdk.index.documents import Document, metadata_text
from pocketquery.sdk.indexing.building import build_index
from pocketquery_stores.postgres import sync_postgres

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with a_server() as words:
        yield words


@pytest.fixture
def database(server: str) -> Iterator[str]:
    """The same without the tables of other tests."""
    yield server
    with psycopg.connect(server) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("DROP EXTENSION IF EXISTS vector CASCADE")


def stored(database: str, text: str) -> list[Any]:
    with psycopg.connect(database) as connection:
        return list(connection.execute(text).fetchall())


@pytest.mark.slow
@pytest.mark.parametrize("vector_type", ["halfvec", "vector"])
def test_it_finds_what_the_device_finds(
    vector_type: Any, database: str, index: Path, queries: Floats, encoder: sdk.Encoder
) -> None:
    report = sync_postgres(index, database, vector_type=vector_type)
    assert (report.documents, report.added, report.changed, report.removed) == (290, 290, 0, 0)
    ids = []
    with psycopg.connect(database) as connection:
        for query in queries:
            found = connection.execute(
                f"SELECT id FROM documents ORDER BY vector <#> %s::{vector_type} LIMIT {K}",
                (str(query.tolist()),),
            ).fetchall()
            ids.append([one for (one,) in found])
    share = recall(index, queries, ids)
    print(f"recall@10 of the local index, as {vector_type}: {share:.4f}")
    assert share >= 0.99
    with sdk.open_index(index) as opened:
        expected = {
            one.id: (one.text, json.loads(metadata_text(one)))
            for one in opened.documents()
            if one.text
        }
    rows = stored(database, "SELECT id, text, metadata FROM documents")
    assert {id: (text, metadata) for id, text, metadata in rows} == expected
    rows = stored(database, "SELECT * FROM pocketquery_spaces")
    assert rows == [("documents", encoder.space_id, encoder.dimension, vector_type, 290)]


def test_an_update_writes_what_changed_and_nothing_else(
    database: str, index: Path, encoder: sdk.Encoder, tmp_path: Path
) -> None:
    sync_postgres(index, database)
    before = dict(stored(database, "SELECT id, xmin::text FROM documents"))
    assert sync_postgres(index, database).changed == 0
    assert dict(stored(database, "SELECT id, xmin::text FROM documents")) == before

    newer = tmp_path / "newer"
    shutil.copytree(index, newer)
    ids = sorted(before)
    with sdk.open_index(newer, encoder=encoder, writable=True) as opened:
        opened.delete(ids[:3])
        opened.add([Document(ids[0], "other words"), Document("new", "a new one")])
    report = sync_postgres(newer, database)
    assert (report.added, report.changed, report.removed, report.documents) == (1, 1, 2, 289)
    after = dict(stored(database, "SELECT id, xmin::text FROM documents"))
    assert set(after) == set(before) - set(ids[1:3]) | {"new"}
    assert {one for one in after if after[one] != before.get(one)} == {"new", ids[0]}
    assert stored(database, f"SELECT text FROM documents WHERE id = '{ids[0]}'") == [
        ("other words",)
    ]


def test_further_columns_are_left_to_the_database(
    database: str, index: Path, encoder: sdk.Encoder, tmp_path: Path
) -> None:
    sync_postgres(index, database)
    with psycopg.connect(database) as connection:
        connection.execute(
            "ALTER TABLE documents ADD COLUMN words tsvector GENERATED ALWAYS AS "
            "(to_tsvector('simple', text)) STORED, ADD COLUMN seen timestamptz NOT NULL DEFAULT "
            "now(), ADD COLUMN asked integer DEFAULT 7"
        )
    assert sync_postgres(index, database).changed == 0
    newer = tmp_path / "newer"
    shutil.copytree(index, newer)
    with sdk.open_index(newer, encoder=encoder, writable=True) as opened:
        opened.add([Document("new", "a \\u0000 that is six letters", {"k": r"in C '\u0000'"})])
    assert sync_postgres(newer, database).added == 1
    assert stored(
        database,
        "SELECT asked FROM documents WHERE id = 'new' AND words @@ to_tsquery('simple', 'letters')",
    ) == [(7,)]


def test_another_space_or_type_is_refused_and_nothing_changes(
    database: str, index: Path, tmp_path: Path
) -> None:
    sync_postgres(index, database)
    before = stored(database, "SELECT id, xmin::text FROM documents ORDER BY 1")
    other = tmp_path / "other"
    build_index(
        [Document("x", "y")], lambda texts: np.ones((1, 8)), other, space_id="other", dimension=8
    )
    with pytest.raises(SpaceMismatchError, match="the table documents lives in space"):
        sync_postgres(other, database)
    with pytest.raises(InvalidInputError, match="384 dimensions as halfvec"):
        sync_postgres(index, database, vector_type="vector")
    assert stored(database, "SELECT id, xmin::text FROM documents ORDER BY 1") == before
    sync_postgres(other, database, table="others")  # a table of its own may have any
    assert len(stored(database, "SELECT table_name FROM pocketquery_spaces")) == 2


def test_what_postgres_cannot_hold_takes_everything_back(database: str, tmp_path: Path) -> None:
    documents = Document("a", "two words\0"), Document("a", "two words", {"k": "\0"})
    for number, document in enumerate(documents):
        bad = tmp_path / str(number)
        build_index([document], lambda texts: np.ones((1, 8)), bad, space_id="s", dimension=8)
        with pytest.raises(InvalidInputError, match=r"U\+0000"):
            sync_postgres(bad, database)
    assert stored(database, "SELECT to_regclass('documents')") == [(None,)]


def test_a_sync_that_is_killed_changes_nothing(database: str, index: Path, tmp_path: Path) -> None:
    sync_postgres(index, database)
    before = stored(database, "SELECT id, xmin::text FROM documents ORDER BY 1")
    newer = tmp_path / "newer"
    shutil.copytree(index, newer)
    with sdk.open_index(newer, writable=True) as opened:
        opened.delete([one for one, _ in before[:100]])
    script = (
        "import os, signal, sys\n"
        "from pocketquery_stores import postgres\n"
        "postgres._Sync._write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "postgres.sync_postgres(sys.argv[1], sys.argv[2])\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, newer, database], timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert stored(database, "SELECT id, xmin::text FROM documents ORDER BY 1") == before
    assert sync_postgres(newer, database).removed == 100


@pytest.mark.slow
def test_the_shell_syncs_and_says_what_is_wrong(
    database: str, index: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["vectors", "--index", str(index), "--to", database]
    assert main([*arguments, "--table", "public.docs"]) == 0
    assert "public.docs: 290 documents (290 added, 0 changed, 0 removed)" in capsys.readouterr().out
    assert main([*arguments, "--table", "public.docs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 0
    assert main([*arguments, "--format", "faiss"]) != 0
    assert main([*arguments, "--table", 'x"; DROP TABLE']) != 0
    capsys.readouterr()
    nowhere = f"host={os.fspath(index)} dbname=x password=secret"
    with pytest.raises(PocketQueryError, match="nothing was changed") as caught:
        sync_postgres(index, nowhere)
    assert "secret" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"packages/pocketquery-stores\[postgres\]"):
        sync_postgres(index, database)
