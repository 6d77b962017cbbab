from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.sdk.arrays import Int32s
from pocketquery.server.corpus.mining.suffix_automaton import (
    TextBlock,
    code_points,
    kernels,
    match_block,
)
from tests.server.corpus.slow_substrings import common_length, common_substrings

ROOT = Path(__file__).parents[4]


def longest_common_substring(a: str, b: str) -> str:
    """The longest string that occurs in both texts; as ``b`` has it first, where several do."""
    block = TextBlock.of([a, b])
    unweighted = np.zeros(len(block.characters) + 1, np.int32)
    one = np.ones(1, np.int32)
    found = match_block(block, unweighted, one - 1, one, one + 1)
    end = int(found.ends[0]) - len(a)
    return b[end - int(found.lengths[0]) : end] if found.lengths[0] else ""


class SuffixAutomaton:
    """The smallest deterministic automaton that accepts every suffix of a text.

    Attributes:
        states: at most 2n - 1 for n >= 2 characters.
        transitions: at most 3n - 4 for n >= 3.
    """

    def __init__(self, text: str) -> None:
        alphabet, symbols = np.unique(code_points(text), return_inverse=True)
        self._symbols = {chr(code): symbol for symbol, code in enumerate(alphabet, start=1)}
        width = len(alphabet) + 1
        built = kernels().build_automaton((symbols + 1).astype(np.int32), width)
        self._follow: Int32s = built[0]
        self.states = int(built[3])
        self.transitions = int(np.count_nonzero(self._follow[: self.states]))

    def __contains__(self, part: str) -> bool:
        """Whether ``part`` occurs in the text."""
        state = 0
        for character in part:
            state = int(self._follow[state, self._symbols.get(character, 0)])
            if state == 0:
                return False
        return True


def random_text(rng: random.Random, longest: int = 14) -> str:
    return "".join(rng.choices("abcd"[: rng.randint(2, 4)], k=rng.randint(0, longest)))


def matched(texts: list[str], weights: list[int] | None = None) -> list[tuple[int, str]]:
    """(length, substring) of texts 0 and 1, 2 and 3, ..."""
    block = TextBlock.of(texts)
    running = block.running(np.array(weights or [0] * len(block.characters), np.int32))
    anchors = np.arange(0, len(texts), 2, dtype=np.int32)
    found = match_block(block, running, anchors, anchors + 1, anchors + 2)
    together, both = "".join(texts), zip(found.lengths.tolist(), found.ends.tolist(), strict=True)
    return [(length, together[end - length : end] if length else "") for length, end in both]


def test_it_finds_what_dynamic_programming_finds() -> None:
    rng = random.Random(0)
    texts = [random_text(rng) for _ in range(100_000)]
    found = matched(texts)
    assert len(found) == 50_000
    for (length, part), a, b in zip(found, texts[::2], texts[1::2], strict=True):
        assert length == len(part) == common_length(a, b), (a, b)
        assert part in a, (a, b)
        assert part in b, (a, b)


def test_long_texts_of_many_letters() -> None:
    rng = random.Random(1)
    alphabet = "abcdefghij 日本語的漢字éß😀𠀀"
    for _ in range(60):
        shared = "".join(rng.choices(alphabet, k=rng.randint(0, 30)))
        a, b = (
            "".join(rng.choices(alphabet, k=rng.randint(0, 90)))
            + shared
            + "".join(rng.choices(alphabet, k=rng.randint(0, 40)))
            for _ in range(2)
        )
        assert longest_common_substring(a, b) in common_substrings(a, b)


def test_a_candidate_is_not_lost_when_a_state_is_met_again() -> None:
    # The released miner's automaton finds nothing here.
    assert longest_common_substring("bbab", "bbbbaabbaaabaa") == "bba"
    assert longest_common_substring("bbbbaabbaaabaa", "bbab") == "bba"


@pytest.mark.parametrize(("a", "b"), [("", ""), ("", "ab"), ("ab", ""), ("ab", "cd")])
def test_nothing_in_common(a: str, b: str) -> None:
    assert longest_common_substring(a, b) == ""


def test_of_several_longest_the_heaviest_counts_whichever_text_is_the_anchor() -> None:
    a, b = "12 ab", "ab 12"
    weights = dict.fromkeys("ab", 3) | dict.fromkeys("12 ", 0)
    for first, second in ((a, b), (b, a)):
        worth = [weights[character] for character in first + second]
        assert matched([first, second], worth) == [(2, "ab")]
    assert matched([a, b]) == [(2, "ab")]  # the first in b, without weights
    assert matched([b, a]) == [(2, "12")]


def test_one_anchor_streams_over_a_range_of_partners() -> None:
    texts = ["abcab", "xxcab", "", "abc", "zzz", "bcabq"]
    block = TextBlock.of(texts)
    ints = np.array([0, 1], np.int32), np.array([1, 2], np.int32), np.array([6, 4], np.int32)
    weights = block.running(np.full(len(block.characters), 3))
    found = match_block(block, weights, *ints)
    expected = [common_length(texts[0], other) for other in texts[1:]]
    expected += [common_length(texts[1], other) for other in texts[2:4]]
    assert found.lengths.tolist() == expected
    assert found.weights.tolist() == [3 * length for length in expected]
    long = match_block(block, weights, *ints, least=3)
    assert long.lengths.tolist() == [length if length >= 3 else 0 for length in expected]


def test_states_and_transitions_stay_within_their_bounds_and_reach_them() -> None:
    rng = random.Random(2)
    for _ in range(300):
        text = random_text(rng, 40)
        automaton = SuffixAutomaton(text)
        if len(text) >= 2:
            assert len(text) + 1 <= automaton.states <= 2 * len(text) - 1
        if len(text) >= 3:
            assert automaton.transitions <= 3 * len(text) - 4
    for n in (4, 9, 33):
        assert SuffixAutomaton("a" + "b" * (n - 1)).states == 2 * n - 1
        assert SuffixAutomaton("a" + "b" * (n - 2) + "c").transitions == 3 * n - 4


def test_it_accepts_the_substrings_and_nothing_else() -> None:
    rng = random.Random(3)
    for _ in range(200):
        text, part = random_text(rng, 20), random_text(rng, 4)
        assert (part in SuffixAutomaton(text)) == (part in text), (text, part)


def test_the_compiled_kernels_are_kept_between_processes() -> None:
    code = (
        "from pocketquery.server.corpus.mining.suffix_automaton import kernels\n"
        "from tests.server.corpus.mining.test_suffix_automaton import longest_common_substring\n"
        "longest_common_substring('ab', 'b')\n"
        "print(sum(kernels().match_pairs.stats.cache_hits.values()))"
    )
    longest_common_substring("ab", "b")  # compiles, where nobody did
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 1


def test_kernels_work_where_nothing_can_be_kept() -> None:
    names: dict[str, Any] = {}
    exec("def double(x): return 2 * x", names)  # without a file, which is the same to numba
    assert kernels().compiled(names["double"])(21) == 42
