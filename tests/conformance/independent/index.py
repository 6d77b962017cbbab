"""An index by docs/formats, "Index": opened, checked and searched.

What makes terms of texts is given: ``sdk/words``, which conformance/words holds JavaScript's to.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.independent.artefacts import Refused, require, sha256
from tests.conformance.independent.ed25519 import is_signed
from tests.conformance.independent.filters import matches
from tests.conformance.independent.words import common_terms, within

Floats = NDArray[np.float32]
Hits = list[tuple[str, float]]
CODE = re.compile("[a-z]{2,3}(-[A-Za-z0-9]{1,8}){0,3}")
MEANING = 0.25
LEANING = 2
MOST_SHARE = 0.15
OWN_MEAN_ROWS = 16


class Index:
    """The index in a folder, read whole.

    Args:
        folder: where it is.
        words: a module with ``Analyzer``, ``Vocabulary`` and ``expand``.
        public_key: of who signed it.
    """

    def __init__(self, folder: Path, words: Any, public_key: bytes | None = None) -> None:
        self._words = words
        data = (folder / "index.json").read_bytes()
        if public_key is not None:
            signature = (folder / "signature").read_bytes()
            require(is_signed(data, signature, public_key), "another signature")
        info = json.loads(data)
        require(info["format"] == "pocketquery-index", "another format")
        require(info["format_version"] == 2, "another version")
        self.space: dict[str, Any] = info["space"]
        for name, entry in info["files"].items():
            content = (folder / name).read_bytes()[: entry["bytes"]]
            require(sha256(content) == entry["sha256"], f"the hash of {name}")
        place = (folder / "documents.sqlite").absolute().as_uri()
        database = sqlite3.connect(f"{place}?mode=ro&immutable=1", uri=True)
        meta = dict(database.execute("SELECT key, value FROM meta"))
        dimension = self.space["dimension"]
        require(meta["space"] == f"{dimension} {self.space['id']}", "another space")
        require(int(meta["generation"]) == info["generation"], "another generation")
        require(meta["language"] == info["language"], "another language")
        self._language: str = meta["language"]
        self._read_rows(database, folder / meta["vectors"])
        require(meta["vector_sum"] == self._sums(dimension), "the vectors' sums")
        rows = database.execute(
            "SELECT row, id, metadata, text FROM documents JOIN texts USING (row) ORDER BY row"
        )
        self.documents = {
            row: (name, json.loads(metadata), text) for row, name, metadata, text in rows
        }
        for row, (_, metadata, _) in self.documents.items():
            require(self._languages[row] == language_number(metadata), "the language of a row")
        gone = [row for (row,) in database.execute("SELECT row FROM tombstones")]
        self._alive = np.ones(len(self._codes), bool)
        self._alive[gone] = False
        self._postings = _postings(database)
        database.close()

    def _read_rows(self, database: sqlite3.Connection, path: Path) -> None:
        dimension, data = self.space["dimension"], path.read_bytes()
        require(data[:8] == b"PQVECTOR", "no vector file")
        version, found = struct.unpack_from("<II", data, 8)
        require((version, found) == (1, dimension), "another header")
        require(zlib.crc32(data[:60]) == int.from_bytes(data[60:64], "little"), "its header")
        stride, lengths, languages, count = dimension + 4, b"", b"", 0
        for first, number, packed, spoken, digest in database.execute(
            "SELECT first_row, count, lengths, languages, vectors_sha256 FROM segments"
            " ORDER BY first_row"
        ):
            require(first == count and len(packed) == 4 * number, "a segment out of order")
            require(len(spoken) == 2 * number, "a language of each row")
            languages += spoken
            rows = data[64 + first * stride : 64 + (first + number) * stride]
            require(hashlib.sha256(rows).hexdigest() == digest, "a segment's vectors")
            lengths, count = lengths + packed, count + number
        table = np.frombuffer(data[64 : 64 + count * stride], np.uint8).reshape(count, stride)
        self._codes = table[:, :dimension]
        self._scales = np.ascontiguousarray(table[:, dimension:]).view("<f4")[:, 0]
        self.placed = self._scales > 0
        require(bool(((self._scales >= 0) & (self._scales <= 1.001 / 127)).all()), "a scale")
        require(bool((self._codes[~self.placed] == 128).all()), "codes without a scale")
        self._lengths = np.frombuffer(lengths, "<u4").astype(np.float32)
        self._languages = np.frombuffer(languages, "<u2").astype(int)
        self._vectors = self._codes.astype(np.int64) - 128
        units = np.rint(self._scales.astype(np.float64) * 2**32).astype(np.int64)
        self._by_language: dict[int, list[int]] = {}
        for number in sorted(set(self._languages[self.placed].tolist())):
            own = self.placed & (self._languages == number)
            total = (units[own] @ self._vectors[own]).tolist()
            self._by_language[number] = [int(own.sum()), *total]

    def _sums(self, dimension: int) -> bytes:
        return b"".join(
            struct.pack(f"<{dimension + 2}q", number, *total)
            for number, total in self._by_language.items()
        )

    def search(
        self,
        text: str | None,
        vector: Any,
        k: int,
        mode: str,
        condition: Mapping[str, Any] | None = None,
        prefix: bool = False,
    ) -> Hits:
        """Ids and scores, best first."""
        allowed = self._alive.copy()
        analyzer = self._words.Analyzer(self._language)
        asked = None if text is None else analyzer.query(text, prefix=prefix)
        if asked and asked.phrases:
            asked = self._without_absent(asked)
        for row in np.flatnonzero(allowed) if asked else ():
            allowed[row] = self._has(int(row), asked)
        if condition is not None:
            for row in np.flatnonzero(allowed):
                allowed[row] = matches(condition, self.documents[int(row)][1])
        if mode == "lexical":
            lexical, *_ = self._bm25(asked)
            rows = np.flatnonzero(allowed & (lexical > 0))
            return self._hits(*_top(rows, lexical[rows], k))
        query = unit(vector)
        largest = max(float(np.abs(query).max()), 1e-30) / 2**23
        codes = np.rint(query.astype(np.float64) / largest).astype(np.int64)
        cosines = (self._vectors @ codes) * self._scales.astype(np.float64) * largest
        products = {}  # of the query with the sum of each language's vectors
        for number, (_, *total) in self._by_language.items():
            whole = sum(code * one for code, one in zip(codes.tolist(), total, strict=True))
            products[number] = whole / 2**32 * largest
        counts = {number: total[0] for number, total in self._by_language.items()}
        apart = self._apart(products, counts)
        if mode == "dense":
            rows = np.flatnonzero(allowed & self.placed)
            return self._hits(*_top(rows, (cosines - apart)[rows], k))
        lexical, most, present, own = self._bm25(asked)
        common = common_terms(asked, analyzer) if asked and present < most / 2 else []
        if asked and common and self._widest_share(common) <= MOST_SHARE:
            terms = {term: some for term, some in asked.terms.items() if term not in common}
            said = {term: word for term, word in asked.words.items() if term not in common}
            lexical, _, present, own = self._bm25(replace(asked, terms=terms, words=said))
        mean = sum(products.values()) / (sum(counts.values()) + 1)
        numbers = sorted(set(self._languages.tolist()))
        sums = {one: float(lexical[self._languages == one].sum(dtype=float)) for one in numbers}
        words = self._apart(sums, {one: int((self._languages == one).sum()) for one in numbers})
        here = np.full(len(self._languages), present)
        for number in self._named():
            rows_of = int((self._languages == number).sum())
            part = rows_of / (rows_of + OWN_MEAN_ROWS)
            here[self._languages == number] = present + part * (own.get(number, 0.0) - present)
        absent = 1 - here / most if most else np.ones(len(here))
        meaning = MEANING * (1 + LEANING * absent) / max(1 - mean, 0.05)
        shares = meaning * apart + words / (most or 1)
        fused = np.where(self.placed, (cosines - mean) * meaning - shares, 0)
        fused += lexical.astype(np.float64) / (most or 1)
        rows = np.flatnonzero(allowed & (self.placed | (lexical > 0)))
        rows, scores = _top(rows, fused[rows], k)
        return self._hits(rows, np.minimum(scores, 1.0))

    def _apart(self, sums: Mapping[int, float], counts: Mapping[int, int]) -> Any:
        """How far the mean of each row's language is from that of all, float64 (rows,)."""
        apart = np.zeros(len(self._languages))
        named = self._named()
        if not named:
            return apart
        mean = sum(sums[one] for one in named) / sum(counts[one] for one in named)
        for number in named:
            count = counts[number]
            share = (sums[number] / count - mean) * count / (count + OWN_MEAN_ROWS)
            apart[self._languages == number] = share
        return apart

    def _named(self) -> list[int]:
        """The languages whose scores are held against each other."""
        named = sorted(set(self._by_language) - {0})
        return named if len(named) > 1 else []

    def _has(self, row: int, asked: Any) -> bool:
        """Whether a document has what the query demands."""
        analyzer, whole = self._words.Analyzer(self._language), self._whole(row)
        terms = {term for term, _ in analyzer.occurrences([whole])[0]}
        return (
            asked.required <= terms
            and not any(excluded <= terms for excluded in asked.excluded)
            and all(within(one, analyzer.sequence(whole)) for one in asked.phrases)
            and not any(within(one, analyzer.sequence(whole)) for one in asked.excluded_phrases)
        )

    def _whole(self, row: int) -> str:
        _, metadata, text = self.documents[row]
        title = metadata.get("title")
        return f"{title} {text}" if isinstance(title, str) else text

    def _without_absent(self, asked: Any) -> Any:
        """The query without the phrases that no document has, but those behind a +."""
        analyzer, known = self._words.Analyzer(self._language), asked.required_phrases
        texts = [
            analyzer.sequence(self._whole(row)) for row in np.flatnonzero(self._alive).tolist()
        ]
        phrases = [
            one
            for one in asked.phrases
            if one in known or any(within(one, words) for words in texts)
        ]
        return replace(asked, phrases=phrases)

    def _bm25(self, asked: Any) -> tuple[Floats, float, float, dict[int, float]]:
        """Scores, the most they can be, that of the terms which are there, and which are there in
        each language. Each operation is rounded to float32, but for idf, which is float64."""
        count, most, present = len(self._lengths), 0.0, 0.0
        scores = np.zeros(count, np.float32)
        if not count:
            return scores, most, present, {}
        own: dict[int, float] = {}
        mean = max(mean_of(self._lengths), 1.0)
        norms = np.float32(1.2) * (np.float32(0.25) + np.float32(0.75 / mean) * self._lengths)
        frequencies = {term: len(rows) for term, (rows, _) in sorted(self._postings.items())}
        vocabulary = self._words.Vocabulary(frequencies, frequencies.__getitem__)
        analyzer = self._words.Analyzer(self._language)
        wanted_terms, instead = self._words.expand(asked, vocabulary, analyzer)
        best = dict.fromkeys(instead.values(), 0.0)
        own_best: dict[str, dict[int, float]] = {word: {} for word in best}
        for term, wanted in wanted_terms.items():
            rows, counts = self._postings.get(term, (np.zeros(0, int), np.zeros(0, np.float32)))
            idf = math.log1p((count - len(rows) + 0.5) / (len(rows) + 0.5))
            weight = np.float32(wanted * idf * 2.2)
            if any(term in phrase for phrase in asked.phrases):
                counts = np.minimum(counts, np.float32(1))
            scores[rows] += weight * counts / (counts + norms[rows])
            having = set(self._languages[rows].tolist())
            if term in instead:
                some = own_best[instead[term]]
                some |= {one: max(some.get(one, 0.0), float(weight)) for one in having}
                best[instead[term]] = max(best[instead[term]], float(weight))
            elif (
                term in asked.terms and term not in best and (len(rows) or term not in asked.beside)
            ):
                most += float(weight)
                present += float(weight) if len(rows) else 0
                own |= {one: own.get(one, 0.0) + float(weight) for one in having}
        for one in best.values():
            most, present = most + one, present + one
        for some in own_best.values():
            own |= {one: own.get(one, 0.0) + value for one, value in some.items()}
        return scores, most, present, own

    def _widest_share(self, terms: list[str]) -> float:
        """The mean share of the rows that have one of ``terms``, of all or of one language's."""
        having = [self._postings.get(term, (np.zeros(0, int), 0))[0] for term in terms]
        shares = [sum(len(rows) / len(self._lengths) for rows in having)]
        for number in self._named():
            count = int((self._languages == number).sum())
            own = [int((self._languages[rows] == number).sum()) / count for rows in having]
            shares.append(sum(own) * count / (count + OWN_MEAN_ROWS))
        return max(shares) / len(terms)

    def _hits(self, rows: Any, scores: Any) -> Hits:
        return [
            (self.documents[row][0], float(score))
            for row, score in zip(rows.tolist(), scores, strict=True)
        ]

    def __len__(self) -> int:
        return int(self._alive.sum())


def language_number(metadata: Mapping[str, Any]) -> int:
    """Of the field ``language``: its two or three letters in base 27, 0 where it is no code."""
    code = metadata.get("language")
    if not isinstance(code, str) or not CODE.fullmatch(code):
        return 0
    digits = ["abcdefghijklmnopqrstuvwxyz".index(letter) + 1 for letter in code.split("-")[0]]
    return int(np.polyval([*digits, 0][:3], 27))


def unit(vector: Any) -> Floats:
    """A query's vector at length 1: computed in float64, then rounded."""
    values = np.asarray(vector, np.float64)
    length = np.linalg.norm(values)
    if not (np.isfinite(length) and length):
        raise Refused("a vector without a direction")
    found: Floats = (values / length).astype(np.float32)
    return found


def mean_of(values: Floats) -> float:
    """The mean in float32, summed in the order of docs/formats."""
    return float(_sum(values.astype(np.float32)) / np.float32(len(values)))


def _sum(values: Floats) -> np.float32:
    if len(values) > 128:
        half = len(values) // 2 // 8 * 8
        return np.float32(_sum(values[:half]) + _sum(values[half:]))
    total, whole = np.float32(0), 0
    if len(values) >= 8:
        whole = len(values) // 8 * 8
        columns = np.zeros(8, np.float32)
        for row in values[:whole].reshape(-1, 8):
            columns += row
        while len(columns) > 1:
            columns = columns[::2] + columns[1::2]
        total = np.float32(columns[0])
    for value in values[whole:]:
        total = np.float32(total + value)
    return total


def quantized(vectors: Any, documents: list[tuple[Mapping[str, Any], str]], words: Any) -> bytes:
    """Rows of a vector file, of documents of these metadata and texts."""
    rows = b""
    for values, (metadata, text) in zip(vectors, documents, strict=True):
        one = unit(values)
        title = metadata.get("title")
        whole = f"{title} {text}" if isinstance(title, str) else text
        found, (length,) = words.Analyzer().occurrences([whole])
        if length < 2 and all(len(term.encode()) < 2 for term, _ in found):
            rows += bytes([128] * len(one) + [0] * 4)
            continue
        scale = np.float32(np.abs(one).max() / 127)
        codes = (np.rint(one / scale) + 128).astype(np.uint8)
        rows += codes.tobytes() + scale.astype("<f4").tobytes()
    return rows


def _postings(database: sqlite3.Connection) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[list[int], list[int]]] = {}
    for term, first, rows, counts in database.execute(
        "SELECT term, first_row, rows, counts FROM postings ORDER BY term, first_row"
    ):
        all_rows, all_counts = found.setdefault(term, ([], []))
        all_rows += (np.frombuffer(rows, "<u4").astype(np.int64) + first).tolist()
        all_counts += np.frombuffer(counts, "<u2").tolist()
    return {
        term: (np.array(rows, np.int64), np.array(counts, np.float32))
        for term, (rows, counts) in found.items()
    }


def _top(rows: Any, scores: Any, k: int) -> tuple[Any, Any]:
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]
