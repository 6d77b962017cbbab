"""A suffix automaton in plain Python, as well as that can be done: the mining benchmark's rival."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pocketquery.server.corpus.mining.suffix_automaton import CommonSubstrings, TextBlock

__all__ = ["match_block"]

Ints = NDArray[np.int32]
MOST_WEIGHT = 2**31


def match_block(
    block: TextBlock, weights: Ints, anchors: Ints, first: Ints, last: Ints, least: int = 1
) -> CommonSubstrings:
    """As ``suffix_automaton.match_block``: one automaton an anchor, the partners streamed."""
    characters, starts = block.characters.tolist(), block.starts.tolist()
    running = weights.tolist()
    matches: list[tuple[int, int, int]] = []
    for row, anchor in enumerate(anchors.tolist()):
        if first[row] == last[row]:
            continue
        automaton = build(characters[starts[anchor] : starts[anchor + 1]])
        for partner in range(int(first[row]), int(last[row])):
            text = characters[starts[partner] : starts[partner + 1]]
            matches.append(stream(automaton, text, starts[partner], running, least))
    return CommonSubstrings(*np.array(matches, np.int32).reshape(-1, 3).T)


Automaton = tuple[list[dict[int, int]], list[int], list[int]]


def build(text: list[int]) -> Automaton:
    """Transitions, suffix links and lengths of the states."""
    follow: list[dict[int, int]] = [{}]
    links, lengths, last = [-1], [0], 0
    for character in text:
        new, at = len(follow), last
        follow.append({})
        links.append(0)
        lengths.append(lengths[last] + 1)
        last = new
        while at != -1 and character not in follow[at]:
            follow[at][character] = new
            at = links[at]
        if at == -1:
            continue
        found = follow[at][character]
        if lengths[found] == lengths[at] + 1:
            links[new] = found
            continue
        clone = len(follow)
        follow.append(follow[found].copy())
        links.append(links[found])
        lengths.append(lengths[at] + 1)
        links[found] = links[new] = clone
        while at != -1 and follow[at].get(character) == found:
            follow[at][character] = clone
            at = links[at]
    return follow, links, lengths


def stream(
    automaton: Automaton, text: list[int], start: int, running: list[int], least: int
) -> tuple[int, int, int]:
    """Length, end and weight of the longest match, the heaviest of them."""
    follow, links, lengths = automaton
    state = length = 0
    best, where, heaviest = least - 1, 0, MOST_WEIGHT
    for i, character in enumerate(text, start=start + 1):
        while state and character not in follow[state]:
            state = links[state]
            length = lengths[state]
        if character in follow[state]:
            state = follow[state][character]
            length += 1
        if length >= best:
            weight = running[i] - running[i - length]
            if length > best or weight > heaviest:
                best, heaviest, where = length, weight, i
    return (best, where, heaviest) if where else (0, 0, 0)
