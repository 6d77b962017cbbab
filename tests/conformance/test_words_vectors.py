"""Python holds to conformance/words, as JavaScript and a reader written from docs/formats do."""

from __future__ import annotations

import dataclasses
import gzip
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tokenizers")  # what makes the diverse texts

from tests.conformance import scripts, stems, word_tables, words
from tests.conformance.independent import words as independent


def stored(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_terms_and_queries() -> None:
    assert json.loads(json.dumps(words.cases())) == stored(words.TARGET)


def test_stems() -> None:
    assert stems.stems(60) == stored(stems.TARGET)


def test_scripts() -> None:
    assert scripts.cases() == stored(scripts.TARGET)


@pytest.mark.slow
def test_tables() -> None:
    """Those of Unicode 14, Python 3.11's; a later Python knows more characters."""
    held = json.loads(word_tables.TARGET.read_text(encoding="utf-8"))
    made = word_tables.tables()
    for name in ("unspaced", "hangul", "apostrophes", "hyphens", "alike", "emoji"):
        assert made[name] == held[name]
    if unicodedata.unidata_version == held["unicode"]:
        assert made == held


def test_a_reader_written_from_the_text() -> None:
    held = stored(words.TARGET)
    analyzers = {language: independent.Analyzer(language) for language, *_ in held["texts"]}
    for language, text, terms, length in held["texts"]:
        occurrences, lengths = analyzers[language].occurrences([text])
        assert {term: count for (term, _), count in occurrences.items()} == terms, ascii(text)
        assert lengths == [length]
    frequencies = held["vocabulary"]
    vocabulary = independent.Vocabulary(frequencies, lambda term: frequencies.get(term, 0))
    for language, text, prefix, expected, weights, instead in held["queries"]:
        query = analyzers[language].query(text, prefix=prefix)
        assert (
            dataclasses.asdict(query)
            | {
                "terms": [*map(list, query.terms.items())],
                "words": [*map(list, query.words.items())],
                "beside": sorted(query.beside),
                "required": sorted(query.required),
                "excluded": [*map(sorted, query.excluded)],
            }
            == expected
        ), ascii(text)
        made = independent.expand(query, vocabulary, analyzers[language])
        assert made == (dict(weights), dict(instead)), ascii(text)
