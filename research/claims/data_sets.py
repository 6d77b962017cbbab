"""The public sets of the claims, as groups to train on and as tests."""

from __future__ import annotations

import gzip
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from data_files import objects, rows, table
from fixtures.cipher_fixture import Ciphers, make_ciphers

from pocketquery.server.corpus import split_sentences
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery_research.evaluation.candidate_files import CandidateList, read_candidate_table

__all__ = [
    "SessionTest",
    "articles",
    "ciphers",
    "exchange_duplicates",
    "manual",
    "news",
    "pages",
    "question_bodies",
    "scifact",
    "searched",
    "services",
    "squad",
    "threads",
]


_PARALLEL = 2_500  # sentences of the ciphers' pairs


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


def threads(data: Path, seed: int = 0, held_out: int = 800) -> tuple[GroupList, SessionTest]:
    """Help threads of a chat to train on; of held-out days the first turn and the next one's.

    Held out are the set's dev part and whole days of its train part with ``held_out`` threads. A
    first turn that training has as well, such as a call for the bot, is not asked.
    """
    folder = data / "ubuntu_irc_threads"
    train, dev = (list(objects(folder / f"{part}.jsonl.gz")) for part in ("train", "dev"))
    days: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in train:
        days[row["id"].rsplit(".", 1)[0]].append(row)
    order = random.Random(seed).sample(sorted(days), len(days))
    asked = dev
    while order and len(asked) < len(dev) + held_out:
        asked = asked + days[order.pop()]
    groups = [_thread(row) for day in order for row in days[day]]
    sessions = GroupList([group for group in groups if len(group.texts) > 1], "sessions")
    known = {text for group in groups for text in group.texts}
    pairs = [texts[:2] for texts in (_thread(row).texts for row in asked) if len(texts) > 1]
    new = [(query, answer) for query, answer in pairs if query not in known]
    return sessions, SessionTest([query for query, _ in new], [answer for _, answer in new])


def question_bodies(data: Path) -> tuple[GroupList, list[CandidateList]]:
    """Forum questions as pairs of title and a sentence of the body, and re-ranking to test on.

    Trained on are the questions of the part without labels and those of another forum; the texts
    of the labelled parts and the questions marked as duplicates, which are the tests, are left out.
    """
    folder = data / "cqa_question_ranking"
    lists = [
        one for part in ("train", "dev") for one in read_candidate_table(folder / f"{part}.tsv.gz")
    ]
    held = {text for one in lists for text in (one.query, *one.candidates)}
    texts = dict.fromkeys(_forum_texts(folder)) | dict.fromkeys(_exchange_texts(data))
    pairs = [pair for text in texts if text not in held for pair in [_title_and_body(text)] if pair]
    groups = [Group(f"question-{i}", pair, (), "en", title=True) for i, pair in enumerate(pairs)]
    return GroupList(groups, "documents"), lists


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


def ciphers(data: Path, most: int | None = None, *, reverse: bool = False) -> Ciphers:
    """Half of the pages' paragraphs in English, half in a cipher of it, and held-out pairs.

    Split alike for the start and for what goes on from it; titles, which all paragraphs of a page
    share, are left out.

    Args:
        data: folder of the public sets.
        most: pages to read; None for all.
        reverse: the second language has the reverse order of words.
    """
    found, _ = pages(data, most)
    groups = (found[row] for row in range(len(found)))
    untitled = [replace(group, texts=group.texts[1:], title=False) for group in groups]
    return make_ciphers(untitled, seed=0, reverse=reverse, held_out=_PARALLEL)


def searched(data: Path) -> list[str]:
    """Questions that people typed into a search engine (NQ-open and EfficientQA), each once."""
    folder = data / "nq_open_queries"
    asked = [
        row["question"]
        for name in ("dev", "efficientqa_dev")
        for row in objects(folder / f"{name}.jsonl.gz")
    ]
    asked += [row[0] for row in table(folder / "efficientqa_test_questions.tsv.gz")]
    return list(dict.fromkeys(asked))


@dataclass(frozen=True)
class Asked:
    """Titled documents, and questions each with the id of a document that answers it."""

    documents: GroupList
    training: list[tuple[str, str]]  # question, document id
    test: list[tuple[str, str]]


def scifact(data: Path) -> Asked:
    """SciFact's abstracts and claims; a claim that cites several abstracts is there for each."""
    folder = data / "scifact"
    groups = [
        Group(row["_id"], (row["title"], *row["sentences"]), (), "en", title=True)
        for row in objects(folder / "corpus.jsonl.gz")
    ]
    asked = {}
    for part in ("train", "test"):
        claims = dict(table(folder / f"queries.{part}.tsv"))
        judged = table(folder / f"qrels.{part}.tsv")
        asked[part] = [(claims[claim], document) for claim, document, _ in judged]
    return Asked(GroupList(groups, "documents"), asked["train"], asked["test"])


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


def _thread(row: dict[str, Any]) -> Group:
    """Who began is the user, all others are agents."""
    began = row["turns"][0][0]
    merged = _session(row["id"], _messages(row))
    roles = tuple("user" if name == began else "agent" for name in merged.roles)
    return replace(merged, roles=roles)


def _messages(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Speaker and text, without the name that a message begins with."""
    names = "|".join(re.escape(name) for name in sorted({name for name, _ in row["turns"]}))
    addressed = re.compile(rf"^\s*(?:{names})\s*[:,]\s*", re.IGNORECASE)
    spoken = [(name, addressed.sub("", text)) for name, text in row["turns"]]
    return [(name, text) for name, text in spoken if text.strip()]


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


def _forum_texts(folder: Path) -> Iterator[str]:
    for _, _, _, query, candidate in rows(folder / "unlabelled.tsv.gz"):
        yield from (query, candidate)


def _exchange_texts(data: Path) -> Iterator[str]:
    pairs = list(rows(data / "stackexchange_english_pairs/pairs.tsv.gz"))
    tested = {title for row in pairs if row[0] == "1" for title in row[3:5]}
    for row in pairs:
        _, _, _, title, other_title, body, other_body = row
        if tested & {title, other_title}:
            continue
        yield from (
            f"{title.rstrip('.?! ')}? {body}",
            f"{other_title.rstrip('.?! ')}? {other_body}",
        )


def _title_and_body(text: str) -> tuple[str, ...] | None:
    sentences = split_sentences(text)
    return tuple(sentences) if len(sentences) > 1 else None
