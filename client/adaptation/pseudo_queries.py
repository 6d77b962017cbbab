"""Pseudo-queries: what a user might type to find a document, cut from the document itself.

A title is one, and so is a stretch of a sentence, 4 to 14 words long. They share their words with
the document, which favours rankings by words. That is good enough to teach with, since a ranking of
all documents is taught and not the source alone. Keep it in mind when they judge.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pocketquery.client.views.text_units import Units, cut
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.documents import Document
from pocketquery.sdk.index.index import Index

__all__ = ["LEAST_KEPT_ASIDE", "PseudoQuery", "pseudo_queries", "sample", "split_pseudo_queries"]

LEAST_KEPT_ASIDE = 20
"""Documents whose queries judge; with fewer, hardly anything could be shown."""

_SHARE_KEPT_ASIDE = 0.1  # of the documents
_KEPT_ASIDE_OF_FEW = 30  # documents kept aside where a tenth is less: some have no text that judges
_LEAST_SAMPLED = 1000  # documents, however few queries are taught: a tenth gives enough to judge by

_LEAST_TITLE = 2  # words: one alone is a name, and finds itself
_SHORTEST, _LONGEST = 4, 14  # words of a stretch
_STRETCHES_PER_DOCUMENT = 2  # of a document, where nothing else is said
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True)
class PseudoQuery:
    """A text to search for, and the id of the document it was cut from."""

    text: str
    source: str


def pseudo_queries(
    document: Document, rng: random.Random, stretches: int = _STRETCHES_PER_DOCUMENT
) -> Iterator[PseudoQuery]:
    """Those of one document: its title, and stretches of its sentences, where it has some; none
    twice.

    Args:
        document: any.
        rng: draws the stretches; equal states give equal ones.
        stretches: how many, where they differ.
    """
    texts = list[str]()
    title = document.metadata.get("title")
    if isinstance(title, str) and len(cut(title).texts) >= _LEAST_TITLE:
        texts.append(title.strip())
    sentences = [cut(part) for part in _SENTENCE.split(document.text)]
    sentences = [one for one in sentences if len(one.texts) >= _SHORTEST]
    for _ in range(stretches if sentences else 0):
        texts.append(_stretch(rng.choice(sentences), rng))
    for text in dict.fromkeys(texts):
        yield PseudoQuery(text, document.id)


def sample(documents: Iterable[Document], count: int, rng: random.Random) -> list[Document]:
    """``count`` documents drawn evenly from a stream that is not held; all where there are fewer.

    Algorithm R (Vitter, "Random Sampling with a Reservoir", 1985).
    """
    sample: list[Document] = []
    for seen, document in enumerate(documents):
        if seen < count:
            sample.append(document)
        elif (place := rng.randrange(seen + 1)) < count:
            sample[place] = document
    return sample


def split_pseudo_queries(
    index: Index,
    *,
    most: int,
    most_kept_aside: int,
    least: int,
    seed: int,
    stretches: int = _STRETCHES_PER_DOCUMENT,
) -> tuple[list[PseudoQuery], list[PseudoQuery]]:
    """Pseudo-queries to train on and others to judge by, of different documents, shuffled.

    What is taught judges nothing, also where another document has the same title or sentence.

    Args:
        index: of the documents.
        most: to train on; they are cut of as many documents at most, or of a thousand.
        most_kept_aside: to judge by.
        least: to train on, where it is worth it.
        seed: of everything drawn.
        stretches: of a document, beside its title.

    Raises:
        InvalidInputError: the documents give fewer, or fewer than 20 of those kept aside any.
    """
    rng = random.Random(seed)
    documents = sample(index.documents(), max(most, _LEAST_SAMPLED), rng)
    rng.shuffle(documents)
    aside = max(_KEPT_ASIDE_OF_FEW, round(_SHARE_KEPT_ASIDE * len(documents)))
    pools = [
        [query for document in some for query in pseudo_queries(document, rng, stretches)]
        for some in (documents[aside:], documents[:aside])
    ]
    taught = pools[0]
    learnt = {query.text for query in taught}
    kept_aside = [query for query in pools[1] if query.text not in learnt]
    judging = len({query.source for query in kept_aside})
    if len(taught) < least or judging < LEAST_KEPT_ASIDE:
        raise InvalidInputError(
            f"the {len(index)} documents of {index.path} give {len(taught)} pseudo-queries to "
            f"train on, and {judging} that are kept aside some to judge by; expected at least "
            f"{least} and {LEAST_KEPT_ASIDE}: adapt to some hundred documents with sentences of "
            "four words or more"
        )
    for queries in (taught, kept_aside):
        rng.shuffle(queries)
    return taught[:most], kept_aside[:most_kept_aside]


def _stretch(sentence: Units, rng: random.Random) -> str:
    length = rng.randint(_SHORTEST, min(_LONGEST, len(sentence.texts)))
    start = rng.randint(0, len(sentence.texts) - length)
    outside = set(range(len(sentence.texts))) - set(range(start, start + length))
    return sentence.without(outside).strip()
