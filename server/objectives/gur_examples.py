"""What GUR draws from a group: a pair of texts, or a content whose title is to be written."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from pocketquery.server.corpus.groups import Group
from pocketquery.server.objectives.primitives import same_text_mask

__all__ = ["GurExample", "document_of", "draw_example", "false_negatives"]


@dataclass(frozen=True)
class GurExample:
    """Two texts of one document.

    Attributes:
        first: a text, or the content whose title is to be written.
        second: its partner, or that title.
        document: where both are from: pairs of one document are no negatives of each other.
        writes_title: whether the title is to be written; such an example has no contrast.
    """

    first: str
    second: str
    document: str
    writes_title: bool = False


def document_of(group_id: str) -> str:
    """The document a mined pair is from: its id without the pair's number, ``document#number``."""
    document, mark, number = group_id.rpartition("#")
    return document if mark and number.isdigit() else group_id


def draw_example(
    group: Group, rng: random.Random, max_gap: int, title_share: float
) -> GurExample | None:
    """A pair as it is, or one drawn from a document without asking what its texts share.

    From a document with a title: title and any sentence of the content, or with probability
    ``title_share`` the title to be written. Without one: two sentences at most ``max_gap`` apart.
    """
    texts, document = group.texts, document_of(group.id)
    if len(texts) < 2:
        return None
    if group.title and rng.random() < title_share:
        return GurExample(" ".join(texts[1:]), texts[0], document, writes_title=True)
    if len(texts) == 2:
        return GurExample(texts[0], texts[1], document)
    if group.title:
        return GurExample(texts[0], rng.choice(texts[1:]), document)
    first = rng.randrange(len(texts))
    near = range(max(0, first - max_gap), min(len(texts), first + max_gap + 1))
    second = rng.choice([other for other in near if other != first])
    return GurExample(texts[first], texts[second], document)


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
