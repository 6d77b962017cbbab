"""The public sets of the claims, as groups to train on and as tests."""

from __future__ import annotations

import gzip
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
from data_files import objects, rows, table

from pocketquery.server.corpus import split_sentences
from pocketquery.server.corpus.groups import Group, GroupList

__all__ = [
    "SessionTest",
    "articles",
    "exchange_duplicates",
    "manual",
    "news",
    "pages",
    "services",
    "squad",
]


@dataclass(frozen=True)
class SessionTest:
    """Held-out sessions: what a user said, what the agent answered, and 99 other answers."""

    queries: list[str]
    answers: list[str]


def services(data: Path, seed: int = 0) -> tuple[GroupList, SessionTest]:
    """Dialogues of users and assistants to train on, and held-out exchanges."""
    train = [_dialogue(row) for row in objects(data / "sgd_dialogues/train.jsonl.gz")]
    rng = random.Random(seed)
    queries, answers = [], []
    for row in objects(data / "sgd_dialogues/dev.jsonl.gz"):
        turns = _dialogue(row)
        asked = [i for i, role in enumerate(turns.roles[:-1]) if role == "user"]
        place = rng.choice(asked)
        queries.append(turns.texts[place])
        answers.append(turns.texts[place + 1])
    return GroupList(train, "sessions"), SessionTest(queries, answers)


def exchange_duplicates(data: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Titles of forum questions that the community marked as duplicates, and all titles."""
    pairs = list(rows(data / "stackexchange_english_pairs/pairs.tsv.gz"))
    titles = dict.fromkeys(title for row in pairs for title in row[3:5])
    return [(row[3], row[4]) for row in pairs if row[0] == "1" and row[3] != row[4]], list(titles)


def articles(data: Path) -> GroupList:
    """Wikipedia articles, paragraph by paragraph, each a document with its section's sentences."""
    rows = objects(data / "enwiki_articles/articles.jsonl.gz")
    return GroupList([group for row in rows for group in _paragraphs(row)], "documents")


def pages(
    data: Path, most: int | None = None, held_out_every: int = 50
) -> tuple[GroupList, list[str]]:
    """Some 6,900 more pages of Wikipedia, none of which SQuAD asks about, as :func:`articles`.

    Args:
        data: folder of the public sets.
        most: pages to read; None for all.
        held_out_every: every so many pages one is held out.

    Returns:
        The paragraphs to train on, and the paragraphs of the pages held out, as they stand.
    """
    groups: list[Group] = []
    held_out: list[str] = []
    for number, row in enumerate(islice(objects(data / "enwiki_pages/pages.jsonl.xz"), most)):
        if number % held_out_every == held_out_every - 1:
            held_out += [paragraph["text"] for paragraph in row["paragraphs"]]
        else:
            groups += _paragraphs(row)
    return GroupList(groups, "documents"), held_out


@dataclass(frozen=True)
class Asked:
    """Titled documents, and questions each with the id of a document that answers it."""

    documents: GroupList
    training: list[tuple[str, str]]  # question, document id
    test: list[tuple[str, str]]


def squad(data: Path, seed: int = 0) -> Asked:
    """SQuAD; the questions on a quarter of the articles are the test."""
    folder = data / "squad_dev_passages"
    groups = [
        Group(row["_id"], (row["title"], *split_sentences(row["text"])), (), "en", title=True)
        for row in objects(folder / "corpus.jsonl.gz")
    ]
    names = sorted({group.id.rsplit("#", 1)[0] for group in groups})
    held = set(random.Random(seed).sample(names, len(names) // 4))
    relevant = {row[0]: row[1] for row in table(folder / "qrels.tsv.gz")}
    training: list[tuple[str, str]] = []
    test: list[tuple[str, str]] = []
    for number, text in table(folder / "queries.tsv.gz"):
        if number in relevant:
            document = relevant[number]
            (test if document.rsplit("#", 1)[0] in held else training).append((text, document))
    return Asked(GroupList(groups, "documents"), training, test)


def manual(data: Path) -> list[Group]:
    """The pages of a framework's documentation, in English; a page's title is its file's name."""
    pages: dict[str, list[str]] = defaultdict(list)
    for page, _, text in rows(data / "docs_multilingual/en.tsv.gz"):
        if page.startswith("source/"):
            pages[page] += split_sentences(text)
    titled = ((page, Path(page).stem.replace("-", " "), texts) for page, texts in pages.items())
    return [Group(page, (title, *texts), (), "en", title=True) for page, title, texts in titled]


def news(data: Path, languages: tuple[str, ...]) -> GroupList:
    """News articles in several languages, sentence by sentence; no article in two languages.

    The articles are dealt to the languages in turn, so that no translation is ever trained on.
    """
    groups = []
    for turn, language in enumerate(languages):
        found = _news_articles(data, language)
        dealt = list(found.items())[turn :: len(languages)]
        groups += [Group(f"{n}.{language}", tuple(t), (), language) for n, t in dealt]
    return GroupList(groups, "documents")


def _paragraphs(row: dict[str, Any]) -> Iterator[Group]:
    """The paragraphs of a page, each with the page's title before its sentences."""
    for number, paragraph in enumerate(row["paragraphs"]):
        texts = (row["title"], *split_sentences(paragraph["text"]))
        yield Group(f"{row['title']}#{number}", texts, (), "en", title=True)


def _news_articles(data: Path, language: str) -> dict[str, list[str]]:
    """Name -> sentences, in the order of the file."""
    folder = data / "ntrex"
    ids = (folder / "document_ids.txt").read_text(encoding="utf-8").split()
    lines = gzip.decompress((folder / f"{language}.txt.gz").read_bytes()).decode().splitlines()
    found: dict[str, list[str]] = defaultdict(list)
    for name, line in zip(ids, lines, strict=True):
        found[name].append(line)
    return found


def _dialogue(row: dict[str, Any]) -> Group:
    roles = {"U": "user", "S": "agent"}
    spoken = [(roles[speaker], text) for speaker, text in row["turns"] if text.strip()]
    return _session(str(row["id"]), spoken)


def _session(name: str, spoken: list[tuple[str, str]]) -> Group:
    """Turns; what one speaker, or role, says in a row is one turn."""
    merged: list[tuple[str, str]] = []
    for role, text in spoken:
        if merged and merged[-1][0] == role:
            merged[-1] = (role, f"{merged[-1][1]} {text}")
        else:
            merged.append((role, text))
    found, texts = zip(*merged, strict=True)
    return Group(name, texts, found, "en")
