"""Cipher languages: a corpus of which one half is written in letters of another alphabet.

Every word is spelt letter by letter in an alphabet that the first language does not have; digits,
punctuation and a share of the words stay. So the two languages are isomorphic by construction, and
held-out sentences with their cipher are parallel pairs.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pocketquery.server.corpus.groups import Group, GroupList

__all__ = ["Ciphers", "encipher", "make_ciphers"]

_GEORGIAN = "აბგდევზთიკლმნოპჟრსტუფქღყშჩ"  # 26 letters
_LETTERS = str.maketrans(dict(zip("abcdefghijklmnopqrstuvwxyz", _GEORGIAN, strict=True)))
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Ciphers:
    """Two languages with the same grammar, ``en`` and ``xx``.

    Attributes:
        documents: of both, from disjoint halves.
        unseen: of each, sentences that ``documents`` has in the other one alone.
        pairs: parallel sentences from documents that are in neither half.
    """

    documents: GroupList
    unseen: dict[str, list[str]]
    pairs: list[tuple[str, str]]


def encipher(text: str, *, shared: float = 0.05, reverse: bool = False) -> str:
    """``text`` in the second language.

    Args:
        text: in the first language; it is lower-cased.
        shared: share of the words (by hash, so always the same ones) that both languages have.
        reverse: reverse the order of the words: a typologically different language.
    """
    ciphered = _WORD.sub(lambda match: _word(match.group(), shared), text.lower())
    return " ".join(reversed(ciphered.split())) if reverse else ciphered


def make_ciphers(
    source: Sequence[Group],
    seed: int,
    *,
    held_out: int = 500,
    shared: float = 0.05,
    reverse: bool = False,
) -> Ciphers:
    """Documents of both languages, and parallel held-out sentences.

    Args:
        source: documents in the first language, lower-cased here.
        seed: of the split.
        held_out: sentences kept for the test, from documents that are not trained on.
        shared: see :func:`encipher`.
        reverse: see :func:`encipher`.
    """
    rng = random.Random(seed)
    order = rng.sample(range(len(source)), len(source))
    pairs: list[tuple[str, str]] = []
    while order and len(pairs) < held_out:
        pairs += [
            (text.lower(), encipher(text, shared=shared, reverse=reverse))
            for text in source[order.pop()].texts
        ]
    half = len(order) // 2
    halves = [source[i] for i in order[:half]], [source[i] for i in order[half:]]
    first, second = (
        (
            [_lowered(group) for group in found],
            [_ciphered(group, shared, reverse) for group in found],
        )
        for found in halves
    )
    distinct = {a: (a, b) for a, b in pairs}
    documents = first[0] + second[1]
    trained = set(_texts(documents))
    return Ciphers(
        GroupList(documents, "documents"),
        {
            language: [text for text in _texts(groups) if text not in trained]
            for language, groups in (("en", second[0]), ("xx", first[1]))
        },
        list(distinct.values())[:held_out],
    )


def _texts(groups: Sequence[Group]) -> list[str]:
    return [text for group in groups for text in group.texts]


def _word(word: str, shared: float) -> str:
    digest = hashlib.sha256(word.encode()).digest()
    if int.from_bytes(digest[:4], "big") < shared * 2**32:
        return word
    return word.translate(_LETTERS)


def _lowered(group: Group) -> Group:
    return Group(group.id, tuple(text.lower() for text in group.texts), (), "en", group.title)


def _ciphered(group: Group, shared: float, reverse: bool) -> Group:
    texts = tuple(encipher(text, shared=shared, reverse=reverse) for text in group.texts)
    return Group(group.id, texts, (), "xx", group.title)
