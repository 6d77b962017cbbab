"""Write conformance/index: indexes that Python built, and what Python finds in them.

    python -m tests.sdk.javascript_indexes

``base`` is an index that was added to and deleted from; ``changed`` is what a copy of it answers
after the changes in ``expected.json.gz``; ``compact`` is that copy, compacted. Rows of
vectors and means come with them. Whole numbers beyond JavaScript's are written
``{"$bigint": "..."}``, what JSON lacks ``{"$number": "Infinity"}``.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pocketquery.sdk import Document, Index, InvalidInputError, create_index, open_index

DATA = Path(__file__).parents[2] / "conformance" / "index"
DIMENSION = 24
SPACE = "space-of-tests"
WORDS = (
    "bridge bridges bridged river rivers built building builder relational conditional rational "
    "hopping hoping agreed feed plastered motoring conflated troubled sized falling hissing "
    "happy sky formaliti sensibiliti digitizer vietnamization operator feudalism decisiveness "
    "hopeful triplicate electrical goodness revival allowance inference airliner adjustable "
    "irritant replacement adoption communism activate effective cease controlling roll the "
    "of and 1999 42nd naïve Straße ΑΘΗΝΑ Ἀθῆναι Москва ёлка İstanbul ﬁle Ⅷ x² हिन्दी किताब "
    "สวัสดีชาวโลก 東京都庁 こんにちは "
    "カタカナ 한국어 မြန်မာ ភាសា ລາວ 𠮷野家 𝔘𝔫𝔦 don't e-mail co2 ABC_def"
).split()
FIELDS = [*"lang year tag note a.b __proto__ toString".split(), "", 'quo"te', "back\\slash"]
ENDINGS = (
    "ational tional enci anci izer logi bli alli entli eli ousli ization ation ator alism iveness "
    "fulness ousness aliti iviti biliti ical ness icate iciti ful ative alize al ance ence er ic "
    "able ible ant ement ment ent ion ou ism ate iti ous ive ize ed ing eed sses ies s es y ll e"
).split()
BLOCKS = [  # by hand: where letters, marks, digits and signs of many kinds lie
    range(first, last)
    for first, last in (
        (0x20, 0x7F), (0x20, 0x7F), (0xA0, 0x250), (0x300, 0x378), (0x384, 0x38B), (0x38E, 0x3A2),
        (0x3A3, 0x530), (0x5D0, 0x5EB), (0x620, 0x700), (0x904, 0x950), (0xE01, 0xE3B),
        (0xE40, 0xE5C), (0x1000, 0x1090), (0x1780, 0x17DE), (0x1E00, 0x1F16), (0x2070, 0x2072),
        (0x2100, 0x2180), (0x3041, 0x3097), (0x3099, 0x30FF), (0x4E00, 0x4E20), (0xAC00, 0xAC20),
        (0xF900, 0xF920), (0xFB00, 0xFB07), (0xFF01, 0xFFBF), (0x10400, 0x10430),
        (0x1D400, 0x1D420), (0x1F600, 0x1F610), (0x20000, 0x20010), (0xE000, 0xE004),
    )
]  # fmt: skip
SUMS = ((400, 7), (400, 300), (2**31, 1000))  # the last are rounded at every step
LANGUAGES: list[Any] = [  # some are codes
    "en", "de", None, "de-AT", "fil", "en", "EN", "zh-Hant-TW", ["de"], 7, "", "x", "engl", "de_DE",
]  # fmt: skip
SHORT = [  # texts and titles around the least that has a place by meaning
    ("", ""), ("\u200b\u00ad \x00", ""), ("-", ""), ("...", "—"), ("=====", ""), ("a", ""),
    ("É", "-"), ("7", ""), ("a", "a"), ("42", ""), ("ab", ""), ("日", ""), ("я", ""), ("ß", ""),
    ("½", ""), ("👍", ""), ("", "bridge"),
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 1999, 2000, 2001, 2000.5, -0.0, 1e300, 2**53, 2**53 + 1, 2**62,
    2**62 + 1, 2**63, 2**70, -(2**63), -(2**63) - 1, float(2**62), 0.1, "", "en", "de",
    "ny", "2000", "ﬁ", "\ue000", "𐀀", "é", "z", [], ["en", "de"], [1, "en", None], [[1]],
    [2**62, 2000.5], {"en": 1}, {},
]  # fmt: skip


def plain(value: Any) -> Any:
    """``value`` as JSON that JavaScript reads exactly."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53 - 1:
        return {"$bigint": str(value)}
    if isinstance(value, float) and not np.isfinite(value):
        return {"$number": {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]}
    return value


SAFE = [one for one in VALUES if "$bigint" not in str(plain(one))]  # what JavaScript can give


def main() -> None:
    """Write everything anew."""
    draw = random.Random(20)
    DATA.mkdir(parents=True, exist_ok=True)
    for name in ("base", "compact"):
        shutil.rmtree(DATA / name, ignore_errors=True)
    base = DATA / "base"
    with create_index(base, space_id=SPACE, dimension=DIMENSION) as builder:
        builder.add(*some(draw, 0, 110))
        builder.add(*some(draw, 110, 130))
    with open_index(base, writable=True) as index:
        index.add(*some(draw, 130, 150))
        index.delete([f"d{n}" for n in range(0, 150, 17)])
    with open_index(base) as index:
        expected: dict[str, Any] = {"base": answers(index, random.Random(21))}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(base, copy)
        changes = make_changes(draw)
        with open_index(copy, writable=True) as index:
            for change in changes:
                if "delete" in change:
                    index.delete(change["delete"])
                else:
                    index.add(
                        [Document(**document) for document in change["add"]],
                        np.array(change["vectors"], np.float64),
                    )
        with open_index(copy) as index:
            expected["changed"] = answers(index, random.Random(22))
        rows = (copy / "vectors-0.u8").read_bytes()[(base / "vectors-0.u8").stat().st_size :]
        with open_index(copy, writable=True) as index:
            index.compact()
        with open_index(copy) as index:
            expected["compact"] = answers(index, random.Random(23))
        shutil.copytree(copy, DATA / "compact")
    expected["changes"] = changes
    expected["rows"] = base64.b64encode(rows).decode()
    numbers = np.random.default_rng(25)
    lengths = [numbers.integers(0, most, count).tolist() for most, count in SUMS]
    expected["means"] = [[values, float(np.array(values, np.float32).mean())] for values in lengths]
    text = json.dumps(plain(expected), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    (DATA / "expected.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def some(
    draw: random.Random, first: int, stop: int, values: Sequence[Any] = VALUES
) -> tuple[list[Document], Any]:
    """Documents and their vectors; some are alike, for ties."""
    documents: list[Document] = []
    vectors: list[list[int]] = []
    for number in range(first, stop):
        text = " ".join(draw.choice(WORDS) for _ in range(draw.choice((0, 1, 5, 12, 40))))
        vector = [draw.randint(-50, 50) for _ in range(DIMENSION)]
        if documents and draw.random() < 0.1:
            text, vector = documents[-1].text, vectors[-1]
        metadata = {name: draw.choice(values) for name in FIELDS if draw.random() < 0.5}
        if (language := LANGUAGES[number % len(LANGUAGES)]) is not None:
            metadata["language"] = language
        if draw.random() < 0.2:
            metadata["title"] = draw.choice([*WORDS, 7])
        documents.append(Document(f"d{number}", text, metadata))
        vectors.append(vector)
    # One with a text and a word of many of SQLite's pages.
    if first == 0:
        documents[3] = Document("long", "overflow " * 700 + "x" * 9000, {"note": "y" * 9000})
    return documents, np.array(vectors, np.float64)


def make_changes(draw: random.Random) -> list[dict[str, Any]]:
    """What is done to the base: new documents, deleted ones, and ids used again."""
    changes: list[dict[str, Any]] = []
    for first in (200, 220, 221):
        documents, vectors = some(draw, first, first + (20 if first == 200 else 1), SAFE)
        changes.append({"add": [vars(one) for one in documents], "vectors": vectors.tolist()})
        changes.append({"delete": [f"d{draw.randrange(150)}" for _ in range(5)] + ["unknown"]})
        changes.append({"delete": [f"d{first}", "d1"]})
    document = Document("d1", "the bridge was built anew", {"lang": "en"})
    changes.append({"add": [vars(document)], "vectors": [[1.0] * DIMENSION]})
    short = [Document(f"short {text}|{title}", text, {"title": title}) for text, title in SHORT]
    vectors = [[float(draw.randint(-50, 50)) for _ in range(DIMENSION)] for _ in short]
    changes.append({"add": [vars(one) for one in short], "vectors": vectors})
    return changes


def answers(index: Index, draw: random.Random, searches_wanted: int = 50) -> dict[str, Any]:
    """What Python answers."""
    searches = []
    for _ in range(searches_wanted):
        query = " ".join(draw.choice(WORDS) for _ in range(draw.choice((1, 2, 4, 9))))
        vector = [draw.randint(-9, 9) for _ in range(DIMENSION)]
        for mode in ("dense", "lexical", "hybrid"):
            options: dict[str, Any] = {"k": draw.choice((1, 3, 5, 10, 30, 120)), "mode": mode}
            if mode != "lexical":
                options["vector"] = vector
            if draw.random() < 0.4:
                options["filter"] = make_filter(draw, 0, valid=True)
            hits = index.search(
                query, **{**options, **({"vector": np.array(vector)} if mode != "lexical" else {})}
            )
            answer = [[hit.id, hit.score, hit.cosine, hit.bm25] for hit in hits]
            searches.append({"query": query, **options, "hits": answer})
    filters = []
    for _ in range(5 * searches_wanted):
        one = make_filter(draw, 0)
        try:
            hits = index.search(np.ones(DIMENSION), 1000, filter=one)
            found = sorted(hit.id for hit in hits)
        except InvalidInputError:
            found = None
        filters.append([one, found])
    return {"size": len(index), "searches": searches, "filters": filters}


def make_filter(draw: random.Random, depth: int, valid: bool = False) -> Any:
    """A filter; some cannot be."""
    if not valid and draw.random() < 0.01:
        return draw.choice([[], 3, "x", {"$odd": 1}, {"lang": {}}, {"lang": {"$odd": 1}}])
    made: dict[str, Any] = {}
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        roll = draw.random()
        if depth < 3 and roll < 0.15:
            name = draw.choice(("$and", "$or"))
            made[name] = [make_filter(draw, depth + 1, valid) for _ in range(draw.randint(0, 3))]
        elif depth < 3 and roll < 0.25:
            made["$not"] = make_filter(draw, depth + 1, valid)
        else:
            made[draw.choice(FIELDS)] = make_test(draw, valid)
    return made


def make_test(draw: random.Random, valid: bool) -> Any:
    plain_values = [one for one in VALUES if not isinstance(one, (list, dict))]
    numbers = [one for one in plain_values if one is not None and not isinstance(one, bool)]
    more = [] if valid else [float("inf"), float("-inf"), 2**1023, -(10**400)]
    value = draw.choice(plain_values + more)
    operator = draw.choice(
        ("$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists", "")
    )
    if not valid and draw.random() < 0.05:
        return {operator: draw.choice([*VALUES, float("nan"), *more])}
    if operator == "":
        return value
    if operator in ("$in", "$nin"):
        return {operator: [draw.choice(plain_values + more) for _ in range(draw.randint(0, 4))]}
    if operator in ("$eq", "$ne"):
        return {operator: value}
    if operator == "$exists":
        return {operator: draw.random() < 0.5}
    other = draw.choice(("$gt", "$gte", "$lt", "$lte"))
    return {operator: draw.choice(numbers), other: draw.choice(numbers)}


if __name__ == "__main__":
    main()
