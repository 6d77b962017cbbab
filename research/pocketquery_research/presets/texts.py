"""The texts that the built-in encoders learn from; their licences allow it.

English Wikipedia (CC BY-SA 3.0), OpenStax's textbooks (CC BY 4.0), arXiv's abstracts (CC0),
MedQuAD's answers about health (CC BY 4.0), the questions of NQ-open (CC BY-SA 3.0), the users'
turns of Schema-Guided Dialogue (CC BY-SA 4.0) and CLINC150's training requests (CC BY 3.0). No
collection that the encoders are measured on is among them: neither its queries nor its documents.
"""

from __future__ import annotations

import csv
import gzip
import heapq
import json
import lzma
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery.distill.texts import query_like_texts, unique_texts
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.documents import Document, content
from pocketquery_research.presets.clones import FILE

__all__ = ["LICENCE", "PresetTexts", "check_data_sets", "preset_texts"]

LICENCE = "Apache-2.0"  # of the weights, as their teacher's; sources are named in the model card

_DIALOGUES = ("train", "dev")
_BEGINNINGS = 0.4  # share of the paragraphs whose beginnings are texts
_SHORT, _LONG_SHARE = 25, 0.15  # words of a text of which all are taken, and share of the longer
_KNOWN = 20  # texts that have a word, from which on it counts as one: below are names and slips
_LONGEST = 1_200  # characters of a paragraph that is ranked: what 256 tokens hold


@dataclass(frozen=True)
class PresetTexts:
    """Training material.

    Attributes:
        queries: what the student learns to encode; people's questions stand in it several times.
        documents: paragraphs that it learns to rank as the teacher does.
        held_out: paragraphs of pages that neither of the others has seen, for the gate of int8.
        held_out_queries: query-like texts of those pages.
    """

    queries: list[str]
    documents: list[str]
    held_out: list[str]
    held_out_queries: list[str]


def preset_texts(
    data: Path,
    *,
    pieces: int = 2_000_000,
    textbook_pieces: int = 500_000,
    science_pieces: int = 0,
    documents: int = 60_000,
    question_copies: int = 4,
    dialogue_turns: int | None = None,
    technical_share: float = 1.0,
    seed: int = 0,
) -> PresetTexts:
    """Collect the texts from the folder with the public data sets.

    Args:
        data: holds ``enwiki_pages``, ``openstax_textbooks`` (:mod:`.textbooks` makes it),
            ``science_pages`` (:mod:`.science`), ``nq_open_queries``, ``sgd_dialogues`` and
            ``clinc150``.
        pieces: texts drawn from Wikipedia, half of them evenly and half by how rare their words
            are, so that the words of a trade are learnt, too.
        textbook_pieces: texts drawn from textbooks, likewise; 0 asks for no textbooks at all.
        science_pieces: texts drawn from abstracts and answers about health, likewise.
        documents: paragraphs drawn for the ranking, evenly.
        question_copies: how often people's own questions stand in the texts, which are few beside
            what is cut from pages.
        dialogue_turns: users' turns of dialogues among those questions at most; None takes all.
        technical_share: share of Wikipedia's pages that are read, those whose words are most like
            the textbooks'; 1 reads all of them.
        seed: of what is drawn.

    Raises:
        InvalidInputError: a data set is not there.
    """
    pages = list(_pages(_file(data, f"enwiki_pages/{FILE}")))
    books = _paragraphs(data, "openstax_textbooks") if textbook_pieces else []
    science = _paragraphs(data, "science_pages") if science_pieces else []
    rng = random.Random(seed)
    kept_back = set(rng.sample(range(len(pages)), max(1, len(pages) // 50)))
    read = [page for i, page in enumerate(pages) if i not in kept_back]
    if technical_share < 1:
        read = _most_alike(read, books, technical_share)
    learnt = [d for page in read for d in page]
    unseen = [d for i in sorted(kept_back) for d in pages[i]]
    cut = _queries(learnt, seed, rng)
    turns = unique_texts(_turns(data))
    if dialogue_turns is not None:
        turns = random.Random(seed).sample(turns, min(dialogue_turns, len(turns)))
    asked = unique_texts([*_questions(data), *turns])
    every = [*learnt, *books, *science]
    ranked = rng.sample(every, min(documents, len(every)))
    gate = rng.sample(unseen, min(5_000, len(unseen)))
    gate_queries = unique_texts(_pieces(gate, seed))
    drawn = _drawn(cut, pieces, rng)
    for paragraphs, count in ((books, textbook_pieces), (science, science_pieces)):
        if paragraphs:
            drawn = unique_texts([*drawn, *_drawn(_queries(paragraphs, seed, rng), count, rng)])
    return PresetTexts(
        queries=sorted(drawn + asked * question_copies),  # whatever order they were drawn in
        documents=[content(document)[:_LONGEST] for document in ranked],
        held_out=[content(document)[:_LONGEST] for document in gate],
        held_out_queries=rng.sample(gate_queries, min(1_000, len(gate_queries))),
    )


def check_data_sets(data: Path, *, textbooks: bool, science: bool) -> None:
    """See that the data sets of :func:`preset_texts` are there that have to be made first.

    Raises:
        InvalidInputError: one is not; names its file.
    """
    for name, asked in (("openstax_textbooks", textbooks), ("science_pages", science)):
        if asked:
            _file(data, f"{name}/{FILE}")


def _paragraphs(data: Path, name: str) -> list[Document]:
    """The paragraphs of all pages of a data set."""
    return [d for page in _pages(_file(data, f"{name}/{FILE}")) for d in page]


def _most_alike(
    pages: list[list[Document]], books: list[Document], share: float
) -> list[list[Document]]:
    """The ``share`` of ``pages`` whose words are likelier in ``books`` than in pages, in order.

    Of a page counts the mean of log p(word in books) - log p(word in pages) over its words, with
    unigrams smoothed by one. Source: Moore and Lewis, "Intelligent Selection of Language Model
    Training Data" (ACL 2010), equation 2.

    Raises:
        InvalidInputError: there are no books.
    """
    if not books:
        raise InvalidInputError(
            f"technical_share is {share} without textbooks, which say what is technical; expected 1"
        )
    counts = [Counter(_words(page)) for page in (" ".join(map(content, p)) for p in pages)]
    within = Counter(word for book in books for word in _words(content(book)))
    over = Counter[str]()
    for found in counts:
        over.update(found)
    every = len(over.keys() | within.keys())
    offset = math.log((over.total() + every) / (within.total() + every))
    known = {w: n for w, n in over.items() if n >= _KNOWN}  # rarer ones are names as often as not
    gain = Counter({w: math.log((within[w] + 1) / (n + 1)) + offset for w, n in known.items()})
    likeness = [sum(gain[w] * n for w, n in c.items()) / max(c.total(), 1) for c in counts]
    chosen = heapq.nlargest(round(share * len(pages)), range(len(pages)), key=likeness.__getitem__)
    return [pages[i] for i in sorted(chosen)]


def _pages(path: Path) -> Iterator[list[Document]]:
    """The paragraphs of each page."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file):
            page = json.loads(line)
            yield [
                Document(
                    f"{number}#{place}",
                    paragraph["text"],
                    {"title": page["title"], "section": paragraph["section"]},
                )
                for place, paragraph in enumerate(page["paragraphs"])
            ]


def _queries(paragraphs: list[Document], seed: int, rng: random.Random) -> list[str]:
    """All pieces that are short, and a share of the longer ones."""
    return [
        text
        for text in unique_texts(_pieces(paragraphs, seed))
        if len(text.split()) <= _SHORT or rng.random() < _LONG_SHARE
    ]


def _pieces(paragraphs: list[Document], seed: int) -> Iterator[str]:
    """Query-like texts, keyword queries of a title with a section, and beginnings of paragraphs.

    The last are for the positions that short texts do not reach, and for who encodes documents
    with the student itself.
    """
    yield from query_like_texts(paragraphs, seed)
    rng = random.Random(seed)
    forms = ("{title} {section}", "{section} of {title}", "what is the {section} of {title}")
    for paragraph in paragraphs:
        if rng.random() < _BEGINNINGS:
            yield " ".join(content(paragraph).split()[: rng.randint(30, 110)])
        title, section = paragraph.metadata["title"], paragraph.metadata["section"]
        if section and len(section.split()) <= 5:
            yield rng.choice(forms).format(title=title, section=section.lower())
        else:
            yield rng.choice(("what is {}", "who is {}", "{} meaning", "tell me about {}")).format(
                title
            )


def _drawn(texts: list[str], count: int, rng: random.Random) -> list[str]:
    """``count`` texts without replacement: half drawn evenly, half with a weight, which is the
    mean over a text's words of 1 / (how many texts have the word)."""
    if count >= len(texts):
        return texts
    rng.shuffle(texts)
    evenly, others = texts[: count // 2], texts[count // 2 :]
    frequencies = Counter(word for text in texts for word in set(_words(text)))

    def key(text: str) -> float:
        """Exponential with the text's weight as rate: the least keys are a weighted sample."""
        words = _words(text)
        known = [frequencies[word] for word in words if frequencies[word] >= _KNOWN]
        weight = sum(1 / n for n in known) / max(len(words), 1)
        return rng.expovariate(weight) if weight else math.inf

    return evenly + heapq.nsmallest(count - len(evenly), others, key=key)


def _words(text: str) -> list[str]:
    return [word for word in text.lower().split() if word.isalpha()]


def _questions(data: Path) -> Iterator[str]:
    """What people typed and said."""
    for name in ("dev", "efficientqa_dev"):
        path = _file(data, f"nq_open_queries/{name}.jsonl.gz")
        yield from (str(found["question"]) for found in _objects(path))
    yield from (
        row[0] for row in _rows(_file(data, "nq_open_queries/efficientqa_test_questions.tsv.gz"))
    )
    for row in list(_rows(_file(data, "clinc150/train.tsv.gz")))[1:]:
        yield row[2]


def _turns(data: Path) -> Iterator[str]:
    """What users of dialogues said."""
    for part in _DIALOGUES:
        for dialogue in _objects(_file(data, f"sgd_dialogues/{part}.jsonl.gz")):
            yield from (text for speaker, text in dialogue["turns"] if speaker == "U")


def _file(data: Path, name: str) -> Path:
    path = data / name
    if not path.is_file():
        raise InvalidInputError(
            f"{path} is not there; expected the public data sets in {data} (benchmarks/README.md "
            "says where each comes from). Name their folder with --data"
        )
    return path


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _rows(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
