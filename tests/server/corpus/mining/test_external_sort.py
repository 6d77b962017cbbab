from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.corpus.mining.external_sort import (
    shuffled_lines,
    sorted_lines,
    unique_shuffled_lines,
)

SMALL = 2000  # bytes: some twenty lines a run


def lines(count: int) -> Iterator[bytes]:
    return (
        b"line %d %s" % (number * 7919 % count, b"x" * (number % 40)) for number in range(count)
    )


@pytest.mark.parametrize("memory", [SMALL, 1 << 20])
@pytest.mark.parametrize("count", [0, 1, 20, 300, 5000])
def test_sorted(count: int, memory: int, tmp_path: Path) -> None:
    found = list(sorted_lines(lines(count), tmp_path / "out", memory=memory))
    assert found == sorted(lines(count))
    assert list(tmp_path.iterdir()) == []


def test_any_bytes_but_line_feeds(tmp_path: Path) -> None:
    odd = [b"", b"\r", b"\0", b"", b"\xff\xfe", b"a\r"]
    assert list(sorted_lines(odd, tmp_path / "out", memory=70)) == sorted(odd)
    with pytest.raises(InvalidInputError, match="line feed"):
        list(sorted_lines([b"a\nb"], tmp_path / "out"))


def test_a_shuffle_keeps_every_line_as_often_as_it_came(tmp_path: Path) -> None:
    given = [*lines(400), *lines(100)]
    orders = [list(shuffled_lines(given, seed, tmp_path / "out", memory=SMALL)) for seed in (0, 1)]
    again = list(shuffled_lines(given, 0, tmp_path / "out", memory=1 << 20))
    assert all(Counter(order) == Counter(given) for order in orders)
    assert orders[0] != orders[1]
    assert orders[0] == again  # whatever the memory
    assert orders[0] != given


def test_unique_lines_in_an_order_that_the_seed_and_the_lines_give(tmp_path: Path) -> None:
    given = [(b"%d" % (number % 50), b"%d of %d" % (number, number % 50)) for number in range(400)]
    orders = [
        list(unique_shuffled_lines(lines, seed, tmp_path / "out", memory=SMALL))
        for lines, seed in ((given, 0), (given[::-1], 0), (given, 1))
    ]
    assert all(
        sorted(int(line.split()[-1]) for line in order) == list(range(50)) for order in orders
    )
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("kind", ["shuffled", "unique"])
def test_every_position_is_equally_likely(kind: str, tmp_path: Path) -> None:
    given = [b"a", b"b", b"c", b"d", b"e"]
    seen = np.zeros((5, 5))
    seeds = 2000
    for seed in range(seeds):
        if kind == "shuffled":
            order = list(shuffled_lines(given, seed, tmp_path / "out"))
        else:
            order = list(
                unique_shuffled_lines(zip(given, given, strict=True), seed, tmp_path / "o")
            )
        for position, line in enumerate(order):
            seen[given.index(line), position] += 1
    chi_square = ((seen - seeds / 5) ** 2 / (seeds / 5)).sum()
    assert chi_square < 39.3  # 16 degrees of freedom: exceeded once in a thousand


def test_neighbours_of_one_run_do_not_stay_together(tmp_path: Path) -> None:
    given = [b"%04d" % number for number in range(2000)]
    order = [int(line) for line in shuffled_lines(given, 0, tmp_path / "out", memory=SMALL)]
    near = np.mean(np.abs(np.diff(order)) < 20)  # of one run: 20 of 2,000 by chance, twice
    assert near < 0.04


@pytest.mark.slow
def test_memory_is_bounded_by_the_chunk(tmp_path: Path) -> None:
    memory = 1 << 20
    peaks = []
    for count in (40_000, 120_000):  # 3 and 9 MB
        tracemalloc.start()
        found = sum(1 for _ in shuffled_lines(lines(count), 0, tmp_path / "out", memory=memory))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found == count
    assert max(peaks) < 2 * memory
    assert peaks[1] < 1.5 * peaks[0]


def test_more_runs_than_can_be_open_at_once(tmp_path: Path) -> None:
    given = [b"%05d" % (number * 7919 % 10_000) for number in range(10_000)]
    assert list(sorted_lines(given, tmp_path / "out", memory=1500)) == sorted(given)


def test_what_was_left_undone_leaves_nothing(tmp_path: Path) -> None:
    order = sorted_lines(lines(400), tmp_path / "deep" / "out", memory=SMALL)
    next(order)
    assert len(list((tmp_path / "deep").glob(".out.????????.tmp"))) == 1
    order.close()  # type: ignore[attr-defined]
    assert list((tmp_path / "deep").iterdir()) == []
