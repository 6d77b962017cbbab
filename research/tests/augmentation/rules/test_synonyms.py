from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery_research.augmentation.rules.synonyms import Synonyms, read_synonyms
from tests.client.augmented_texts import ANYTHING, SEEDS, views

CAPITAL = Synonyms(
    {"Capital": ["metropolis", "seat"], "東京": ["首都"], "京": ["都"], "東京駅": ["終点"]},
    rate=1.0,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the capital?", {"the metropolis?", "the seat?"}),
        ("  (Capital)  x", {"  (Metropolis)  x", "  (Seat)  x"}),
        ("capitals", {"capitals"}),
        ("私は東京に", {"私は首都に"}),  # the longest entry counts
        ("東京駅に", {"終点に"}),
        ("京東", {"都東"}),
        ("東 京", {"東 都"}),
        ("?!", {"?!"}),
        ("", {""}),
    ],
)
def test_words_are_replaced_wherever_they_stand(text: str, found: set[str]) -> None:
    assert views(CAPITAL, text) == found


@given(ANYTHING, SEEDS)
def test_without_entries_for_it_a_text_stays(text: str, seed: int) -> None:
    assert Synonyms({"qqq": ["x"]}, rate=1.0).augment(text, random.Random(seed)).text == text


@given(ANYTHING, SEEDS)
def test_at_rate_zero_a_text_stays(text: str, seed: int) -> None:
    same = Synonyms({"a": ["x"], "東": ["x"]}, rate=0.0)
    assert not same.augment(text, random.Random(seed)).changed


def test_the_rate_is_the_share_of_the_words_found() -> None:
    half = Synonyms({"a": ["b"]}, rate=0.3).augment("a " * 10_000, random.Random(0)).text
    assert half.count("b") / 10_000 == pytest.approx(0.3, abs=0.02)


def test_a_table_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text(
        "# word, synonyms\n\ncar\tautomobile\t vehicle \ncar\tauto\n東京\t首都\n", "utf-8"
    )
    assert read_synonyms(file) == {"car": ("automobile", "vehicle", "auto"), "東京": ("首都",)}
    augmenter = Synonyms(path=file, rate=1.0)
    assert augmenter.requires == (str(file),)
    assert views(augmenter, "my Car") == {"my Automobile", "my Vehicle", "my Auto"}


def test_a_missing_file_is_told_and_not_made(tmp_path: Path) -> None:
    augmenter = Synonyms(path=tmp_path / "absent.tsv")
    usable, missing = augmenter.available()
    assert not usable
    assert "absent.tsv is missing" in missing
    with pytest.raises(CorpusError, match=r"absent\.tsv cannot be read"):
        augmenter.augment("car", random.Random(0))


@pytest.mark.parametrize("line", ["car", "car\t", "\tauto", "car\tauto\t \t"])
def test_a_line_without_synonyms_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "words.tsv"
    file.write_text(f"a\tb\n{line}\n", "utf-8")
    with pytest.raises(CorpusError, match=r"words\.tsv:2: found .* expected a word, a tab"):
        read_synonyms(file)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_bytes(b"car\t\xff\xfe\n")
    with pytest.raises(CorpusError, match="UTF-8"):
        read_synonyms(file)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="neither a table nor a path"):
        Synonyms()
    with pytest.raises(InvalidInputError, match="a table and a path"):
        Synonyms({"a": ["b"]}, tmp_path)
    with pytest.raises(InvalidInputError, match="'a' are 'bc', expected a list"):
        Synonyms({"a": "bc"})
    with pytest.raises(InvalidInputError, match="expected a list"):
        Synonyms({"a": [" "]})
    with pytest.raises(InvalidInputError, match="rate"):
        Synonyms({"a": ["b"]}, rate=2)
