"""What GUR draws from a group: a pair of texts, or a content whose title is to be written."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.lcs_pairs import LcsConfig, mine_document
from pocketquery.server.objectives.shared.losses import same_text_mask

__all__ = ["GurExample", "draw_example", "false_negatives"]

_TRIES = 8  # pairs of a document, until one shares enough


@dataclass(frozen=True)
class GurExample:
    """Two texts of one document.

    Attributes:
        first: a text, or the content whose title is to be written.
        second: its partner, or that title.
        document: id of where both are from; pairs of one are no negatives of each other.
        writes_title: whether the title is to be written; such an example has no contrast.
    """

    first: str
    second: str
    document: str
    writes_title: bool = False


def draw_example(
    group: Group, rng: random.Random, *, lcs: bool, max_gap: int, title_share: float
) -> GurExample | None:
    """A pair as it is, or one drawn from a document: title and sentence, or two sentences.

    Args:
        group: two texts are a pair, as it was mined or given; more are a document.
        rng: the source of randomness.
        lcs: from a document, only a pair that mining would keep (they share a long string, and
            are not nearly equal); a few are tried. Otherwise any.
        max_gap: two sentences are at most so far apart; a title goes with any sentence.
        title_share: probability that, where there is a title, it is to be written from the rest.
    """
    texts = group.texts
    if len(texts) < 2:
        return None
    if group.title and rng.random() < title_share:
        return GurExample(" ".join(texts[1:]), texts[0], group.id, writes_title=True)
    if len(texts) == 2:
        return GurExample(texts[0], texts[1], group.id)
    for _ in range(_TRIES if lcs else 1):
        first, second = _candidate(group, rng, max_gap)
        if not lcs or _shares_enough(first, second):
            return GurExample(first, second, group.id)
    return None


def _candidate(group: Group, rng: random.Random, max_gap: int) -> tuple[str, str]:
    texts = group.texts
    if group.title:
        return texts[0], rng.choice(texts[1:])
    first = rng.randrange(len(texts))
    near = range(max(0, first - max_gap), min(len(texts), first + max_gap + 1))
    return texts[first], texts[rng.choice([other for other in near if other != first])]


def _shares_enough(first: str, second: str) -> bool:
    return bool(mine_document(Group("", (first, second)), LcsConfig(candidates="within")))


def false_negatives(pairs: list[GurExample]) -> torch.Tensor:
    """bool (n, n): pairs (i, j) whose texts are no negatives of each other; False where i = j.

    They are of one document, or one of them equals the other or the other's partner (a title that
    two pairs share).
    """
    firsts, seconds = [pair.first for pair in pairs], [pair.second for pair in pairs]
    codes: dict[str, int] = {}
    numbers = [codes.setdefault(pair.document, len(codes)) for pair in pairs]
    document = torch.tensor(numbers, dtype=torch.int64)
    found = document.unsqueeze(1) == document.unsqueeze(0)  # (n, n)
    if pairs:
        found |= same_text_mask(firsts, firsts) | same_text_mask(seconds, seconds)
        crossed = same_text_mask(firsts, seconds)
        found |= crossed | crossed.T
    return found.fill_diagonal_(False)
