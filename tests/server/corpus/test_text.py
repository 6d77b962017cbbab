from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.server.corpus import split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith went to the U.S. in 1990.", "He met J. Doe (see Fig. 3)."],
        ['"Really?" she said.', "Yes!", "It rose by 3.5 percent, i.e. a lot.", "No. 5 is alive."],
        ["He said “stop.”", "Nobody did…", "Wait... what?", "Ok"],
        ["Er kam z.B. gestern.", "Über alles."],
        ["Это было в 1990 г. в Москве.", "Потом они уехали."],
        ["यह एक वाक्य है।", "दूसरा वाक्य॥", "तीसरा"],
        ["هل هذا سؤال؟", "نعم.", "هذا جواب."],
        ["یہ ایک جملہ ہے۔", "یہ دوسرا ہے۔"],
    ],
)
def test_sentences_with_blanks_between(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences


def test_sentences_without_blanks_between() -> None:
    sentences = ["今日は良い天気です。", "「行こう。」", "え？！", "そう。", "3.5倍だ"]
    assert split_sentences("".join(sentences)) == sentences


def test_a_blank_line_ends_a_sentence_and_a_line_break_does_not() -> None:
    assert split_sentences("A heading\n\nThe text\ngoes on\n \n end") == [
        "A heading",
        "The text\ngoes on",
        "end",
    ]


@given(st.text() | st.text("aA.!?。\n \"'」1", max_size=60))
def test_nothing_but_white_space_is_lost(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize("unit", [".", " ", "\n", "。", '"', "a\n", "A. ", ". ", "\n "])
def test_a_million_characters_of_one_kind_are_cut_too(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))  # quadratic in these: an hour, not seconds
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
