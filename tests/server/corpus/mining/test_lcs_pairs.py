from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
import pytest

from pocketquery.server.corpus.groups import Group
from pocketquery.server.corpus.mining.lcs_pairs import (
    LcsConfig,
    heavy_enough,
    mine_document,
    mine_pairs,
)
from pocketquery.server.corpus.mining.matching_text import (
    IDEOGRAPH,
    LETTER,
    OTHER,
    character_kinds,
    matching_form,
)
from tests.server.corpus.slow_substrings import common_substrings

EVERY = LcsConfig(repeat=1000, pairs_per_text=1000)
WORDS = "government river of the in kingdom 东京 大学 北京大学 science 1969 ABC stars".split()


def mined(*texts: str, config: LcsConfig = EVERY, title: bool = False) -> list[tuple[str, ...]]:
    return [pair.texts for pair in mine_document(Group("d", texts, title=title), config)]


def random_document(rng: random.Random, texts: int) -> Group:
    sentences = [" ".join(rng.choices(WORDS, k=rng.randint(0, 18))) for _ in range(texts)]
    return Group(f"d{rng.random()}", tuple(sentences), lang="en", title=rng.random() < 0.5)


# What is heavy enough


def test_ten_letters_are_enough_and_nine_are_not() -> None:
    assert mined("x abcdefghij y", "z abcdefghij w") != []
    assert mined("x abcdefghi y", "z abcdefghi w") == []


def test_letters_count_in_any_case_and_spelling() -> None:
    assert mined("Q ABCDEFGHIJ y", "z abcdefghij w") != []
    assert mined("Q ＡＢＣＤＥＦＧＨＩＪ y", "z abcdefghij w") != []
    assert mined("Q ΑΒΓΔΕΖΗΘΙΣ,", "z αβγδεζηθις; w") != []  # a final sigma, and another one


def test_three_ideographs_are_enough_and_two_between_short_texts_only() -> None:
    long, other = "1" * 64, "2" * 64
    assert mined(f"北京市 {long}", f"q北京市r {other}") != []
    assert mined(f"北京 {long}", f"q北京r {other}") == []
    assert mined("在北京,", "去北京。") != []
    assert mined("在北京,", f"去北京。{long}") == []


def test_short_is_below_64_characters() -> None:
    for size, pairs in ((63, 1), (64, 0)):
        assert len(mined("在北京," + "1" * (size - 4), "去北京。")) == pairs


def test_a_relaxed_match_is_at_least_half_ideographs() -> None:
    assert mined("在北京ab,", "去北京ab。") != []
    assert mined("在北京abc,", "去北京abc。") == []
    assert mined("q abcdefg,", "r abcdefg。") == []  # seven letters weigh 21


def test_the_papers_two_examples() -> None:
    assert mined("Tom is chasing Jerry.", "Jerry is chasing Tom.") == []
    pair = ("Spike is chasing Tom.", "Spike is chasing Jerry.")
    assert mined(*pair) == [pair]


def test_weights_are_whole_tenths() -> None:
    def enough(ideographs: int, letters: int) -> bool:
        counts = np.array([[ideographs], [letters], [63]], np.int32)
        return bool(heavy_enough(counts[0], counts[1], counts[2], EVERY)[0])

    assert enough(0, 10)  # ten times 0.3 in floating point is less than 3
    assert not enough(0, 9)
    assert enough(3, 0)
    assert enough(2, 4)
    assert not enough(2, 3)


def test_blanks_and_digits_are_no_letters() -> None:
    kinds = character_kinds()[[ord(c) for c in "aéяあ한北𠀀1 .〇\u0301"]]
    assert kinds.tolist() == [LETTER] * 5 + [IDEOGRAPH] * 2 + [OTHER] * 5


def test_the_matching_form() -> None:
    assert matching_form("  A\tB\u3000Ｃ\n℡ ΟΔΟΣ ") == "a b c tel οδοσ"
    assert matching_form("   ") == ""


# Which pairs are candidates


def test_equal_and_nearly_equal_texts_are_left_out() -> None:
    text = "a sentence of some forty letters in all"
    assert mined(text, text.upper() + "  ") == []
    assert mined(text, text[:-1] + "x") == []
    assert mined(text, text + " and quite a few more that make it long") != []
    whole = replace(EVERY, near_duplicate=100)
    assert mined(text, text[:-1] + "x", config=whole) != []
    assert mined(text, text, config=whole) == []


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ("title", {(0, 1), (0, 2), (0, 3)}),
        ("within", {(1, 2), (2, 3)}),
        ("both", {(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)}),
    ],
)
def test_candidates(
    candidates: Literal["title", "within", "both"], expected: set[tuple[int, int]]
) -> None:
    texts = [f"{letter} government" for letter in ("aaaa", "bbbb", "cccc", "dddd")]
    config = replace(EVERY, candidates=candidates, max_gap=1)
    found = mined(*texts, config=config, title=True)
    assert {(texts.index(a), texts.index(b)) for a, b in found} == expected


def test_without_lcs_every_candidate_counts_but_for_equal_texts() -> None:
    config = replace(EVERY, use_lcs=False)
    assert set(mined("one", "two", "ONE", config=config)) == {("one", "two"), ("two", "ONE")}


def test_only_the_first_characters_are_compared() -> None:
    a, b = "x" * 130 + "government", "y" * 130 + "government"
    assert mined(a, b) == []
    assert mined(a, b, config=replace(EVERY, characters=200)) != []


@pytest.mark.parametrize("gap", [2**31 - 1, 2**40])
def test_a_gap_wider_than_any_document_is_no_bound(gap: int) -> None:
    document = random_document(random.Random(0), 40)
    found = mine_document(document, LcsConfig(max_gap=gap))
    assert found == mine_document(document, LcsConfig(max_gap=40))


def test_a_pair_carries_its_document_and_whether_it_begins_with_the_title() -> None:
    texts = ("The Government", "a government", "it is the government")
    pairs = mine_document(Group("d7", texts, lang="en", title=True), EVERY)
    assert {pair.id for pair in pairs} == {"d7"}
    assert {pair.lang for pair in pairs} == {"en"}
    assert all(pair.title == (pair.texts[0] == texts[0]) for pair in pairs)
    assert {pair.title for pair in pairs} == {True, False}


@pytest.mark.parametrize("texts", [(), ("one sentence alone",), ("", " ", "x"), ("x", "", "a b c")])
def test_documents_without_a_pair(texts: tuple[str, ...]) -> None:
    assert mined(*texts) == []
    assert mined(*texts, title=bool(texts)) == []


def test_a_title_too_short_to_count_is_none() -> None:
    assert mined("x", "the government a", "a government b", title=True) == [
        ("the government a", "a government b")
    ]


def test_a_long_document_is_mined_in_parts_that_share_the_title() -> None:
    texts = ["government", *(f"{number} government" for number in range(4500))]
    config = LcsConfig(candidates="title", near_duplicate=100, repeat=10_000)
    assert {b for _, b in mined(*texts, config=config, title=True)} == set(texts[1:])


# Against the slow reference


@pytest.mark.parametrize("seed", range(6))
def test_the_pairs_are_those_of_a_slow_miner(seed: int) -> None:
    rng = random.Random(seed)
    document = random_document(rng, 25)
    config = replace(EVERY, max_gap=7, characters=60)
    expected = {
        (a, b)
        for (i, a), (j, b) in combinations(enumerate(document.texts), 2)
        if slow_candidate(document, i, j, config.max_gap) and slow_keeps(a, b, config)
    }
    assert {pair.texts for pair in mine_document(document, config)} == expected
    assert expected


def slow_candidate(document: Group, i: int, j: int, max_gap: int) -> bool:
    kept = [k for k, text in enumerate(document.texts) if len(matching_form(text)) >= 2]
    if i not in kept or j not in kept:
        return False
    return (document.title and i == 0) or kept.index(j) - kept.index(i) <= max_gap


def slow_keeps(a: str, b: str, config: LcsConfig) -> bool:
    """The rule as it is written, over all longest substrings, the heaviest of them."""
    forms = [matching_form(text) for text in (a, b)]
    cut = [form[: config.characters] for form in forms]
    best = max(common_substrings(*cut), key=weigh)
    if all(10 * len(best) >= 9 * len(form) for form in cut):
        return False
    ideographs = sum("一" <= character <= "鿿" for character in best)
    relaxed = all(len(form) < 64 for form in forms) and weigh(best) >= 20
    letters = sum(character.isalpha() for character in best)
    return weigh(best) >= 30 or (relaxed and 2 * ideographs >= letters)


def weigh(text: str) -> int:
    return sum(10 if "一" <= c <= "鿿" else 3 * c.isalpha() for c in text)


# Caps and order


@pytest.mark.parametrize("seed", range(4))
def test_no_text_is_used_more_often_than_allowed_and_no_use_is_wasted(seed: int) -> None:
    document = random_document(random.Random(seed), 40)
    document = replace(document, texts=tuple(f"{t} {i}" for i, t in enumerate(document.texts)))
    config = LcsConfig(seed=seed)
    every = {pair.texts for pair in mine_document(document, EVERY)}
    taken = [pair.texts for pair in mine_document(document, config)]
    uses = Counter(text for pair in taken for text in pair)
    most = dict.fromkeys(document.texts, 2)
    if document.title:
        most[document.texts[0]] = 3
    assert all(uses[text] <= most[text] for text in uses)
    assert max(uses.values()) >= 2
    assert set(taken) <= every
    assert len(taken) == len(set(taken)) <= 2 * len(document.texts)
    for a, b in every - set(taken):
        assert uses[a] == most[a] or uses[b] == most[b]


def test_the_cap_of_a_document() -> None:
    texts = [f"{letter} government" for letter in ("aaaa", "bbbb", "cccc", "dddd")]
    assert len(mined(*texts)) == 6
    assert len(mined(*texts, config=replace(EVERY, pairs_per_text=1))) == 4


def test_title_pairs_come_first() -> None:
    texts = ("the government", *(f"government {'x' * n}" for n in range(9, 29)))
    taken = mine_document(Group("d", texts, title=True), LcsConfig())
    assert [pair.title for pair in taken][:4] == [True, True, True, False]


def test_what_a_document_gives_depends_on_it_and_the_seed_alone() -> None:
    documents = [random_document(random.Random(seed), 40) for seed in range(5)]
    config = LcsConfig()
    alone = mine_document(documents[3], config)
    together = [pair for pair in mine_pairs(documents) if pair.id == documents[3].id]
    assert alone == together
    assert alone != mine_document(documents[3], replace(config, seed=1))
    renamed = mine_document(replace(documents[3], id="other"), config)
    assert [pair.texts for pair in renamed] != [pair.texts for pair in alone]
