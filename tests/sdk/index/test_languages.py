"""An index of several languages: what a passage has for its language alone does not count."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.sdk.errors import CorruptArtifactError
from pocketquery.sdk.index.builder import create_index
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import open_index, verify_index
from pocketquery.sdk.languages.scripts import language_number

Ranked = list[tuple[str, float]]
DIMENSION = 64
QUESTION = "the tall bridge"
TEXTS = {
    "en": "what the report says is the number {} of the year",
    "de": "Bericht Nummer {} vom Jahr",
}


def documents(languages: Sequence[Any], tagged: bool = True) -> list[Document]:
    texts = [TEXTS["de" if one == "de" else "en"].format(row) for row, one in enumerate(languages)]
    return [
        Document(str(row), texts[row], {"language": one} if tagged else {})
        for row, one in enumerate(languages)
    ]


def vectors(languages: Sequence[Any], seed: int = 0) -> np.ndarray[Any, Any]:
    """About one direction for each language, as encoders of many languages give them."""
    random = np.random.default_rng(seed)
    places = [language_number({"language": one}) % DIMENSION for one in languages]
    return random.normal(0, 0.3, (len(languages), DIMENSION)) + 3 * np.eye(DIMENSION)[places]


def built(path: Path, languages: Sequence[Any], tagged: bool = True) -> Path:
    with create_index(
        path, space_id="space-of-tests", dimension=DIMENSION, language="none"
    ) as builder:
        builder.add(documents(languages, tagged), vectors(languages))
    return path


def ranked(path: Path, query: Any, **options: Any) -> Ranked:
    with open_index(path) as index:
        return [(hit.id, hit.score) for hit in index.search(QUESTION, vector=query, **options)]


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_the_answer_in_another_language_is_found(tmp_path: Path, mode: Any) -> None:
    languages = ["en"] * 40 + ["de"] * 40
    right, english = vectors(languages)[55], vectors(languages)[:40].mean(axis=0)
    query = right - vectors(languages)[40:].mean(axis=0) + english  # what it says, in English
    before = ranked(built(tmp_path / "before", languages, False), query, k=80, mode=mode)
    after = ranked(built(tmp_path / "after", languages), query, k=80, mode=mode)
    assert [name for name, _ in before].index("55") >= 5
    assert "55" in [name for name, _ in after[:3]]
    assert ranked(tmp_path / "after", query, k=3, mode=mode) == after[:3]
    filtered = ranked(tmp_path / "after", query, k=80, mode=mode, languages=["de"])
    assert filtered == [one for one in after if int(one[0]) >= 40]


@pytest.mark.parametrize("others", [["en"], [None], ["", "?", 7, ["de"]], ["en-GB", None]])
def test_one_language_is_ranked_as_before(tmp_path: Path, others: list[Any]) -> None:
    languages = ["en"] * 30 + others * 7
    query = np.random.default_rng(1).normal(size=DIMENSION)
    for mode in ("hybrid", "dense", "lexical"):
        tagged = ranked(built(tmp_path / "tagged", languages), query, k=99, mode=mode)
        assert tagged == ranked(built(tmp_path / "plain", languages, False), query, k=99, mode=mode)


def test_a_lone_passage_keeps_nearly_all_of_its_score(tmp_path: Path) -> None:
    languages = ["en"] * 200 + ["de"]
    query = vectors(languages)[200]
    with open_index(built(tmp_path / "index", languages)) as index:
        hits = index.search(query, 3)
        assert hits[0].id == "200"
        assert hits[0].cosine is not None
        assert 0.9 < hits[0].score / hits[0].cosine < 1


CODES = st.sampled_from(["en", "de", "de-AT", "fil", "zh-Hant", "EN", "", "x", None, 7])


@settings(max_examples=25, deadline=None)
@given(st.lists(CODES, min_size=1, max_size=30), st.data())
def test_scores_are_those_of_an_index_built_at_once(
    tmp_path_factory: pytest.TempPathFactory, languages: list[Any], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("languages")
    some, rows = documents(languages), vectors(languages)
    cut = data.draw(st.integers(0, len(some)))
    gone = data.draw(st.sets(st.sampled_from([one.id for one in some])))
    with create_index(
        folder / "grown", space_id="s", dimension=DIMENSION, language="none"
    ) as builder:
        builder.add(some[:cut], rows[:cut])
    with open_index(folder / "grown", writable=True) as index:
        index.add(some[cut:], rows[cut:])
        index.delete(gone)
        index.verify()
        index.compact()
    verify_index(folder / "grown")
    remaining = [row for row, one in enumerate(some) if one.id not in gone]
    with create_index(
        folder / "built", space_id="s", dimension=DIMENSION, language="none"
    ) as builder:
        builder.add([some[row] for row in remaining], rows[remaining])
    for mode in ("hybrid", "dense"):
        query = np.random.default_rng(2).normal(size=DIMENSION)
        grown = ranked(folder / "grown", query, k=50, mode=mode)
        assert grown == ranked(folder / "built", query, k=50, mode=mode)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE segments SET languages = zeroblob(4)",
        "UPDATE segments SET languages = randomblob(length(languages))",
        'UPDATE documents SET metadata = \'{"language": "fr"}\' WHERE row = 1',
    ],
)
def test_other_languages_than_the_documents_are_damage(tmp_path: Path, sql: str) -> None:
    path = built(tmp_path / "index", ["en", "de", "de"])
    with sqlite3.connect(path / "documents.sqlite") as database:
        database.execute(sql)
    database.close()
    fields = (path / "index.json").read_text("utf-8")
    generation = fields.replace('"sealed"', '"writing"').replace(
        '"generation": 1', '"generation": 0'
    )
    (path / "index.json").write_text(generation, "utf-8")
    with pytest.raises(CorruptArtifactError):
        verify_index(path)


def test_numbers_of_languages() -> None:
    codes = ["de", "de-AT", "fil", "zh-Hant-TW", "zz", "zzz"]
    numbers = [language_number({"language": code}) for code in codes]
    assert numbers == [3051, 3051, 4629, 19170, 19656, 19682]
    for value in ("DE", "d", "german", "de_DE", "de-", "", None, 7, ["de"], {"de": 1}):
        assert language_number({"language": value}) == 0
    assert language_number({}) == 0


@pytest.mark.parametrize(
    ("english", "tagged", "finds"),
    [
        (0, False, "town"),  # no text is English: "the" and "was" are German names here
        (20, False, "names"),  # a third of the texts is
        (20, True, "names"),
        (8, False, "town"),  # a seventh: rare words of a few
        (8, True, "names"),  # which say that they are English
    ],
)
def test_common_words_of_a_language_that_no_text_has_say_nothing(
    tmp_path: Path, english: int, tagged: bool, finds: str
) -> None:
    others = [("The", "en")] * english + [("Nummer", "de")] * (54 - english)
    with create_index(tmp_path / "index", space_id="s", dimension=2, language="german") as builder:
        builder.add(
            [
                Document(f"{n}", f"{word} was {n}" if word == "The" else f"{word} {n}",
                         {"language": language} if tagged else {})
                for n, (word, language) in enumerate(others)
            ],
            np.tile([0.0, 1.0], (54, 1)),
        )  # fmt: skip
        names = {"names": "Was The, Komponist", "town": "Hafen am Meer"}
        builder.add(
            [Document(*one, {"language": "de"} if tagged else {}) for one in names.items()],
            np.array([[1.0, 0.2], [1.0, 0.1]]),
        )
    with open_index(tmp_path / "index") as index:
        hits = index.search("what was the harbour of quietness", 1, vector=np.array([1.0, 0.0]))
        assert [hit.id for hit in hits] == [finds]
