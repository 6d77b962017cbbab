"""An index, and what Python finds in it, for Java: ``python -m tests.java.searches FOLDER``.

The documents are the paragraphs of ``docs/``, encoded by the built-in encoder. The queries are 42
of their headings, 5 with operators and 3 in other languages, each in three modes and with seven
filters: 1,050 searches.
In the folder ``languages`` is an index of the same documents as if they were of several languages,
their vectors apart as those of an encoder of many languages are, and 300 searches of it. With a
second argument, a file of a text a line, these are the documents, and there are no filters and no
languages: what ``Benchmark.java`` measures.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pocketquery import sdk
from tests.conformance.independent.filters import parsed
from tests.conformance.results import TARGET, german_index, records_index

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
    '"index the words" "the index"',
    "+signature key",
    "encoder -teacher",
    "querry encodr",
    "-gate release rollback",
    "was ist der Index und wie wird die Signatur in der Datei geprüft",
    "comment est-ce que la signature de l'index se vérifie dans le bundle",
    "cómo se firma un index para los que no son de la casa",
]
LANGUAGES = ["en", "de", "en-GB", None, "fil", "de", "en"]
OPTIONS: list[Any] = [{}, {"languages": ["de", "fil"], "k": 3, "offset": 2}]
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
    """Write ``folder/index``, ``folder/expected.json``, and ``folder/languages`` alike."""
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
    vectors = np.asarray(encoder.encode_document(contents), np.float32)
    queries = {one: np.asarray(encoder.encode_query(one), np.float32) for one in sought}
    options = [{}] if texts is not None else [{"filter": one} for one in FILTERS]
    write(folder, documents, vectors, queries, options)
    if texts is None:
        draw = np.random.default_rng(0)
        towards = {one: draw.normal(0, 0.05, vectors.shape[1]) for one in {*LANGUAGES, "query"}}
        for number, one in enumerate(documents):
            language = LANGUAGES[len(one["text"]) % len(LANGUAGES)]
            one["metadata"] = one["metadata"] | ({"language": language} if language else {})
            vectors[number] += towards[language]
        shifted = {query: vector + towards["en"] / 2 for query, vector in queries.items()}
        write(folder / "languages", documents, vectors, shifted, OPTIONS)
        results = parsed(gzip.decompress(TARGET.read_bytes()).decode())
        records_index(results["records"], folder / "records").close()
        german_index(folder / "german").close()


def write(
    folder: Path,
    documents: list[Any],
    vectors: Any,
    queries: dict[str, Any],
    options: list[Any],
) -> None:
    """Write ``folder/index``, and what searches with these vectors and options find there."""
    space: dict[str, Any] = {"space_id": sdk.load().space_id, "dimension": vectors.shape[1]}
    with sdk.create_index(folder / "index", **space) as builder:
        for start in range(0, len(documents), 1000):
            part = slice(start, start + 1000)
            builder.add([sdk.Document(**one) for one in documents[part]], vectors[part])
    expected = []
    with sdk.open_index(folder / "index") as index:
        for query, vector in queries.items():
            for mode in MODES:
                meaning: dict[str, Any] = (
                    {} if mode == "lexical" else {"vector": np.asarray(vector, np.float32)}
                )
                for one in options:
                    hits = index.search(query, mode=mode, **meaning, **one)
                    found = [[hit.id, hit.score] for hit in hits]
                    asked = {"query": query, "mode": mode, "vector": None, "k": 10, "filter": None}
                    asked |= {name: value.tolist() for name, value in meaning.items()}
                    expected.append(asked | one | {"hits": found})
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
