"""Pairs of texts of one document that share a long string: GUR's training pairs.

"Generate to Understand for Representation", the section on mining: two sentences of a document,
or its title and a sentence, that have enough letters in one common substring are likely to be
about the same thing, and no label is needed to find them.

Weights are whole tenths of an ideograph. The released miner adds 1.0, 0.3 and 0.1 in floating
point, where ten letters come to 2.9999999999999996 and miss its threshold of 3; it also counts
blanks and digits, which the paper's example ("9 Latin characters") does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.arrays import Int32s
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import SEED, whole
from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.matching_text import (
    IDEOGRAPH,
    LETTER,
    character_kinds,
    matching_form,
)
from pocketquery.server.corpus.mining.named_streams import named_seed
from pocketquery.server.corpus.mining.suffix_automaton import (
    CommonSubstrings,
    TextBlock,
    match_block,
)

__all__ = ["LcsConfig", "heavy_enough", "mine_document", "mine_pairs"]

Flags = NDArray[np.bool_]

_IDEOGRAPH_WEIGHT, _LETTER_WEIGHT = 10, 3
_WEIGHTS = np.array([0, _LETTER_WEIGHT, _IDEOGRAPH_WEIGHT], np.int32)  # of each kind
_MOST_PAIRED = (
    2000  # texts that are paired with each other at most: bounds the memory of a long document
)


@dataclass(frozen=True)
class LcsConfig(Settings):
    """How pairs are mined; the defaults are the paper's, or its code's where it is silent."""

    candidates: Annotated[
        Literal["title", "within", "both"],
        "title: the title with each sentence; within: sentences with each other",
    ] = "both"
    max_gap: Annotated[int, whole(), "sentences apart at most"] = 100
    use_lcs: Annotated[
        bool, "keep only candidates that share a long enough string", Option(name="lcs")
    ] = True
    strict_weight: Annotated[
        int, whole(0), "least weight of the shared string: 3 a letter, 10 an ideograph"
    ] = 30
    relaxed_weight: Annotated[
        int, whole(0), "least between short texts, where half its letters are ideographs"
    ] = 20
    short: Annotated[int, whole(0), "texts of fewer characters are short"] = 64
    characters: Annotated[int, whole(), "of each text that are compared, from its start"] = 128
    near_duplicate: Annotated[
        int,
        whole(),
        "percent of both texts; pairs that share as much are left out",
        Option("PERCENT"),
    ] = 90
    repeat: Annotated[int, whole(), "pairs of a text at most; a title may have one more"] = 2
    pairs_per_text: Annotated[int, whole(), "pairs of a document at most, for each text"] = 2
    seed: Annotated[int, SEED, Option(hidden=True)] = 0


def mine_pairs(documents: Iterable[Group], config: LcsConfig | None = None) -> Iterator[Group]:
    """The pairs of all documents, one document in memory at a time; see :func:`mine_document`."""
    config = config or LcsConfig()
    for document in documents:
        yield from mine_document(document, config)


def mine_document(document: Group, config: LcsConfig) -> list[Group]:
    """The pairs of one document.

    More than 2,000 texts are cut into parts that are mined alone, each with the title.

    Returns:
        Groups of two texts, the earlier first, that carry the document's id: pairs with one id
        are never each other's negatives. ``title`` is set where the first text is the title.
    """
    comparable = [(text, form) for text in document.texts if len(form := matching_form(text)) >= 2]
    title = document.title and bool(comparable) and comparable[0][0] == document.texts[0]
    head, body = comparable[: int(title)], comparable[int(title) :]
    pairs: list[Group] = []
    for number, start in enumerate(range(0, len(body), _MOST_PAIRED)):
        part = head + body[start : start + _MOST_PAIRED]
        forms = [form for _, form in part]
        for first, second in _paired(forms, title, f"{document.id}/{number}", config):
            texts = part[first][0], part[second][0]
            pairs.append(Group(document.id, texts, lang=document.lang, title=title and first == 0))
    return pairs


def _paired(forms: list[str], title: bool, name: str, config: LcsConfig) -> list[tuple[int, int]]:
    """The pairs to keep of texts in matching form, by their numbers."""
    block = TextBlock.of([form[: config.characters] for form in forms])
    kinds = character_kinds()[block.characters]
    first, second, shared = _matched(block, kinds, title, config)
    keep = ~_near_duplicates(block, first, second, shared, config)
    if config.use_lcs:
        sizes = np.array([len(form) for form in forms], np.int32)
        longer = np.maximum(sizes[first], sizes[second])
        keep &= _sharing_enough(block, kinds, longer, shared, config)
    first, second = first[keep], second[keep]
    rng = np.random.default_rng(named_seed(f"{config.seed}/{name}"))
    order = rng.permutation(len(first))
    if title:  # its pairs first: contents are noisier
        order = order[np.argsort(first[order] != 0, kind="stable")]
    return _within_caps(first[order].tolist(), second[order].tolist(), len(forms), title, config)


def _matched(
    block: TextBlock, kinds: NDArray[np.uint8], title: bool, config: LcsConfig
) -> tuple[Int32s, Int32s, CommonSubstrings]:
    """Candidate pairs, those that cannot be heavy enough left out, and what they share."""
    last = _last_partners(len(block.starts) - 1, title, config)
    anchors = np.arange(len(last), dtype=np.int32)
    least = _least_length(kinds, config)
    running = block.running(_WEIGHTS[kinds])
    shared = match_block(block, running, anchors, anchors + 1, last, least)
    pairs = np.flatnonzero(shared.weights >= _least_weight(config))
    partners = np.cumsum(last - anchors - 1)  # (texts,), of this anchor and those before it
    first = np.searchsorted(partners, pairs, side="right")
    second = last[first] - (partners[first] - pairs)
    heavy = CommonSubstrings(*(values[pairs] for values in shared))
    return first.astype(np.int32), second.astype(np.int32), heavy


def _last_partners(texts: int, title: bool, config: LcsConfig) -> Int32s:
    """Behind the last partner of each text, int32 (texts,); the first one is the next text."""
    next_one = np.arange(1, texts + 1, dtype=np.int32)
    last = np.minimum(next_one + min(config.max_gap, texts), texts).astype(np.int32)
    if config.candidates == "title":
        last = next_one.copy()
    if title:
        last[0] = texts if config.candidates != "within" else 1
    return last


def _least_weight(config: LcsConfig) -> int:
    """What a common substring weighs at least."""
    return min(config.strict_weight, config.relaxed_weight) if config.use_lcs else 0


def _least_length(kinds: NDArray[np.uint8], config: LcsConfig) -> int:
    """Characters that a common substring has at least, for these characters to be heavy enough."""
    if not config.use_lcs:
        return 1
    if (kinds == IDEOGRAPH).any():
        return max(1, -(-_least_weight(config) // _IDEOGRAPH_WEIGHT))
    return max(1, -(-config.strict_weight // _LETTER_WEIGHT))  # no other match is relaxed


def _near_duplicates(
    block: TextBlock, first: Int32s, second: Int32s, shared: CommonSubstrings, config: LcsConfig
) -> Flags:
    """Pairs that share nearly all of both texts, as far as they are compared."""
    sizes = np.diff(block.starts)
    longer = np.maximum(sizes[first], sizes[second])
    return 100 * shared.lengths >= config.near_duplicate * longer


def _sharing_enough(
    block: TextBlock,
    kinds: NDArray[np.uint8],
    longer: Int32s,
    shared: CommonSubstrings,
    config: LcsConfig,
) -> Flags:
    """Pairs whose common substring is heavy enough."""
    starts = shared.ends - shared.lengths
    ideographs, letters = (
        running[shared.ends] - running[starts]
        for running in (block.running(kinds == IDEOGRAPH), block.running(kinds == LETTER))
    )
    return heavy_enough(ideographs, letters, longer, config)


def heavy_enough(ideographs: Int32s, letters: Int32s, longer: Int32s, config: LcsConfig) -> Flags:
    """Whether a common substring is worth a pair: three ideographs, or ten other letters.

    Between short texts two ideographs do, unless most of its letters are others.

    Args:
        ideographs: of the substring, int32 (n,).
        letters: its other letters, int32 (n,).
        longer: characters of the longer text of the pair, int32 (n,).
        config: thresholds.
    """
    weight = _IDEOGRAPH_WEIGHT * ideographs + _LETTER_WEIGHT * letters
    relaxed = (longer < config.short) & (weight >= config.relaxed_weight) & (ideographs >= letters)
    enough: Flags = (weight >= config.strict_weight) | relaxed
    return enough


def _within_caps(
    first: list[int], second: list[int], texts: int, title: bool, config: LcsConfig
) -> list[tuple[int, int]]:
    """The pairs that are taken, in turn, while neither text is in too many."""
    remaining = [config.repeat] * texts
    remaining[0] += int(title)
    taken: list[tuple[int, int]] = []
    for a, b in zip(first, second, strict=True):
        if remaining[a] and remaining[b]:
            remaining[a] -= 1
            remaining[b] -= 1
            taken.append((a, b))
            if len(taken) == config.pairs_per_text * texts:
                break
    return taken
