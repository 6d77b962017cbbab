"""Write conformance/deltas: what leads from the indexes beside it to later versions of them.

Two signed deltas lead on from ``search/index``, one behind the other, and ``applied.json.gz`` is
the index as it is after the first, with the proof that it is the publisher's; ``plain.delta`` leads
on from ``index/compact`` and is signed by nobody.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index
from pocketquery.sdk.slices.deltas import apply_delta, make_delta
from pocketquery.sdk.slices.source import read_source
from tests.sdk.javascript_fixtures import KEY
from tests.sdk.javascript_indexes import plain

__all__ = ["MADE_FROM", "main"]

CONFORMANCE = Path(__file__).parents[2] / "conformance"
TARGET = CONFORMANCE / "deltas"
MADE_FROM = {"deltas/first.delta": "search/index", "deltas/plain.delta": "index/compact"}
"""The index that each delta was made from, below conformance/."""

_QUERIES = ["the sea", "make sugar", "東京 café", "plants light", "a bridge", "naïve Zürich"]
_FILTERS: list[Any] = [None, {"lang": "de"}, {"year": {"$gte": 2**53 + 1}}, {"new": True}]


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions = [CONFORMANCE / "search" / "index", folder / "1", folder / "2"]
        for number, (before, after) in enumerate(pairwise(versions)):
            _build_next(before, after, number, KEY)
        make_delta(versions[0], versions[1], TARGET / "first.delta", signing_key=KEY)
        make_delta(versions[1], versions[2], TARGET / "second.delta", signing_key=KEY)
        answers = {"signed": _answers(versions[2])}
        shutil.copytree(versions[0], folder / "applied")
        apply_delta(TARGET / "first.delta", folder / "applied")
        _write_gz(
            TARGET / "applied.json.gz",
            {
                path.name: base64.b64encode(path.read_bytes()).decode()
                for path in sorted((folder / "applied").iterdir())
            },
        )
        old = CONFORMANCE / "index" / "compact"
        _build_next(old, folder / "plain", 2, None)
        make_delta(old, folder / "plain", TARGET / "plain.delta")
        answers["plain"] = _answers(folder / "plain")
    _write_gz(TARGET / "expected.json.gz", answers)
    print(sum(len(one["searches"]) for one in answers.values()), "searches after deltas")


def _next(documents: list[Document], number: int) -> list[Document]:
    """Some of ``documents`` gone, some changed, one moved, and new ones among them."""
    kept = documents[2:]
    changed = Document(kept[5].id, f"{kept[5].text} naïve Zürich", {"lang": "fr"})
    moved = [*kept[:5], changed, *kept[7:], kept[6]]
    numbers: Iterable[int] = range(4)
    new = [
        Document(f"new {number} {n}", "a bridge by the sea", {"new": True, "year": 2**53 + n})
        for n in numbers
    ]
    return [new[0], *moved[:9], *new[1:3], *moved[9:], new[3]]


def _build_next(before: Path, after: Path, number: int, key: Key | None) -> None:
    """The next version of the index ``before``; what is new has the vector of another."""
    with read_source(before) as source:
        rows = {document.id: row for row, document in source.documents()}
        documents = _next([document for _, document in source.documents()], number)
        places = [rows.get(one.id, n % len(rows)) for n, one in enumerate(documents)]
        with create_index(
            after,
            space_id=source.info.space_id,
            dimension=source.info.dimension,
            signing_key=key,
        ) as builder:
            builder.add_rows(documents, source.codes(np.array(places)))


def _answers(path: Path) -> dict[str, Any]:
    """The contents' hash, and hits of queries and of vectors."""
    with read_source(path) as source:
        sha256 = source.contents().sha256
    searches: list[dict[str, Any]] = []
    with open_index(path) as index:
        generator = np.random.default_rng(7)
        for number, query in enumerate(_QUERIES * len(_FILTERS)):
            for mode in ("dense", "lexical", "hybrid"):
                search: dict[str, Any] = {"query": query, "k": 1 + number % 7, "mode": mode}
                search["filter"] = _FILTERS[number // len(_QUERIES)]
                vector = generator.normal(size=index.dimension).astype(np.float32)
                options: dict[str, Any] = {} if mode == "lexical" else {"vector": vector}
                hits = index.search(**search, **options)
                search |= {"filter": plain(search["filter"])}
                search |= {name: value.tolist() for name, value in options.items()}
                searches.append(
                    search | {"hits": [[hit.id, hit.score, hit.cosine, hit.bm25] for hit in hits]}
                )
        return {"contents_sha256": sha256, "size": len(index), "searches": searches}


def _write_gz(path: Path, value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
