"""Titled documents: the title's words come back in two of eight sentences.

A document is about one of thirty topics. Each topic has words of its own and a name; the sentences
that do not repeat the title are about the topic, or about nothing. So a title belongs to the
sentences that repeat it, topics can be told by their names, and pairs without a filter are noisy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from made_up_words import made_up_words

from pocketquery.server.corpus.groups import Group, GroupList

__all__ = ["TitleTest", "make_titled_documents"]

_TOPICS, _WORDS, _COMMON = 30, 40, 120


@dataclass(frozen=True)
class TitleTest:
    """What the encoders are asked.

    Attributes:
        titles: queries of held-out documents.
        sentences: what they are to find: a sentence of each, that repeats some of the title.
        samples: held-out sentences with the number of their topic.
        labels: the topics' names.
    """

    titles: list[str]
    sentences: list[str]
    samples: list[tuple[str, int]]
    labels: list[str]


def make_titled_documents(
    count: int, seed: int, held_out: int = 300
) -> tuple[GroupList, TitleTest]:
    """``count`` documents to train on, and a test from ``held_out`` others."""
    rng = random.Random(seed)
    words = made_up_words(_TOPICS * _WORDS + _COMMON, rng)
    common = words[:_COMMON]
    topics = [words[_COMMON + i * _WORDS : _COMMON + (i + 1) * _WORDS] for i in range(_TOPICS)]
    documents = [_document(i, topics, common, rng) for i in range(count + held_out)]
    train = GroupList([group for group, _ in documents[:count]], "documents")
    held = documents[count:]
    test = TitleTest(
        titles=[group.texts[0] for group, _ in held],
        sentences=[_repeating(group) for group, _ in held],
        samples=[(group.texts[-1], topic) for group, topic in held],
        labels=[topic[0] for topic in topics],
    )
    return train, test


def _document(
    number: int, topics: list[list[str]], common: list[str], rng: random.Random
) -> tuple[Group, int]:
    topic = rng.randrange(len(topics))
    own = topics[topic]
    title = [own[0], *rng.sample(own[1:], 3)]
    sentences = [_sentence(own, common, rng) for _ in range(8)]
    for place in rng.sample(range(7), 2):  # the last one never repeats: it is for classification
        start = rng.randrange(2, 6)
        pair = rng.randrange(3)
        sentences[place][start:start] = title[pair : pair + 2]
    texts = (" ".join(title), *(" ".join(sentence) for sentence in sentences))
    return Group(f"document-{number}", texts, (), "en", title=True), topic


def _sentence(own: list[str], common: list[str], rng: random.Random) -> list[str]:
    about = rng.random() < 0.7
    return [
        rng.choice(own) if about and rng.random() < 0.35 else rng.choice(common) for _ in range(10)
    ]


def _repeating(group: Group) -> str:
    """The sentence that shares the longest run of words with the title."""
    title = group.texts[0].split()
    pairs = {" ".join(title[i : i + 2]) for i in range(len(title) - 1)}
    return next(text for text in group.texts[1:] if any(pair in text for pair in pairs))
