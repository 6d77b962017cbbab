"""What the journey is tested with, language by language: questions, candidates, and who is right.

``xquad``, ``xquad_to_en``, ``xquad_from_en``, ``xquad_between``: a question and its paragraph, in
one language, with English on one side, or in two languages neither of which is English: the
paragraphs are in the next one. ``jaquad``: the same in Japanese, among some 2,000 paragraphs.
``manual``, ``manual_to_en``: a held-out page's title and its text. ``pages_to_en``,
``pages_from_en``, ``pages_between``: a page's text and its translation, the last without English.
``tatoeba_to_en``, ``tatoeba_from_en``: a sentence and its translation. ``xsid``: a request has the
intent of the English request that is nearest, which is not its own translation.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_files import objects, table
from language_journey.manual import Page

__all__ = ["RETRIEVAL", "TESTS", "Test", "tests_of"]

RETRIEVAL = (
    "xquad",
    "xquad_to_en",
    "xquad_from_en",
    "xquad_between",
    "jaquad",
    "manual",
    "manual_to_en",
)
"""Scored by nDCG@10; the others by accuracy: is what comes first right?"""

TESTS = (
    *RETRIEVAL,
    "pages_to_en",
    "pages_from_en",
    "pages_between",
    "tatoeba_to_en",
    "tatoeba_from_en",
    "xsid",
)

_TATOEBA = {
    "de": "deu",
    "es": "spa",
    "ja": "jpn",
    "nl": "nld",
    "ru": "rus",
    "tr": "tur",
    "vi": "vie",
    "zh": "cmn",
}
_MOST_ASKED, _LEAST_POOL = 1000, 2000  # of JaQuAD


@dataclass(frozen=True)
class Test:
    """Texts that look for others.

    Attributes:
        name: of :data:`TESTS`.
        language: that is tested.
        queries: texts, in ``asked_in``.
        documents: candidates, in ``written_in``.
        right: for each query the rows of the documents that are right.
        excluded: for each query the rows that are taken out; empty where none are.
    """

    name: str
    language: str
    asked_in: str
    written_in: str
    queries: Sequence[str]
    documents: Sequence[str]
    right: Sequence[frozenset[int]]
    excluded: Sequence[frozenset[int]] = ()

    @property
    def metric(self) -> str:
        """What it is scored by."""
        return "ndcg@10" if self.name in RETRIEVAL else "accuracy"


def tests_of(data: Path, pages: Mapping[str, Sequence[Page]], language: str) -> Iterator[Test]:
    """The tests there are for a language.

    Args:
        data: folder of the public sets.
        pages: the manual's held-out pages by language, in the same order in each.
        language: whose.
    """
    yield from _xquad(data / "xquad", language, list(pages))
    if language == "ja":
        yield _jaquad(data / "jaquad_train")
    yield from _manual(pages, language)
    yield from _tatoeba(data / "tatoeba", language)
    yield from _xsid(data / "xsid", language)


def _next(languages: Sequence[str], language: str) -> str | None:
    """The language after ``language``, English left out, the first after the last; if any."""
    others = [one for one in languages if one != "en"]
    if language not in others or len(others) < 2:
        return None
    return others[(others.index(language) + 1) % len(others)]


def _xquad(folder: Path, language: str, languages: Sequence[str]) -> Iterator[Test]:
    there = [one for one in languages if (folder / f"{one}.corpus.jsonl.gz").is_file()]
    if language not in there:
        return
    answers = {row[0]: row[1] for row in table(folder / "qrels.tsv")}

    def search(name: str, asked_in: str, written_in: str) -> Test:
        documents = list(objects(folder / f"{written_in}.corpus.jsonl.gz"))
        rows = {one["_id"]: row for row, one in enumerate(documents)}
        asked = list(table(folder / f"{asked_in}.queries.tsv.gz"))
        return Test(
            name,
            language,
            asked_in,
            written_in,
            [text for _, text in asked],
            [one["text"] for one in documents],
            [frozenset({rows[answers[number]]}) for number, _ in asked],
        )

    yield search("xquad", language, language)
    if language != "en":
        yield search("xquad_to_en", language, "en")
        yield search("xquad_from_en", "en", language)
    other = _next(there, language)
    if other is not None:
        yield search("xquad_between", language, other)


def _jaquad(folder: Path) -> Test:
    """Questions on articles that are drawn until they have enough paragraphs."""
    articles: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in objects(folder / "corpus.jsonl.gz"):
        articles[one["title"]].append((one["_id"], one["text"]))
    names = random.Random(0).sample(sorted(articles), len(articles))
    documents: list[tuple[str, str]] = []
    while names and len(documents) < _LEAST_POOL:
        documents += articles[names.pop()]
    rows = {name: row for row, (name, _) in enumerate(documents)}
    answers = {row[0]: row[1] for row in table(folder / "qrels.tsv.gz")}
    asked = [
        (text, rows[answers[number]])
        for number, text in table(folder / "queries.tsv.gz")
        if answers.get(number) in rows
    ]
    asked = random.Random(0).sample(asked, min(_MOST_ASKED, len(asked)))
    texts = [text for _, text in documents]
    right = [frozenset({row}) for _, row in asked]
    return Test("jaquad", "ja", "ja", "ja", [text for text, _ in asked], texts, right)


def _manual(pages: Mapping[str, Sequence[Page]], language: str) -> Iterator[Test]:
    own, english = pages[language], pages["en"]
    titles = [page.title for page in own]
    bodies, translated = ([" ".join(page.paragraphs) for page in one] for one in (own, english))
    named = _same(titles)  # several pages have the title "Fields", say
    itself = [frozenset({row}) for row in range(len(own))]
    yield Test("manual", language, language, language, titles, bodies, named)
    if language == "en":
        return
    yield Test("manual_to_en", language, language, "en", titles, translated, named)
    yield Test("pages_to_en", language, language, "en", bodies, translated, itself)
    yield Test("pages_from_en", language, "en", language, translated, bodies, itself)
    other = _next(list(pages), language)
    if other is not None:
        found = [" ".join(page.paragraphs) for page in pages[other]]
        yield Test("pages_between", language, language, other, bodies, found, itself)


def _same(texts: Sequence[str]) -> list[frozenset[int]]:
    rows: dict[str, set[int]] = defaultdict(set)
    for row, text in enumerate(texts):
        rows[text].add(row)
    return [frozenset(rows[text]) for text in texts]


def _tatoeba(folder: Path, language: str) -> Iterator[Test]:
    path = folder / f"{_TATOEBA.get(language, language)}-eng.tsv"
    if not path.is_file():
        return
    own, english = zip(*table(path), strict=True)
    itself = [frozenset({row}) for row in range(len(own))]
    yield Test("tatoeba_to_en", language, language, "en", own, english, itself)
    yield Test("tatoeba_from_en", language, "en", language, english, own, itself)


def _xsid(folder: Path, language: str) -> Iterator[Test]:
    path = folder / f"{language}.tsv"
    if not path.is_file():
        return
    english = list(table(folder / "en.tsv"))[1:]  # below the header
    intents: dict[str, set[int]] = defaultdict(set)
    for row, one in enumerate(english):
        intents[one[1]].add(row)
    rows = {one[0]: row for row, one in enumerate(english)}
    asked = list(table(path))[1:]
    own = [frozenset({rows[one[0]]}) for one in asked]
    yield Test(
        "xsid",
        language,
        language,
        "en",
        [one[2] for one in asked],
        [one[2] for one in english],
        [frozenset(intents[one[1]]) - itself for one, itself in zip(asked, own, strict=True)],
        own,
    )
