"""Suffix automata, compiled: their construction, and what they find in other texts.

The two kernels are plain loops over integers, which numba compiles on their first call (about two
seconds) and keeps beside this file, or in the user's cache where that cannot be written. Beside a
vectorised numpy version: an automaton is built and walked one character at a time, so there is
nothing to vectorise over but pairs, whose states differ.

An automaton of n characters has at most 2n - 1 states (n >= 2) and 3n - 4 transitions (n >= 3):
Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text". State 0 is the
root; no transition leads there, so that a 0 in ``follow`` means that there is none. Symbols count
from 1: symbol 0 is every character that the text does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit

from pocketquery.sdk.arrays import Int32s

__all__ = ["build_automaton", "match_pairs"]

Function = TypeVar("Function", bound=Callable[..., object])

CODE_POINTS = 0x110000
MOST_WEIGHT = np.iinfo(np.int32).max


def compiled(function: Function) -> Function:
    """``function``, compiled on its first call; numba's own decorator carries no types."""
    try:
        return cast("Function", njit(cache=True)(function))
    except RuntimeError:  # neither this folder nor the user's cache can be written
        return cast("Function", njit(function))


@compiled
def build_automaton(text: Int32s, width: int) -> tuple[Int32s, Int32s, Int32s, int]:
    """The suffix automaton of a text.

    Args:
        text: symbols from 1 to ``width - 1``, int32 (n,).
        width: symbols in all, 0 included.

    Returns:
        ``follow``, int32 (2n, width): the state behind each transition, 0 where there is none;
        ``links``, int32 (2n,): the state of the longest suffix in another state, -1 for the root;
        ``lengths``, int32 (2n,): of each state's longest string; and the number of states in use.
    """
    most = max(2 * len(text), 1)
    follow = np.zeros((most, width), np.int32)
    links = np.empty(most, np.int32)
    lengths = np.empty(most, np.int32)
    links[0], lengths[0] = -1, 0
    states, last = 1, 0
    for symbol in text:
        new, at = states, last
        states, last = states + 1, states
        lengths[new] = lengths[at] + 1
        while at != -1 and follow[at, symbol] == 0:
            follow[at, symbol] = new
            at = links[at]
        if at == -1:
            links[new] = 0
            continue
        target = follow[at, symbol]
        if lengths[target] == lengths[at] + 1:
            links[new] = target
            continue
        clone = states  # what both the old state and the new one end with
        states += 1
        for other in range(width):  # numba compiles a slice for a second
            follow[clone, other] = follow[target, other]
        links[clone], lengths[clone] = links[target], lengths[at] + 1
        links[target], links[new] = clone, clone
        while at != -1 and follow[at, symbol] == target:
            follow[at, symbol] = clone
            at = links[at]
    return follow, links, lengths, states


@compiled
def complete_automaton(
    follow: Int32s, links: Int32s, lengths: Int32s, states: int
) -> tuple[Int32s, Int32s]:
    """A transition for every state and symbol, so that streaming a text needs no search.

    Where a state has no transition, its suffix links are followed here once and for all.

    Returns:
        ``target``, int32 (states * width,): the next state times width; and ``kept``, of the same
        shape: how many characters of the match at most remain before the new one is added, -1
        where even that one occurs nowhere.
    """
    width = follow.shape[1]
    target = np.zeros(states * width, np.int32)
    remaining = np.full(states * width, -1, np.int32)
    for state in by_length(lengths, states):  # a link leads to a shorter state, done before
        for symbol in range(1, width):
            at = state * width + symbol
            if follow[state, symbol] != 0:
                target[at] = follow[state, symbol] * width
                remaining[at] = lengths[state]
            elif state != 0:
                target[at] = target[links[state] * width + symbol]
                remaining[at] = remaining[links[state] * width + symbol]
    return target, remaining


@compiled
def by_length(lengths: Int32s, states: int) -> Int32s:
    """The states, the shortest first: a counting sort (numpy's sort compiles for seconds)."""
    places = np.zeros(states + 1, np.int32)
    for state in range(states):
        places[lengths[state] + 1] += 1
    for length in range(states):
        places[length + 1] += places[length]
    order = np.empty(states, np.int32)
    for state in range(states):
        order[places[lengths[state]]] = state
        places[lengths[state]] += 1
    return order


@compiled
def match_pairs(
    characters: Int32s,
    starts: Int32s,
    weights: Int32s,
    anchors: Int32s,
    first: Int32s,
    last: Int32s,
    least: int,
) -> tuple[Int32s, Int32s, Int32s]:
    """The longest common substring of many pairs of texts; the heaviest where several are longest.

    Each anchor's automaton is built once and every partner streamed over it: O(length) a pair.

    Args:
        characters: code points of all texts behind one another, int32.
        starts: where each text starts, and where the last one ends, int32 (texts + 1,).
        weights: running sum of the characters' weights, int32 (len(characters) + 1,).
        anchors: int32 (rows,), texts.
        first: int32 (rows,): the first partner of each anchor,
        last: int32 (rows,): and the one behind the last.
        least: shorter substrings are not looked for.

    Returns:
        Lengths, 0 where there is none; where in ``characters`` the partner's occurrence ends; and
        its weight. All int32 (pairs,), row by row.
    """
    pairs = (last - first).sum()
    longest, ends = np.zeros(pairs, np.int32), np.zeros(pairs, np.int32)
    worth = np.zeros(pairs, np.int32)
    symbols = np.zeros(CODE_POINTS, np.int32)  # untouched pages of it cost nothing
    pair = 0
    for row in range(len(anchors)):
        if first[row] >= last[row]:
            continue
        begin, end = starts[anchors[row]], starts[anchors[row] + 1]
        text = np.empty(end - begin, np.int32)
        width = 1
        for i in range(begin, end):
            if symbols[characters[i]] == 0:
                symbols[characters[i]] = width
                width += 1
            text[i - begin] = symbols[characters[i]]
        follow, links, lengths, states = build_automaton(text, width)
        target, remaining = complete_automaton(follow, links, lengths, states)
        for partner in range(first[row], last[row]):
            state, length, best = 0, 0, least - 1
            heaviest, where = MOST_WEIGHT, -1
            for i in range(starts[partner], starts[partner + 1]):
                at = np.uint32(state + symbols[np.uint32(characters[i])])
                state = target[at]
                length = min(length, remaining[at]) + 1
                if length >= best:
                    weight = weights[i + 1] - weights[i + 1 - length]
                    if length > best or weight > heaviest:
                        best, heaviest, where = length, weight, i + 1
            if where >= 0:
                longest[pair], ends[pair], worth[pair] = best, where, heaviest
            pair += 1
        for i in range(begin, end):
            symbols[characters[i]] = 0
    return longest, ends, worth
