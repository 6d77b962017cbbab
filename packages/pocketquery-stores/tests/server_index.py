"""An index of the demo's passages, whose documents servers are to find as the device does."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from pocketquery import sdk
from pocketquery.sdk.arrays import Floats
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.indexing.building import build_index

__all__ = ["K", "encoder", "index", "queries", "recall"]

DATA = Path(__file__).parents[2] / "pocketquery-demo" / "pocketquery_demo" / "data"
K = 10


@pytest.fixture(scope="session")
def encoder() -> sdk.Encoder:
    """The built-in one."""
    return sdk.load()


@pytest.fixture(scope="session")
def index(encoder: sdk.Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hundred passages of the demo's corpus, ten of them deleted, and a document without a
    vector, which no server is to find. Tests that write to it copy it."""
    path = tmp_path_factory.mktemp("index") / "index"
    with gzip.open(DATA / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line, _ in zip(lines, range(300), strict=False)]
    build_index(
        [
            Document(one["_id"], one["text"], {"title": one["title"], "n": [1, None]})
            for one in found
        ]
        + [Document("blank", "", {"n": [1, None]})],
        encoder.encode_document,
        path,
        space_id=encoder.space_id,
        dimension=encoder.dimension,
    )
    with sdk.open_index(path, writable=True) as opened:
        opened.delete([one["_id"] for one in found[50:60]])
    return path


@pytest.fixture(scope="session")
def queries(encoder: sdk.Encoder) -> Floats:
    """Sixty of the demo's queries, float32 (60, dimension)."""
    with gzip.open(DATA / "queries.tsv.gz", "rt", encoding="utf-8") as lines:
        texts = [line.split("\t")[1].strip() for line, _ in zip(lines, range(60), strict=False)]
    return encoder.encode_query(texts)


def recall(index: Path, queries: Floats, found: list[list[str]]) -> float:
    """How much of what the index finds a server found, too."""
    with sdk.open_index(index) as opened:
        expected = [{hit.id for hit in opened.search(query, K)} for query in queries]
    shares = [len(own & set(ids)) / K for own, ids in zip(expected, found, strict=True)]
    return float(np.mean(shares))
