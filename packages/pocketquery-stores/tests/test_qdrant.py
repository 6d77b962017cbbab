"""A collection of Qdrant finds what the device finds, and a sync writes what changed.

Qdrant's server is no Python package: what runs is the client's own engine, within the process.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
from pocketquery_stores.qdrant import point_id, sync_qdrant

qdrant_client = pytest.importorskip("qdrant_client", reason="needs qdrant-client")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    client = qdrant_client.QdrantClient(path=os.fspath(tmp_path / "qdrant"))
    yield client
    client.close()


def stored(client: Any, collection: str = "documents") -> dict[str, dict[str, Any]]:
    points, rest = client.scroll(collection, limit=1000)
    assert rest is None
    return {str(point.id): point.payload for point in points}


class Counted:
    """The client, and how many points were written and deleted through it."""

    def __init__(self, client: Any, ends_after: int = 1 << 30) -> None:
        self._client, self._left = client, ends_after
        self.written = self.deleted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def upsert(self, collection: str, points: list[Any], **options: Any) -> None:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        self._client.upsert(collection, points=points, **options)
        self.written += len(points)

    def delete(self, collection: str, points_selector: Any, **options: Any) -> None:
        self._client.delete(collection, points_selector=points_selector, **options)
        self.deleted += len(points_selector.points)


@pytest.mark.parametrize("datatype", ["float16", "float32"])
def test_it_finds_what_the_device_finds(
    datatype: Any, client: Any, index: Path, queries: Floats, encoder: sdk.Encoder
) -> None:
    report = sync_qdrant(index, client, datatype=datatype)
    assert (report.documents, report.added, report.changed, report.removed) == (290, 290, 0, 0)
    assert (report.space_id, report.dimension) == (encoder.space_id, encoder.dimension)
    ids = []
    for query in queries:
        found = client.query_points("documents", query=query.tolist(), limit=K).points
        ids.append([one.payload["id"] for one in found])
    assert recall(index, queries, ids) >= 0.99
    with sdk.open_index(index) as opened:
        expected = {
            point_id(one.id): {
                "id": one.id,
                "text": one.text,
                "metadata": json.loads(metadata_text(one)),
                "space_id": encoder.space_id,
            }
            for one in opened.documents()
            if one.text
        }
    found = stored(client)
    assert {id: {k: v for k, v in one.items() if k != "digest"} for id, one in found.items()} == (
        expected
    )


def test_an_update_writes_what_changed_and_nothing_else(
    client: Any, index: Path, encoder: sdk.Encoder, tmp_path: Path
) -> None:
    sync_qdrant(index, client)
    again = Counted(client)
    assert sync_qdrant(index, again).changed == 0
    assert (again.written, again.deleted) == (0, 0)

    newer = tmp_path / "newer"
    shutil.copytree(index, newer)
    ids = sorted(payload["id"] for payload in stored(client).values())
    with sdk.open_index(newer, encoder=encoder, writable=True) as opened:
        opened.delete(ids[:3])
        opened.add([Document(ids[0], "other words"), Document("new", "a new one")])
    counted = Counted(client)
    report = sync_qdrant(newer, counted)
    assert (report.added, report.changed, report.removed, report.documents) == (1, 1, 2, 289)
    assert (counted.written, counted.deleted) == (2, 2)
    after = stored(client)
    assert len(after) == 289
    assert after[point_id(ids[0])]["text"] == "other words"
    assert point_id(ids[1]) not in after


def test_a_sync_that_ended_in_the_middle_is_made_whole_by_the_next(
    client: Any, index: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        sync_qdrant(index, Counted(client, ends_after=1))
    assert len(stored(client)) == 256
    report = sync_qdrant(index, client)
    assert (report.added, report.documents, len(stored(client))) == (34, 290, 290)


def test_what_is_not_ours_is_refused_and_left_alone(
    client: Any, index: Path, tmp_path: Path
) -> None:
    sync_qdrant(index, client)
    before = stored(client)
    other = tmp_path / "other"
    build_index(
        [Document("x", "y")], lambda texts: np.ones((1, 8)), other, space_id="other", dimension=8
    )
    with pytest.raises(InvalidInputError, match="expected unnamed ones of 8 dimensions"):
        sync_qdrant(other, client)
    same_size = tmp_path / "same"
    build_index(
        [Document("x", "y")],
        lambda texts: np.ones((1, 384)),
        same_size,
        space_id="o",
        dimension=384,
    )
    with pytest.raises(SpaceMismatchError, match="the collection documents lives in space"):
        sync_qdrant(same_size, client)
    assert stored(client) == before
    models = qdrant_client.models
    client.create_collection(
        "theirs", vectors_config=models.VectorParams(size=384, distance=models.Distance.DOT)
    )
    client.upsert("theirs", points=[models.PointStruct(id=1, vector=[0.5] * 384, payload={})])
    with pytest.raises(InvalidInputError, match="the point 1, which no sync wrote"):
        sync_qdrant(index, client, collection="theirs")
    assert len(stored(client, "theirs")) == 1
    with pytest.raises(InvalidInputError, match="expected float16 or float32"):
        sync_qdrant(index, client, datatype="uint8")  # type: ignore[arg-type]


def test_a_server_that_is_not_there_and_an_extra_that_is_not_there(
    index: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert main(["vectors", "--index", str(index), "--to", url, "--table", "docs"]) != 0
        said = capsys.readouterr().err
        assert "Qdrant's collection docs cannot be used" in said
        assert "the next sync goes on" in said
    with pytest.raises(InvalidInputError, match="expected an address like https://host:6333"):
        sync_qdrant(index, "https://host:abc")
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(PocketQueryError) as caught:
        sync_qdrant(index, url)
    assert isinstance(caught.value, MissingExtraError)
    assert 'pip install "./packages/pocketquery-stores[qdrant]"' in str(caught.value)
