"""Pairs of questions: reading them, and splits that share no question."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from pocketquery.sdk.errors import CorpusError, InvalidInputError
from pocketquery_research.evaluation.duplicate_pairs import (
    DuplicatePair,
    DuplicateSplit,
    read_duplicate_pairs,
    split_duplicates,
)


def families(count: int = 100, seed: int = 0) -> list[DuplicatePair]:
    """Chains of three duplicates each, and pairs between families that are none."""
    rng = random.Random(seed)
    pairs = [
        DuplicatePair(f"{f}/{i}", f"{f}/{i + 1}", True) for f in range(count) for i in range(3)
    ]
    for _ in range(20 * count):
        first, second = rng.sample(range(2 * count), 2)  # half of them have no duplicate
        pairs.append(DuplicatePair(f"{first}/{rng.randrange(4)}", f"{second}/0", False))
    return pairs


def questions(pairs: tuple[DuplicatePair, ...]) -> set[str]:
    return {text for pair in pairs for text in (pair.first, pair.second)}


def check_shares(split: DuplicateSplit, duplicates: int) -> None:
    assert all(pair.duplicate for pair in split.train)
    assert len(split.train) == pytest.approx(0.8 * duplicates, rel=0.02)
    for part in (split.dev, split.test):
        assert sum(pair.duplicate for pair in part) * 2 == len(part)
    assert len(split.test) == pytest.approx(len(split.train) / 4, rel=0.15)


def test_no_question_is_in_two_parts_of_a_split_by_component() -> None:
    split = split_duplicates(families())
    check_shares(split, 300)
    train, dev, test = (questions(part) for part in (split.train, split.dev, split.test))
    assert not train & dev
    assert not train & test
    assert not dev & test
    whole = {text.partition("/")[0] for text in train}
    assert not whole & {p.first.partition("/")[0] for p in split.test if p.duplicate}


def test_a_random_split_deals_out_pairs() -> None:
    split = split_duplicates(families(), split="random")
    check_shares(split, 300)
    assert questions(split.train) & questions(split.test)
    assert not set(split.dev) & set(split.test)


@pytest.mark.parametrize("split", ["component", "random"])
def test_a_seed_gives_one_split(split: str) -> None:
    one, again, other = (split_duplicates(families(), split=split, seed=s) for s in (0, 0, 1))
    assert one == again
    assert one != other


def test_repeated_pairs_count_once() -> None:
    assert split_duplicates(families() * 2) == split_duplicates(families())


@pytest.mark.parametrize(
    ("pairs", "options", "message"),
    [
        (families(1)[:2], {}, "too few to split"),
        ([], {}, "too few to split"),
        (families(), {"split": "time"}, "one of component, random"),
        (families(), {"train_share": 1.0}, "above 0 to below 1"),
    ],
)
def test_what_cannot_be_split_is_refused(
    pairs: list[DuplicatePair], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        split_duplicates(pairs, **options)  # type: ignore[arg-type]


def test_pairs_are_read_from_plain_and_packed_files(tmp_path: Path) -> None:
    text = "id\tlabel\tquestion1\tquestion2\n7\t1\ta b?\tb a?\n8\t0\tc\td\n"
    (tmp_path / "plain.tsv").write_text(text)
    (tmp_path / "packed.tsv.gz").write_bytes(gzip.compress(text.encode()))
    expected = [DuplicatePair("a b?", "b a?", True), DuplicatePair("c", "d", False)]
    assert read_duplicate_pairs(tmp_path / "plain.tsv") == expected
    assert read_duplicate_pairs(tmp_path / "packed.tsv.gz") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected columns label"),
        ("question1\tquestion2\na\tb\n", "expected columns label"),
        ("label\tquestion1\tquestion2\n1\ta\n", "line 2: 2 columns; expected 3"),
        ("label\tquestion1\tquestion2\nyes\ta\tb\n", "'yes'; expected 0 or 1"),
    ],
)
def test_files_that_hold_no_pairs_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_duplicate_pairs(tmp_path / "pairs.tsv")
