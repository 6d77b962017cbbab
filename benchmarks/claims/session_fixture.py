"""Made-up customer-service sessions, and a knowledge base with near misses.

Two hundred intents in forty families: the five of a family differ in exactly one slot (the product,
the time, the document, or what is to be done), which only a vector that keeps fine content words
tells apart. A session talks about one intent, between turns of small talk.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from made_up_words import made_up_words

from pocketquery.server.corpus.groups import Group, GroupList

__all__ = ["KnowledgeTest", "make_sessions"]

_ACTIONS = [  # what users say, what agents say
    ("send back", "a return"),
    ("cancel", "a cancellation"),
    ("find", "tracking"),
    ("swap", "an exchange"),
    ("pay for", "a payment"),
    ("repair", "a repair"),
    ("insure", "an insurance"),
    ("renew", "a renewal"),
]
_TIMES = "yesterday,last week,in march,in june,before christmas,over the summer".split(",")
_USER = [
    "i want to {user} the {product} i bought {time} , which {document} do i need",
    "how can i {user} my {product} , which came {time} , with a {document}",
    "is a {document} enough to {user} a {product} ordered {time}",
    "please help , my {product} came {time} , i would like to {user} it , here is my {document}",
]
_AGENT = [
    "for {agent} of a {product} ordered {time} please upload your {document}",
    "we handle {agent} : product {product} , date {time} , paper {document}",
    "you can ask for {agent} of the {product} sold {time} if you have the {document}",
    "i started {agent} for you , {product} , {time} , the {document} is all we need",
]
_KNOWLEDGE = [
    "{agent} of a {product} sold {time} with the {document}",
    "what to do for {agent} , {product} bought {time} , {document} at hand",
]
_HELD_OUT = [
    "my {product} arrived {time} and i have to {user} it , i still have the {document}",
    "{user} {product} {time} {document}",
]
_SMALL_TALK = (
    "hello how can i help you,hi there,one moment please,thank you very much,is there anything "
    "else,that is all,have a nice day,i see,could you wait a minute,sure no problem,okay,good bye"
).split(",")


@dataclass(frozen=True)
class _Intent:
    user: str
    agent: str
    product: str
    time: str
    document: str

    def fill(self, template: str) -> str:
        return template.format(**vars(self))


@dataclass(frozen=True)
class KnowledgeTest:
    """Held-out wordings of users, and the knowledge base they are to be answered from.

    Attributes:
        queries: what is asked, in wordings that no session has.
        query_entries: the entry that answers each.
        questions: the knowledge base, every entry in two wordings, one after the other.
        question_entries: the entry of each.
        asked: wordings that sessions have too, each with its entry: to learn from.
    """

    queries: list[str]
    query_entries: list[str]
    questions: list[str]
    question_entries: list[str]
    asked: list[tuple[str, str]]


def make_sessions(count: int, seed: int) -> tuple[GroupList, KnowledgeTest]:
    """``count`` sessions about 200 intents, and the test over all of the intents."""
    rng = random.Random(seed)
    intents = _families(rng)
    sessions = [_session(i, rng.choice(intents), rng) for i in range(count)]
    numbered = [(str(number), intent) for number, intent in enumerate(intents)]
    queries = [(number, intent.fill(t)) for number, intent in numbered for t in _HELD_OUT]
    questions = [(number, intent.fill(t)) for number, intent in numbered for t in _KNOWLEDGE]
    test = KnowledgeTest(
        [text for _, text in queries],
        [number for number, _ in queries],
        [text for _, text in questions],
        [number for number, _ in questions],
        [(intent.fill(template), number) for number, intent in numbered for template in _USER],
    )
    return GroupList(sessions, "sessions"), test


def _families(rng: random.Random) -> list[_Intent]:
    products, documents = made_up_words(60, rng), made_up_words(12, rng)
    intents: dict[_Intent, None] = {}
    while len(intents) < 200:
        base = _Intent(
            *rng.choice(_ACTIONS), rng.choice(products), rng.choice(_TIMES), rng.choice(documents)
        )
        slot = rng.choice(("product", "time", "document", "action"))
        family = {base: None}
        while len(family) < 5:
            family[_with_another(base, slot, products, documents, rng)] = None
        intents.update(family)
    return list(intents)[:200]


def _with_another(
    base: _Intent, slot: str, products: Sequence[str], documents: Sequence[str], rng: random.Random
) -> _Intent:
    values = dict(vars(base))
    if slot == "action":
        values["user"], values["agent"] = rng.choice(_ACTIONS)
    else:
        values[slot] = rng.choice(
            {"product": products, "time": _TIMES, "document": documents}[slot]
        )
    return _Intent(**values)


def _session(number: int, intent: _Intent, rng: random.Random) -> Group:
    spoken = [("user", intent.fill(rng.choice(_USER))), ("agent", intent.fill(rng.choice(_AGENT)))]
    spoken += [rng.choice(spoken) for _ in range(rng.randrange(2))]
    noise = rng.uniform(0.2, 0.6)
    turns: list[tuple[str, str]] = []
    for turn in spoken:
        while rng.random() < noise:
            turns.append((rng.choice(("user", "agent")), rng.choice(_SMALL_TALK)))
        turns.append(turn)
    roles, texts = zip(*turns, strict=True)
    return Group(f"session-{number}", texts, roles, "en")
