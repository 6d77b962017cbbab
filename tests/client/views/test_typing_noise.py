from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.views.typing_noise import mistype
from pocketquery.sdk.errors import InvalidInputError

anything = st.text(st.characters(), max_size=40)
rates = st.floats(0, 1)
seeds = st.integers(0, 2**32)
SENTENCES = [
    "What is the capital of France?",
    "как приготовить борщ",
    "हिन्दी में कैसे लिखें",
    "한국어 검색 엔진",
    "日本語の検索",
    "كيف حالك يا صديقي",
    "שלום עולם",
    "Πού είναι η βιβλιοθήκη;",
]


def others(text: str) -> str:
    """What is left of ``text`` without letters and the marks that belong to them."""
    kept, after_letter = "", False
    for character in text:
        mark = unicodedata.category(character)[0] == "M"
        after_letter = character.isalpha() or (after_letter and mark)
        kept += "" if after_letter else character
    return kept


@given(anything, seeds)
def test_rate_zero_is_the_identity(text: str, seed: int) -> None:
    assert mistype(text, 0, random.Random(seed)) == text


@given(anything, rates, seeds)
def test_equal_generators_give_equal_text(text: str, rate: float, seed: int) -> None:
    first = mistype(text, rate, random.Random(seed))
    assert first == mistype(text, rate, random.Random(seed))


@given(anything, rates, seeds)
def test_only_letters_and_their_marks_are_touched(text: str, rate: float, seed: int) -> None:
    assert others(mistype(text, rate, random.Random(seed))) == others(text)


@given(anything.filter(str.strip), rates, seeds)
def test_something_is_always_left(text: str, rate: float, seed: int) -> None:
    assert mistype(text, rate, random.Random(seed)).strip()


@given(st.text(max_size=40), seeds)
def test_the_result_can_be_written_as_utf8(text: str, seed: int) -> None:
    mistype(text, 0.5, random.Random(seed)).encode("utf-8")


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_script_is_mistyped_and_keeps_its_script(sentence: str) -> None:
    scripts = {unicodedata.name(letter).split()[0] for letter in sentence if letter.isalpha()}
    results = {mistype(sentence, 0.3, random.Random(seed)) for seed in range(20)}
    assert len(results) > 15
    for result in results:
        assert {unicodedata.name(c).split()[0] for c in result if c.isalpha()} <= scripts


def test_the_rate_is_the_share_of_mistyped_letters() -> None:
    rng = random.Random(0)
    # Letters stand alone, so each slip shows in one word: drop, double or neighbour, never a swap.
    words = mistype("a " * 20_000, 0.08, rng).split(" ")
    assert sum(word != "a" for word in words[:-1]) / 20_000 == pytest.approx(0.08, abs=0.006)


def test_the_four_slips_occur_in_equal_shares() -> None:
    results = [mistype("ab", 0.5, random.Random(seed)) for seed in range(20_000)]
    first_only = [r for r in results if r.endswith("b") or r == "ba"]
    dropped = first_only.count("b")
    doubled = first_only.count("aab")
    swapped = first_only.count("ba")
    replaced = sum(r in {"qb", "wb", "sb", "zb"} for r in first_only)
    for count in (dropped, doubled, replaced):
        assert count / 20_000 == pytest.approx(0.5 * 0.25 * 0.5, abs=0.01)
    assert swapped / 20_000 == pytest.approx(0.5 * 0.25, abs=0.01)


def test_case_is_kept_by_a_replacement() -> None:
    results = {mistype("G", 1.0, random.Random(seed)) for seed in range(200)}
    assert results == {"G", "GG", "F", "H", "T", "Y", "V", "B"}


def test_combining_marks_stay_with_a_letter() -> None:
    text = unicodedata.normalize("NFD", "éàü")
    for seed in range(200):
        result = mistype(text, 0.7, random.Random(seed))
        for mark, before in zip(result[1:], result, strict=False):
            assert not (unicodedata.combining(mark) and before in " \n")
        assert not unicodedata.combining(result[0])


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_that_is_no_share_is_refused(rate: float) -> None:
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        mistype("text", rate, random.Random(0))


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="bytes"):
        mistype(b"text", 0.1, random.Random(0))  # type: ignore[arg-type]
