"""Write conformance/results.json.gz: metadata, filters and the documents that meet them.

Whole numbers beyond JavaScript's are written ``{"$bigint": "..."}``, what JSON lacks
``{"$number": "Infinity"}``.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index, open_index
from pocketquery.sdk.results.snippet import snippet
from tests.conformance.tables import tables
from tests.sdk.javascript_indexes import SAFE, plain

__all__ = ["TARGET", "main", "records_index"]

TARGET = Path(__file__).parents[2] / "conformance" / "results.json.gz"
_TEXTS = [
    *"garden/march.md garden/Märch.md garden pumps/README Garden GARDEN".split(),
    "Straße", "STRASSE", "Ma\u0308rch", "ﬁle", "file", "2024", "2024-05", "2024-05-31",
    "2024-05-31T10:00", "2024-05-31T10:00:00Z", "2024-05-31 12:00:00.5+02:00",
    "2024-06-01T00:30+0200", "2024-05-31T23:59:59.999999-00:30", "2024-05-31T23:59:59.9999999",
    "2024-02-30", "2024-05-31T24:00",
    "20240531", "0001-01-01", "9999-12-30", "2024-5-31", "0000-01", "soon",
]  # fmt: skip
_FIELDS = ["path", "date", "author.name", "author", "a.b", "a.b.c", "a..b", ".", "tags", "lang"]
_LANGUAGES = ["english", "german", "french", "russian", "turkish", "arabic", "none"]
_PIECES = [
    *"plant planted planting Pflanzen Straßen STRASSE the I how der est и bir في".split(),
    *"get_user_name getUserName C++ .NET 3.11.7 v2.0 e-mail e-mails don't don’t #12 U.S.A.".split(),
    *"... ) — ... ! 猫 見当がつかぬ。 ガｶﾞ ชาวโลก 학교에서 학교 स्कूल किताबें المدينةِ".split(),
    "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "👍🏽", "a\u0301\u0323", "soft\u00adware", "software", "xyz" * 13,
    "Ба\u0301бушки", "бабушка", "\u1112\u1161\u11ab", "\n\n", "\u3000", "https://example.org/a/b?c=d&e=f",
    "A sentence. Another one! A third? Yes",
]  # fmt: skip
GERMAN = {
    "pump": "Die Umwälzpumpe der Heizung läuft nachts langsamer als am Tag.",
    "test": "Eine Hochspannungsprüfung dauert zehn Minuten; Protokoll und Prüfstand sind da.",
    "quality": "Die Qualitätsprüfung und die Sichtprüfung nach jeder Reparatur.",
    "ship": "Die Donau: Dampfschiff und Schifffahrt von Passau bis Wien.",
    "meter": "Zähler, Zählerstand, Zählerstände und Zählerschrank: Zählerwesen.",
    "bread": "Brot backen mit Sauerteig",
}
VECTORS = np.eye(6, 8, dtype=np.float32) + np.float32(0.25)
_GERMAN_QUERIES = [
    *"Pumpe Prüfung Pumpen Prüfungen Donaudampfschiff Zähler Zähl Brot Qualitätsprüfungen".split(),
    "Prüfung der Pumpe", "Umwälzpumpe Pumpe Heizung", "Brot backen mit Sauerteig", "Pumpf Brot",
    "where in the town is there a Brot mit the lowest Zählerstand or no Protokoll",
    "who does the test of a pump and what is this am Tag", "is the Sauerteig in the or of",
]  # fmt: skip
_ORDERS = ("$gt", "$gte", "$lt", "$lte")


def main() -> None:
    """Write everything anew."""
    draw = random.Random(42)
    records = [_record(draw) for _ in range(150)]
    with tempfile.TemporaryDirectory() as folder, records_index(records, Path(folder)) as index:
        filters = [[one, matching(index, one)] for one in (_filter(draw) for _ in range(600))]
        asked: list[dict[str, Any]] = [{"field": draw.choice(_FIELDS)} for _ in range(20)]
        asked += [{"field": "tags", "query": "text"}, {"field": "a.b", "filter": filters[0][0]}]
        facets = [one | {"counts": index.facets(**one)} for one in asked]
        groups = [_grouped(index, draw) for _ in range(20)]
        fields = index.fields()
        misspelt: list[dict[str, Any]] = [
            {"pth": 1, "$or": [{"tag": 1}, {"author.nmae": 2}]}, {"a": 1, "author": 2, "zzz": 3},
            {"$not": {"dates": 1, "lnag": 2, "a.bc": 3, "a..c": 4, "": 5, "path": 6}},
        ]  # fmt: skip
        unknown = [[one, index.unknown_fields(one)] for one in misspelt]
    met = sum(1 for _, rows in filters if rows)
    expected = {"records": records, "filters": filters, "facets": facets, "groups": groups}
    expected |= {
        "fields": fields,
        "unknown": unknown,
        "snippets": [_snippet(draw) for _ in range(300)],
    }
    with tempfile.TemporaryDirectory() as folder, german_index(Path(folder)) as index:
        german = {"documents": GERMAN, "vectors": VECTORS.tolist(), "searches": _searches(index)}
    expected["german"] = german
    text = json.dumps(plain(expected), separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))
    write_common_words()
    print(len(records), "records,", len(filters), "filters,", met, "with matches")


def write_common_words() -> None:
    """``sdk/js/src/words/common_words.ts``."""
    head = "/** The common words of each language; written by tests/conformance. */\n\n"
    lines = ["export const COMMON: Readonly<Record<string, string>> = {"]
    common = json.loads(tables()["common_words.json"])
    lines += [f'  {language}: " {words} ",' for language, words in common.items()]
    text = head + "\n".join([*lines, "};\n"])
    (TARGET.parents[1] / "sdk/js/src/words/common_words.ts").write_text(text, encoding="utf-8")


def records_index(records: list[dict[str, Any]], folder: Path) -> Index:
    """An index of documents with these metadata; their ids are their numbers."""
    documents = [Document(str(number), "text", record) for number, record in enumerate(records)]
    with create_index(folder / "index", space_id="space-of-tests", dimension=8) as builder:
        builder.add(documents, np.ones((len(records), 8), np.float32))
    return open_index(folder / "index")


def german_index(folder: Path) -> Index:
    """An index of German texts, whose compounds words stand for."""
    options: Any = {"space_id": "space-of-tests", "dimension": 8, "language": "german"}
    with create_index(folder / "index", **options) as builder:
        builder.add([Document(*one) for one in GERMAN.items()], VECTORS)
    return open_index(folder / "index")


def _searches(index: Index) -> list[dict[str, Any]]:
    searches = []
    for number, query in enumerate(_GERMAN_QUERIES):
        for mode in ("lexical", "hybrid"):
            for prefix in (False, True):
                options: dict[str, Any] = {"query": query, "mode": mode, "prefix": prefix}
                vector = VECTORS[number % len(VECTORS)] if mode == "hybrid" else None
                hits = index.search(**options, k=5, vector=vector)
                found = {
                    "row": number % len(VECTORS),
                    "hits": [[hit.id, hit.score] for hit in hits],
                }
                searches.append(options | found)
    return searches


def matching(index: Index, query: Any) -> list[int] | None:
    """The records that meet ``query``; None where it is no filter."""
    try:
        return sorted(int(hit.id) for hit in index.search(np.ones(8), 1000, filter=query))
    except InvalidInputError:
        return None


def _grouped(index: Index, draw: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"k": draw.choice((1, 5, 20, 140)), "offset": draw.choice((0, 3, 60))}
    options |= {"group_by": draw.choice(_FIELDS)}
    hits = index.search("text", mode="lexical", **options)
    return options | {"hits": [[hit.id, hit.others] for hit in hits]}


def _snippet(draw: random.Random) -> list[Any]:
    count, query = draw.choice((1, 5, 20, 60, 120)), [draw.choice(_PIECES) for _ in range(3)]
    pieces = [draw.choice(_PIECES) for _ in range(count)]
    text = draw.choice([" ", " ", " ", "", ", ", ". "]).join(pieces)
    language, length = draw.choice(_LANGUAGES), draw.choice((20, 40, 100, 160, 300))
    asked = draw.choice([" ".join(query), query[0], f'"{query[0]} {query[1]}"', f"+{query[0]}"])
    found = snippet(text, asked, length=length, language=language)
    return [text, asked, language, length, found.text, found.marks]


def _record(draw: random.Random) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name in _FIELDS:
        if draw.random() < 0.5:
            record[name] = _value(draw, 2)
    if draw.random() < 0.5:
        record["a"] = {"b": _value(draw, 2), "": _value(draw, 1)}
    return record


def _value(draw: random.Random, depth: int) -> Any:
    roll = draw.random()
    if depth and roll < 0.15:
        return [_value(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    if depth and roll < 0.4:
        return {draw.choice(["name", "b", "c", ""]): _value(draw, depth - 1) for _ in range(2)}
    return draw.choice(_TEXTS) if roll < 0.85 else draw.choice(SAFE)


def _filter(draw: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(draw.choice((1, 1, 1, 2))):
        operator = draw.choice(
            ["$prefix", "$contains", "$all", "$in", *_ORDERS, "$eq", "$exists", "$ne"]
        )
        text = draw.choice(_TEXTS)
        value: Any = text
        if operator == "$contains":
            start = draw.randint(0, len(text) - 1)
            value = draw.choice([str.lower, str.upper, str.title])(text[start : start + 4])
        elif operator == "$prefix":
            value = text[: draw.randint(0, 4)]
        elif operator in ("$all", "$in"):
            value = [draw.choice(_TEXTS) for _ in range(draw.randint(0, 2))]
        elif operator == "$exists":
            value = draw.random() < 0.5
        elif draw.random() < 0.1:
            value = draw.choice(SAFE)
        made[draw.choice([*_FIELDS, "a.", "author.c", "path.name"])] = {operator: value}
    return {"$not": made} if draw.random() < 0.2 else made


if __name__ == "__main__":
    main()
