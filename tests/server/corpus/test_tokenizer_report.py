from __future__ import annotations

from pocketquery.server.corpus import Group, GroupList
from pocketquery.server.corpus.tokenizer_report import LanguageReport, report_tokenizer
from tests.tiny_models import wordpiece_tokenizer

GROUPS = [
    Group("1", ("castle of the", "zzzz ñ"), lang="en"),
    Group("2", ("geology " * 70,), lang="en"),
    Group("3", ("日本 x",), lang="ja"),
    Group("4", (), lang="none"),
]


def test_by_hand() -> None:
    """Pieces: 3; z and three ##z; n, as accents are folded; 70. Of Japanese: two unknown and x."""
    english, japanese, none = report_tokenizer(
        wordpiece_tokenizer(), GroupList(GROUPS, "documents"), max_length=64
    )
    assert english == LanguageReport("en", 3, 75, True, 3 + 5 + 70, 0, 0, 1)
    assert japanese == LanguageReport("ja", 1, 3, False, 3, 2, 0, 0)
    assert none == LanguageReport("none", 0, 0, True, 0, 0, 0, 0)
    assert english.pieces_per_word == 78 / 75
    assert english.truncated_share == 1 / 3
    assert japanese.unknown_rate == 2 / 3
    assert none.pieces_per_word == none.unknown_rate == none.truncated_share == 0


def test_the_sample_is_bounded_and_the_length_counts_specials() -> None:
    source = GroupList([Group(str(i), ("the of",) * 3) for i in range(9)], "documents")
    (sampled,) = report_tokenizer(wordpiece_tokenizer(), source, max_length=4, most_texts=7)
    assert (sampled.texts, sampled.truncated) == (7, 0)
    (cut,) = report_tokenizer(wordpiece_tokenizer(), source, max_length=3, most_texts=7)
    assert cut.truncated == 7


def test_unevenness_is_of_languages_that_write_spaces() -> None:
    reports = [
        LanguageReport("a", 1, 10, True, 10, 0, 0, 0),
        LanguageReport("b", 1, 10, True, 30, 0, 0, 0),
        LanguageReport("c", 1, 10, False, 90, 0, 9, 0),
        LanguageReport("d", 0, 0, True, 0, 0, 0, 0),
    ]
    assert reports[2].byte_rate == 0.1
