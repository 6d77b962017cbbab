"""What the clients of the federated experiment search, ask and are measured on.

Three domains, each a frozen index of the teacher's vectors, clients that see a few topics each, and
test queries that no client holds:

* ``clinc``: CLINC150. Half of each intent's training requests are the index, the other half the
  clients' queries; a document of the same intent is relevant.
* ``squad``: SQuAD dev passages. Clients see a few articles; half of the questions are theirs. Of
  the others, those the defaults were chosen on are nobody's and are not scored.
* ``irc``: messages of Ubuntu IRC threads. Clients are nicks, unlabelled; tests are first messages
  of threads, relevant is what others answered in them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_files import objects, rows

from pocketquery.sdk.index.documents import Document
from pocketquery.server.corpus import Collection, CollectionFiles, Query, read_collection

__all__ = ["DOMAINS", "GENERAL", "Client", "Domain", "read_domain"]

DOMAINS = ("clinc", "squad", "irc")
GENERAL = {"clinc": "squad", "squad": "clinc", "irc": "squad"}
"""The set of another kind that must not suffer, by domain."""

_SEED = 11
_CLIENTS = 100
_TOPICS = {"clinc": 4, "squad": 2}
_CLINC_TESTS = 1_500
_SQUAD_DEVELOPMENT = slice(1_500, 3_000)  # the anchor's weight was chosen on these
_IRC_TESTS = 3_000
_QUERIES = 80  # the most a client holds


@dataclass(frozen=True)
class Client:
    """One device: what was typed on it, and what its user would open of what is shown."""

    name: str
    queries: Sequence[str]
    relevant: Sequence[frozenset[str]]  # document ids, a set a query; empty where unlabelled


@dataclass(frozen=True)
class Domain:
    """An index's documents, the test queries over it, and the clients."""

    name: str
    tests: Collection
    clients: Sequence[Client]


def read_domain(name: str, data: Path) -> Domain:
    """The domain of that name, the same at every call."""
    return {"clinc": _clinc, "squad": _squad, "irc": _irc}[name](data)


def _clinc(data: Path) -> Domain:
    rng = random.Random(_SEED)
    train, test = (_by_intent(data / f"clinc150/{part}.tsv.gz") for part in ("train", "test"))
    documents, held = [], {}
    of_intent: dict[str, frozenset[str]] = {}
    for intent, texts in train.items():
        rng.shuffle(texts)
        half = len(texts) // 2
        found = [Document(f"{intent}#{i}", text) for i, text in enumerate(texts[:half])]
        documents += found
        of_intent[intent] = frozenset(document.id for document in found)
        held[intent] = [(text, of_intent[intent]) for text in texts[half:]]
    queries: list[Query] = []
    judgements: dict[str, dict[str, int]] = {}
    for intent, texts in test.items():
        for number, text in enumerate(texts[: _CLINC_TESTS // len(test)]):
            query = Query(f"{intent}?{number}", text)
            queries.append(query)
            judgements[query.id] = dict.fromkeys(of_intent[intent], 1)
    tests = Collection.of(documents, queries, judgements)
    return Domain("clinc", tests, _by_topic(held, _TOPICS["clinc"], rng))


def _squad(data: Path) -> Domain:
    rng = random.Random(_SEED)
    folder = data / "squad_dev_passages"
    whole = read_collection(
        CollectionFiles(
            folder / "corpus.jsonl.gz", folder / "queries.tsv.gz", folder / "qrels.tsv.gz"
        )
    )
    queries = list(whole.queries)
    rng.shuffle(queries)
    half = len(queries) // 2
    held: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for query in queries[half:]:
        relevant = frozenset(whole.judgements[query.id])
        held[min(relevant).rsplit("#", 1)[0]].append((query.text, relevant))
    asked = queries[:half]
    del asked[_SQUAD_DEVELOPMENT]
    judgements = {query.id: whole.judgements[query.id] for query in asked}
    tests = Collection.of(whole.documents, asked, judgements)
    return Domain("squad", tests, _by_topic(dict(held), _TOPICS["squad"], rng))


def _irc(data: Path) -> Domain:
    folder = data / "ubuntu_irc_threads"
    threads = [*objects(folder / "dev.jsonl.gz"), *objects(folder / "train.jsonl.gz")]
    documents: list[Document] = []
    queries: list[Query] = []
    judgements: dict[str, dict[str, int]] = {}
    for thread in threads:
        turns = thread["turns"]
        asker, first = turns[0]
        answers = [(i, text) for i, (nick, text) in enumerate(turns) if nick != asker]
        if len(first.split()) < 5 or not answers or len(queries) >= _IRC_TESTS:
            continue
        found = [Document(f"{thread['id']}#{i}", text) for i, text in answers[:3]]
        documents += found
        queries.append(Query(str(thread["id"]), first))
        judgements[str(thread["id"])] = {document.id: 1 for document in found}
    tests = Collection.of(documents, queries, judgements)
    taken = {query.text for query in queries} | {document.text for document in documents}
    return Domain("irc", tests, _nicks(folder / "train_messages.tsv.gz", taken))


def _nicks(path: Path, taken: set[str]) -> list[Client]:
    """The users with the most to say; names are replaced, as the set's licence asks."""
    said: dict[str, list[str]] = defaultdict(list)
    for _, nick, text in rows(path):
        is_bot = nick.startswith("ubot")
        if not is_bot and text not in taken and len(text.split()) >= 4:
            said[nick].append(text)
    busiest = sorted(said.values(), key=len, reverse=True)[:_CLIENTS]
    rng = random.Random(_SEED)
    return [
        Client(f"client-{number}", rng.sample(texts, min(_QUERIES, len(texts))), ())
        for number, texts in enumerate(busiest)
    ]


def _by_topic(
    held: Mapping[str, list[tuple[str, frozenset[str]]]], topics: int, rng: random.Random
) -> list[Client]:
    """Clients that hold a few topics each; every query goes to one client that holds its topic."""
    names = sorted(held)
    dealt = [name for _ in range(_CLIENTS * topics // len(names) + 1) for name in names]
    rng.shuffle(dealt)
    holders: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(dealt[: _CLIENTS * topics]):
        holders[name].append(place // topics)
    hands: list[list[tuple[str, frozenset[str]]]] = [[] for _ in range(_CLIENTS)]
    for name in names:
        for item in held[name]:
            hands[rng.choice(holders[name] or [rng.randrange(_CLIENTS)])].append(item)
    return [
        Client(f"client-{number}", [t for t, _ in hand[:_QUERIES]], [r for _, r in hand[:_QUERIES]])
        for number, hand in enumerate(hands)
        if hand
    ]


def _by_intent(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for _, intent, text in rows(path):
        if intent != "oos":
            found[intent].append(text)
    return dict(found)
