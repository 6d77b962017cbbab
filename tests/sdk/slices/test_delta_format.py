"""Contents and deltas, read by what docs/formats/search-index.md says and nothing else."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from pocketquery import sdk
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index
from tests.sdk.built_indexes import build
from tests.sdk.small_index import DIMENSION, SPACE, make_documents

WIDTH = DIMENSION + 4


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def contents(folder: Path) -> str:
    connection = sqlite3.connect(folder / "documents.sqlite")
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    documents = connection.execute(
        "SELECT id, metadata, text FROM documents JOIN texts USING (row) ORDER BY row"
    ).fetchall()
    data = b"pocketquery-contents-2\n" + text(meta["space"]) + text(meta["language"])
    data += struct.pack("<I", len(documents))
    data += b"".join(text(one) for row in documents for one in row)
    data += (folder / meta["vectors"]).read_bytes()[64 : 64 + len(documents) * WIDTH]
    for column in ("lengths", "languages"):
        packed = connection.execute(f"SELECT {column} FROM segments ORDER BY first_row")
        data += b"".join(one for (one,) in packed)
    found: dict[bytes, list[tuple[int, int]]] = {}
    for term, first, rows, counts in connection.execute("SELECT * FROM postings"):
        number = len(counts) // 2
        pairs = zip(struct.unpack(f"<{number}I", rows), struct.unpack(f"<{number}H", counts))  # noqa: B905
        found.setdefault(term.encode(), []).extend((first + row, n) for row, n in pairs)
    connection.close()
    for key in sorted(found):
        pairs_of = sorted(found[key])
        data += text(key.decode()) + struct.pack("<I", len(pairs_of))
        data += struct.pack(f"<{len(pairs_of)}I", *[row for row, _ in pairs_of])
        data += struct.pack(f"<{len(pairs_of)}H", *[count for _, count in pairs_of])
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def versions(tmp_path: Path) -> tuple[Path, Path, Path]:
    documents = make_documents(1100)
    old = build(tmp_path / "old", documents)
    more = [Document("日本", "東京 é", {"title": "x", "n": 1.5}), Document("empty", "")]
    changed = Document("doc-7", "another text", documents[7].metadata)
    new = build(tmp_path / "new", [*more, *documents[600:], changed, *documents[8:500]])
    sdk.make_delta(old, new, tmp_path / "delta")
    return old, new, tmp_path / "delta"


def test_contents_are_what_the_page_says(versions: tuple[Path, Path, Path]) -> None:
    old, new, delta = versions
    with zipfile.ZipFile(delta) as archive:
        described = json.loads(archive.read("delta.json"))
    assert described["from"] == {"contents_sha256": contents(old), "documents": 1100}
    assert described["to"] == {"contents_sha256": contents(new), "documents": 995}
    before = contents(old)
    with open_index(old, writable=True) as index:
        index.compact()  # one segment, other pages, the same contents
    assert contents(old) == before


def test_a_delta_is_what_the_page_says(versions: tuple[Path, Path, Path]) -> None:
    _, new, delta = versions
    with zipfile.ZipFile(delta) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(files.pop("delta.json"))
    assert (described["format"], described["format_version"]) == ("pocketquery-delta", 2)
    assert described["space"] == {"id": SPACE, "dimension": DIMENSION}
    counts = {"removed": 107, "added": 2, "changed": 1}
    assert {name: described[name] for name in counts} == counts
    assert "signature_key_id" not in described
    parts = {}
    for name, record in described["parts"].items():
        parts[name] = zlib.decompress(files[name])
        assert record == {
            "sha256": hashlib.sha256(files[name]).hexdigest(),
            "bytes": len(files[name]),
            "unpacked_bytes": len(parts[name]),
        }
    assert files.keys() == parts.keys()
    runs = [
        struct.unpack_from("<II", parts["order"], at) for at in range(0, len(parts["order"]), 8)
    ]
    assert runs == [(0xFFFFFFFF, 2), (600, 500), (0xFFFFFFFF, 1), (8, 492)]
    gone = [*(f"doc-{number}" for number in range(7)), *(f"doc-{n}" for n in range(500, 600))]
    assert parts["removed"] == b"".join(map(text, gone))
    expected = [
        ("日本", '{"title": "x", "n": 1.5}', "東京 é"),
        ("empty", "{}", ""),
        (
            "doc-7",
            '{"year": 1907, "tag": ["harbour", "crossed"], "title": "Harbour 7"}',
            "another text",
        ),
    ]
    assert parts["documents"] == b"".join(text(one) for row in expected for one in row)
    rows = (new / "vectors-0.u8").read_bytes()[64:]
    places = (0, 1, 502)
    assert parts["vectors"] == b"".join(rows[row * WIDTH : (row + 1) * WIDTH] for row in places)
