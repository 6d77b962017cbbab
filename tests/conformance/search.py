"""Write conformance/search: a signed index in the space of the tiny bundle, and text queries.

The whole way: a text, its vector by ``encoder/tiny``, hits in three modes and with filters. And
``inputs``: what must not be accepted of a caller, with the class of the error.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pocketquery import sdk
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document, content
from pocketquery.sdk.index.index import Index, open_index
from tests.sdk.javascript_fixtures import KEY

__all__ = ["TARGET", "called", "main"]

CONFORMANCE = Path(__file__).parents[2] / "conformance"
TARGET = CONFORMANCE / "search"
BUNDLE = CONFORMANCE / "encoder" / "tiny"
_TEXTS = [
    "how do plants make sugar", "the sea", "make light of the sea", "Zürich cafe", "plants",
    "Who makes sugar?", "cafes and seas", "query the light", "東京 café", "making plants sugar",
    "xyzzy 1920", "sea sea sea light",
]  # fmt: skip
_QUOTED = [
    '"make sugar" sea', '"sugar the cafe" light', '+"sugar the cafe" sea', 'sea "light plants"',
    '"makes sugar" "cafe sea" -plants', '"the sea',
    "wie ist das Licht in der sea und die Stadt im Cafe", "la luz de how en el mar y query",
    'wie wird "the sea" von der Stadt zu make', "how do the quux zzyzx blorp frobnicate",
    "who of quux zzyzx blorp glorp", "sea was it quux zzyzx blorp or glorp",
]  # fmt: skip
_FILTERS: list[Any] = [
    None, {"year": {"$gte": 2003}}, {"lang": "en", "$not": {"year": {"$in": [2001, 2004]}}},
    {"$or": [{"lang": "de"}, {"year": {"$exists": False}}]}, {"lang": "none"},
]  # fmt: skip
_NOTHING: list[float] = [0.0] * 16


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    encoder = sdk.load(BUNDLE)
    documents = [
        Document(
            f"d{number}",
            f"{_TEXTS[number % 12]}, {_TEXTS[(number * 5 + 2) % 12]} {_TEXTS[number * 7 % 11]}",
            {"lang": ("en", "de")[number % 2], "language": ("en", "de-AT", "", "zh")[number % 4]}
            | ({"year": 2000 + number} if number % 3 else {}),
        )
        for number in range(30)
    ]
    with create_index(
        TARGET / "index",
        space_id=encoder.space_id,
        dimension=encoder.dimension,
        signing_key=KEY,
    ) as builder:
        builder.add(documents, encoder.encode_document([content(one) for one in documents]))
    with open_index(TARGET / "index", encoder=encoder) as index:
        found: list[Any] = []
        for number, text in enumerate([*_TEXTS, *_QUOTED]):
            for place, mode in enumerate(("dense", "lexical", "hybrid")):
                search: dict[str, Any] = {"query": text, "k": 1 + (number + place) % 7}
                search |= {"mode": mode, "filter": _FILTERS[(number + place) % 5]}
                hits = index.search(**search)
                found.append(
                    search | {"hits": [[hit.id, hit.score, hit.cosine, hit.bm25] for hit in hits]}
                )
        inputs = [one | {"error": _error(index, encoder, one)} for one in _inputs()]
    text = json.dumps({"searches": found, "inputs": inputs}, ensure_ascii=True, indent=1)
    (TARGET / "expected.json").write_text(text + "\n", encoding="utf-8")
    print(len(found), "searches,", len(inputs), "inputs")


def called(index: Index, encoder: sdk.Encoder, one: dict[str, Any]) -> None:
    """Do what ``one`` says, which is to fail."""
    if one["call"] == "encode":
        encoder.encode(one["text"], **one["options"])
    elif one["call"] == "open":
        open_index(CONFORMANCE / one["place"], encoder=encoder).close()
    else:
        index.search(one["text"], **one["options"])


def _error(index: Index, encoder: sdk.Encoder, one: dict[str, Any]) -> str:
    try:
        called(index, encoder, one)
    except PocketQueryError as error:
        return type(error).__name__
    raise AssertionError(f"{one} was accepted")


def _inputs() -> list[dict[str, Any]]:
    def encode(text: Any, **options: Any) -> dict[str, Any]:
        return {"call": "encode", "text": text, "options": options}

    def search(text: Any, **options: Any) -> dict[str, Any]:
        return {"call": "search", "text": text, "options": options}

    return [
        encode("half \ud83d a character"), encode("\udc00"), encode(["sound", "a\ud800b"]),
        encode(7), encode(None), encode([1]), encode("a", prompt_name="unknown"),
        encode("a", prompt="\ud800"), encode("a", truncate_dim=0), encode("a", truncate_dim=17),
        encode("a", truncate_dim=1.5),
        search(""), search(" \t\n"), search('""'), search("\u201c \u201d -"),
        search("+", mode="lexical"), search("a\ud800"), search("a", k=0), search("a", k=-1),
        search("a", k=1.5), search("a", mode="fuzzy"), search("a", filter=[]),
        search("a", filter={"lang": {"$near": 1}}), search("a", filter={"year": {"$gt": None}}),
        search("a", filter={"a\ud800": 1}), search("a", filter={"lang": {"$in": ["\udfff"]}}),
        search("a", vector=[1.0, 2.0]), search("a", vector=_NOTHING), search(_NOTHING),
        search([1.0] * 17), search([1.0] * 16, mode="lexical"), search([1.0] * 16, mode="hybrid"),
        {"call": "open", "place": "index/base"},
    ]  # fmt: skip


if __name__ == "__main__":
    main()
