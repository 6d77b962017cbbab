"""Damages an index at random, as rot or malice would, and uses what is left in every way.

Only pocketquery's own errors may come of it, no score may be other than finite, and nothing outside
the index's folder may change. ``damage`` says what it did, so that a case that is found can go into
the tests as it stands.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import sqlite3
import struct
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.index.index import Index, create_index, open_index, verify_index
from pocketquery.sdk.index.info import DATABASE
from tests.sdk.small_index import DIMENSION, SPACE, WordEncoder, make_documents, vectors_of

VECTORS = "vectors-0.u8"
INFO = "index.json"
FILES = (INFO, DATABASE, VECTORS)
SIBLING = "sibling"

NUMBERS = (0, -1, 1, 2, 7, 255, 2**31, 2**32 - 1, 2**53, 2**63 - 1, -(2**63), 1e308, -0.5, math.inf)
TEXTS = (
    "",
    "0",
    "00",
    "-1",
    "1_0",
    "\u0663",
    "9" * 5000,
    "nan",
    "{}",
    "[]",
    "null",
    '{"a": NaN}',
    '{"a": "\\ud800"}',
    '{"year": 1e999}',
    '{"a": ' + "9" * 5000 + "}",
    "[" * 3000,
    '{"a":' * 3000,
    "\0",
    "a\0b",
    "../sibling/vectors-0.u8",
    f"../{SIBLING}/{DATABASE}",
    "/etc/passwd",
    "vectors-1.u8",
    "vectors-0.u8\n",
    DATABASE,
    INFO,
    f"{DIMENSION} {SPACE}",
    f"{2**40} {SPACE}",
    "x" * 70_000,
)
BLOBS = (b"", b"\0", b"\xff" * 3, b"\xff" * 4, b"\0" * 8, b"\xff" * 400, b"\xed\xa0\x80", b"{}")
COLUMNS = {
    "meta": ("key", "value"),
    "documents": ("row", "id", "metadata"),
    "texts": ("row", "text"),
    "tombstones": ("row",),
    "segments": ("first_row", "count", "lengths", "vectors_sha256"),
    "postings": ("term", "first_row", "rows", "counts"),
}
SCHEMAS = (
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER DELETE ON documents BEGIN DELETE FROM texts; END",
    "CREATE INDEX i ON documents (metadata)",
    "CREATE TABLE other (x CHECK (x > 0), y AS (x + 1))",
    "CREATE VIRTUAL TABLE f USING fts5(text)",
    "DROP TABLE texts",
    "DROP TABLE tombstones",
    "DROP TABLE segments",
    "ALTER TABLE texts ADD COLUMN more",
    "ALTER TABLE documents RENAME COLUMN metadata TO data",
    "ALTER TABLE postings RENAME TO old_postings",
    "DROP TABLE documents; CREATE VIEW documents AS WITH RECURSIVE n(row) AS (SELECT 0 UNION ALL"
    " SELECT row + 1 FROM n) SELECT row, 'a' AS id, '{}' AS metadata FROM n",
)


def damage(folder: Path, random: Random) -> list[str]:
    """Damage the index in ``folder`` one to three times; what was done."""
    done = []
    for _ in range(random.choice((1, 1, 2, 3))):
        how = random.choice((_bits, _length, _exchange, _field, _field, _row, _row, _row, _schema))
        with contextlib.suppress(OSError, sqlite3.DatabaseError, ValueError):
            done.append(f"{how.__name__}: {how(folder, random)}")
    if random.random() < 0.7:  # whoever means harm seals what was changed
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            reseal(folder)
            done.append("sealed again")
    if random.random() < 0.15:
        done.append(_link(folder, random))
    return done


def reseal(folder: Path) -> None:
    """Make sizes and hashes in ``index.json`` those of the files."""
    path = folder / INFO
    fields = json.loads(path.read_bytes())
    for name, record in fields["files"].items():
        data = (folder / name).read_bytes() if name in FILES else b""
        record.update(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    path.write_text(json.dumps(fields))


def snapshot(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def execute(path: Path, sql: str, *arguments: object) -> None:
    """Change a database, or that of an index, behind our back."""
    file = path / DATABASE if path.is_dir() else path
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute(sql, arguments)
    connection.close()


# By name: statements that SQLite keeps its index of ids up with, and those that it does not.
LOOKUPS = {
    "two ids lead to each other's documents": (
        "CREATE TEMP TABLE two AS SELECT row, id FROM documents WHERE id IN ({0}, {1});"
        "UPDATE documents SET id = id || '-' WHERE id IN ({0}, {1});"
        "UPDATE documents SET id = (SELECT id FROM two WHERE two.row != documents.row)"
        " WHERE row IN (SELECT row FROM two)",
        "UPDATE documents SET id = (SELECT id FROM two WHERE two.row = documents.row)"
        " WHERE row IN (SELECT row FROM two)",
    ),
    "an id nobody gave leads to a document": (
        "UPDATE documents SET id = 'ghost' WHERE id = {1}",
        "UPDATE documents SET id = {1} WHERE id = 'ghost'",
    ),
    "an id leads nowhere": (
        "CREATE TEMP TABLE one AS SELECT * FROM documents WHERE id = {1};"
        "DELETE FROM documents WHERE id = {1}",
        "INSERT INTO documents SELECT * FROM one",
    ),
}


def mislead(folder: Path, name: str, ids: tuple[str, str]) -> None:
    """Do to two ids what ``name`` of LOOKUPS says; no row of a table is another after it."""
    kept_up, behind = (sql.format(*(f"'{one}'" for one in ids)) for sql in LOOKUPS[name])
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    connection.executescript(kept_up)
    connection.execute("PRAGMA writable_schema = ON")
    table = connection.execute("SELECT rowid, sql FROM sqlite_master WHERE name = 'documents'")
    row, sql = table.fetchone()
    index = connection.execute(
        "SELECT rowid, * FROM sqlite_master WHERE name = 'sqlite_autoindex_documents_1'"
    ).fetchone()
    set_sql = "UPDATE sqlite_master SET sql = ? WHERE rowid = ?"
    connection.execute("DELETE FROM sqlite_master WHERE rowid = ?", index[:1])
    connection.execute(set_sql, (sql.replace(" UNIQUE", ""), row))
    connection.execute("PRAGMA writable_schema = RESET")
    connection.executescript(behind)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(set_sql, (sql, row))
    connection.execute(
        "INSERT INTO sqlite_master (rowid, type, name, tbl_name, rootpage, sql)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        index,
    )
    connection.close()


def exchange_rows(folder: Path) -> None:
    """Let the table of documents have its first two rows in the other order."""
    with contextlib.closing(sqlite3.connect(folder / DATABASE)) as connection:
        table = "SELECT rootpage FROM sqlite_master WHERE name = 'documents'"
        (page,) = connection.execute(table).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray((folder / DATABASE).read_bytes())
    at = (page - 1) * size
    assert data[at] == 13, "the table has more than one page"
    data[at + 8 : at + 12] = data[at + 10 : at + 12] + data[at + 8 : at + 10]
    (folder / DATABASE).write_bytes(data)


def edit_info(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change ``index.json``."""
    fields = json.loads((folder / INFO).read_text())
    edit(fields)
    (folder / INFO).write_text(json.dumps(fields))


def use(folder: Path) -> Counter[str]:
    """Everything an index is for; how often each ended well or with which error.

    Raises:
        AssertionError: another exception than pocketquery's, or a score that is not finite.
    """
    seen: Counter[str] = Counter()

    def attempt(name: str, what: Callable[[], object]) -> None:
        try:
            what()
        except PocketQueryError as error:
            seen[type(error).__name__] += 1
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
        else:
            seen["well"] += 1

    def read(index: Index) -> None:
        attempt("len", lambda: len(index))
        attempt("get", lambda: index.get("doc-3"))
        for mode in ("dense", "lexical", "hybrid"):
            for filter in (None, {"year": {"$gte": 1905}, "tag": {"$ne": "river"}}):
                attempt(mode, lambda m=mode, f=filter: _search(index, m, f))  # type: ignore[misc]
        attempt("nearest", lambda: _nearest(index))

    def reading() -> None:
        with open_index(folder, encoder=WordEncoder()) as index:
            read(index)

    def writing(change: Callable[[Index], object]) -> Callable[[], None]:
        def run() -> None:
            with open_index(folder, encoder=WordEncoder(), writable=True) as index:
                attempt("change", lambda: change(index))
                read(index)

        return run

    more = make_documents(2, first=500)
    attempt("verify", lambda: verify_index(folder))
    attempt("open", reading)
    attempt("delete", writing(lambda index: index.delete(["doc-1", "doc-8"])))
    attempt("add", writing(lambda index: index.add(more, vectors_of(more))))
    attempt("compact", writing(lambda index: index.compact()))
    attempt("verify", lambda: verify_index(folder))
    return seen


def rebuild(folder: Path) -> None:
    """Whatever was there, a build takes its place, or says why not."""
    with contextlib.suppress(PocketQueryError):
        create_index(folder, space_id=SPACE, dimension=DIMENSION).close()


def tree(folder: Path) -> dict[str, str]:
    """Every file under ``folder`` by its hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _search(index: Index, mode: Any, filter: Any) -> None:
    for hit in index.search("the castle number 4 was painted", 20, mode=mode, filter=filter):
        assert math.isfinite(hit.score), hit
        assert isinstance(hit.id, str), hit
        assert isinstance(hit.text, str), hit
        json.dumps(hit.metadata, ensure_ascii=False).encode()


def _nearest(index: Index) -> None:
    stored = index.vectors(["doc-4"])
    stored.nearest(vectors_of(make_documents(1)), 3)
    assert np.isfinite(stored.vectors(np.arange(len(stored)))).all()


def _bits(folder: Path, random: Random) -> str:
    path = folder / random.choice((*FILES, DATABASE, VECTORS))
    data = bytearray(path.read_bytes())
    places = [
        random.randrange(min(len(data), random.choice((100, len(data)))))
        for _ in range(random.choice((1, 3, 30)))
    ]
    for place in places:
        data[place] ^= 1 << random.randrange(8)
    if path.name == VECTORS and random.random() < 0.5:
        data[60:64] = struct.pack("<I", zlib.crc32(data[:60]))
    path.write_bytes(data)
    return f"{path.name} at {places}"


def _length(folder: Path, random: Random) -> str:
    path = folder / random.choice(FILES)
    size = path.stat().st_size
    new = random.choice((0, 1, size // 2, size - 1, size + 1, size + 4096, random.randrange(size)))
    os.truncate(path, new)
    return f"{path.name} to {new}"


def _exchange(folder: Path, random: Random) -> str:
    path = folder / random.choice(FILES)
    kind = random.choice(("other", "mixed", "none", "folder", "wal", "journal", "pages"))
    if kind == "other":
        shutil.copy(folder.parent / SIBLING / path.name, path)
    elif kind == "mixed":
        shutil.copy(folder / random.choice(FILES), folder / "x")
        (folder / "x").replace(path)
    elif kind in ("none", "folder"):
        path.unlink()
        if kind == "folder":
            path.mkdir()
    elif kind == "pages":
        data = path.read_bytes()
        pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
        random.shuffle(pages)
        path.write_bytes(b"".join(pages))
    else:
        (folder / f"{DATABASE}-{kind}").write_bytes(random.randbytes(random.choice((0, 512, 5000))))
    return f"{path.name} {kind}"


def _link(folder: Path, random: Random) -> str:
    path = folder / random.choice((*FILES, f"{DATABASE}-journal", "vectors-9.u8"))
    target = folder.parent / SIBLING / (path.name if path.name in FILES else VECTORS)
    kind = random.choice(("link", "second name", "pipe", "circle"))
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(target)
    elif kind == "circle":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.hardlink_to(target)
    return f"{path.name} {kind}"


def _field(folder: Path, random: Random) -> str:
    path = folder / INFO
    fields = json.loads(path.read_bytes())
    within = fields
    names = list(fields)
    while True:
        name = random.choice(names)
        if not (isinstance(within[name], dict) and within[name]) or random.random() < 0.2:
            break
        within, names = within[name], list(within[name])
    value = random.choice((*NUMBERS, *TEXTS, None, True, [], {}, [[1]], {"bytes": 1}))
    kind = random.choice(("value", "value", "name", "none"))
    if kind == "none":
        del within[name]
    elif kind == "name":
        within[str(value)] = within.pop(name)
    else:
        within[name] = value
    path.write_text(json.dumps(fields))
    return f"{kind} of {name}: {str(value)[:50]!r}"


def _row(folder: Path, random: Random) -> str:
    table = random.choice(tuple(COLUMNS))
    column = random.choice(COLUMNS[table])
    value = random.choice((*NUMBERS, *TEXTS, *BLOBS, None))
    where = f" WHERE rowid % {random.choice((1, 2, 7, 60))} = 0" if table != "meta" else ""
    if table in ("meta", "postings"):  # without rowid
        key = COLUMNS[table][0]
        names = ("generation", "vectors", "space") if table == "meta" else ("number", "painted")
        where = f" WHERE {key} = '{random.choice(names)}'"
    marks = ", ".join("?" * len(COLUMNS[table]))
    values = [value if name == column else random.choice(NUMBERS[:9]) for name in COLUMNS[table]]
    sql, arguments = random.choice(
        (
            (f"UPDATE OR REPLACE {table} SET {column} = ?{where}", [value]),
            (f"UPDATE OR REPLACE {table} SET {column} = ?{where}", [value]),
            (f"UPDATE {table} SET {column} = CAST(x'41eda08042' AS TEXT){where}", []),
            (f"UPDATE OR IGNORE {table} SET {column} = {column} || {column}{where}", []),
            (f"DELETE FROM {table}{where}", []),
            (f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values),
        )
    )
    _execute(folder, sql, arguments)
    return f"{sql} {str(arguments)[:80]}"


def _schema(folder: Path, random: Random) -> str:
    sql = random.choice(
        (
            *SCHEMAS,
            f"PRAGMA user_version = {random.choice((-1, 0, 2, 2**31 - 1))}",
            "PRAGMA application_id = 3",
            "PRAGMA journal_mode = WAL",
            "UPDATE sqlite_master SET rootpage = 3 WHERE type = 'table'",
            "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', 'COLLATE other')",
            "UPDATE sqlite_master SET sql = replace(sql, 'TEXT NOT NULL)', 'TEXT CHECK (1))')",
            "DELETE FROM sqlite_master WHERE name = 'texts'",
        )
    )
    _execute(folder, sql, [])
    return sql


def _execute(folder: Path, sql: str, arguments: list[Any]) -> None:
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    try:
        connection.execute("PRAGMA writable_schema = ON")
        for part in sql.split("; ") if "TRIGGER" not in sql else [sql]:
            connection.execute(part, arguments)
    finally:
        connection.close()
