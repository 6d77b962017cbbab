"""An index, and what Python finds in it, for Java: ``python -m tests.java.searches FOLDER``.

The documents are the paragraphs of ``docs/``, encoded by the built-in encoder. The queries are 45
of their headings and 5 with operators, each in three modes and with seven filters: 1,050 searches.
With a second argument, a file of a text a line, these are the documents, and there are no filters:
what ``Benchmark.java`` measures.
"""

import json
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pocketquery import sdk

ROOT = Path(__file__).parents[2]
FILTERS: list[Any] = [
    None,
    {"folder": "formats"},
    {"words": {"$gte": 20, "$lt": 60}},
    {"$or": [{"folder": "how-to"}, {"$not": {"words": {"$lte": 30}}}], "page": {"$ne": "index"}},
    {"title": {"$contains": "index"}},
    {"since": {"$gt": "2024-03", "$lte": "2025-06-15"}},
    {"tags": {"$all": ["a", "c"]}, "page": {"$nin": ["tour", "results"]}},
]
OPERATORS = [
    '"the index" words',
    "+signature key",
    "encoder -teacher",
    "querry encodr",
    "-gate release rollback",
]
MODES: tuple[Literal["hybrid", "lexical", "dense"], ...] = ("hybrid", "lexical", "dense")


def documents_of(folder: Path) -> tuple[list[Any], list[str]]:
    """The paragraphs below ``folder``, and its headings."""
    documents, headings = [], []
    for page in sorted(folder.rglob("*.md")):
        title = page.stem
        for number, part in enumerate(page.read_text("utf-8").split("\n\n")):
            if part.startswith("#"):
                title = part.lstrip("# ").split("\n")[0]
                headings.append(title)
                continue
            count = len(part.split())
            since = f"202{count % 7}-{1 + number % 12:02}-{1 + count % 28:02}"
            tags = [one for one in "abc" if (number + count) % (ord(one) - 95)]
            folder_name = page.parent.name
            metadata = {
                "title": title,
                "page": page.stem,
                "folder": folder_name,
                "words": count,
                "since": since,
                "tags": tags,
            }
            documents.append(
                {"id": f"{folder_name}/{page.stem}#{number}", "text": part, "metadata": metadata}
            )
    return documents, headings


def main(folder: Path, texts: Path | None = None) -> None:
    """Write ``folder/index`` and ``folder/expected.json``."""
    encoder = sdk.load()
    documents, headings = documents_of(ROOT / "docs")
    sought = (
        sorted(set(headings), key=lambda one: (len(one) * 7919 % 101, one))[: 50 - len(OPERATORS)]
        + OPERATORS
    )
    if texts is not None:
        lines = texts.read_text("utf-8").splitlines()
        documents = [{"id": f"d{number}", "text": line} for number, line in enumerate(lines)]
    contents = [
        f"{one['metadata']['title']} {one['text']}" if "metadata" in one else one["text"]
        for one in documents
    ]
    with sdk.create_index(folder / "index", encoder=encoder) as builder:
        for start in range(0, len(documents), 1000):
            part = slice(start, start + 1000)
            builder.add(
                [sdk.Document(**one) for one in documents[part]],
                encoder.encode_document(contents[part]),
            )
    filters = [None] if texts is not None else FILTERS
    expected = []
    with sdk.open_index(folder / "index", encoder=encoder) as index:
        for query in sought:
            vector = np.asarray(encoder.encode_query(query), np.float32)
            for mode in MODES:
                for condition in filters:
                    given: dict[str, Any] = {} if mode == "lexical" else {"vector": vector}
                    hits = index.search(query, 10, mode=mode, filter=condition, **given)
                    found = [[hit.id, hit.score] for hit in hits]
                    one = {
                        "query": query,
                        "mode": mode,
                        "k": 10,
                        "filter": condition,
                        "hits": found,
                    }
                    expected.append(
                        one | {"vector": None if mode == "lexical" else vector.tolist()}
                    )
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
