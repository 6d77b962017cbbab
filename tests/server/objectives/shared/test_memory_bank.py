"""The memory bank: first in, first out; a ring a language; whole in the checkpoint."""

from __future__ import annotations

import io

import pytest
import torch

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.objectives.shared.memory_bank import BankRows, MemoryBank


def numbered(start: int, count: int) -> BankRows:
    numbers = torch.arange(start, start + count)
    return BankRows(
        numbers.float().unsqueeze(1).repeat(1, 2), numbers, numbers + 100, numbers + 200
    )


def held(bank: MemoryBank, key: str) -> list[int]:
    return sorted(bank.read(key).documents.tolist())


def test_the_oldest_rows_leave_first_and_the_ring_wraps() -> None:
    bank = MemoryBank(5, 2)
    seen = []
    for start in range(0, 12, 3):
        bank.enqueue("fr", numbered(start, 3))
        seen.append(held(bank, "fr"))
    assert seen == [[0, 1, 2], [1, 2, 3, 4, 5], [4, 5, 6, 7, 8], [7, 8, 9, 10, 11]]


def test_columns_stay_together() -> None:
    bank = MemoryBank(4, 2)
    bank.enqueue("fr", numbered(0, 3))
    bank.enqueue("fr", numbered(3, 3))
    rows = bank.read("fr")
    assert torch.equal(rows.vectors[:, 0].long(), rows.documents)
    assert torch.equal(rows.positions, rows.documents + 100)
    assert torch.equal(rows.texts, rows.documents + 200)


def test_an_empty_or_partly_filled_bank_gives_its_filled_rows_only() -> None:
    bank = MemoryBank(8, 2)
    assert bank.read("fr").vectors.shape == (0, 2)
    assert bank.read("fr").documents.dtype == torch.int64
    bank.enqueue("fr", numbered(0, 3))
    assert bank.read("fr").vectors.shape == (3, 2)


def test_of_a_batch_larger_than_the_bank_the_newest_rows_stay() -> None:
    bank = MemoryBank(4, 2)
    bank.enqueue("fr", numbered(0, 3))
    bank.enqueue("fr", numbered(3, 11))
    assert held(bank, "fr") == [10, 11, 12, 13]
    bank.enqueue("fr", numbered(14, 1))
    assert held(bank, "fr") == [11, 12, 13, 14]  # the oldest left, not just any


def test_languages_do_not_see_each_other() -> None:
    bank = MemoryBank(4, 2)
    bank.enqueue("en", numbered(0, 3))
    bank.enqueue("fr", numbered(50, 9))
    assert held(bank, "en") == [0, 1, 2]
    assert held(bank, "") == []
    bank.enqueue("", numbered(7, 1))  # a corpus without languages has this one
    assert held(bank, "") == [7]
    assert held(bank, "en") == [0, 1, 2]


def test_what_it_holds_has_no_gradient_and_is_its_own() -> None:
    bank = MemoryBank(4, 2)
    vectors = torch.ones(2, 2, requires_grad=True)
    rows = numbered(0, 2)._replace(vectors=vectors * 2)
    bank.enqueue("fr", rows)
    with torch.no_grad():
        vectors.zero_()
    found = bank.read("fr").vectors
    assert not found.requires_grad
    assert torch.equal(found, torch.full((2, 2), 2.0))


def test_a_saved_bank_goes_on_as_if_nothing_had_happened() -> None:
    bank = MemoryBank(5, 2)
    bank.enqueue("en", numbered(0, 7))
    bank.enqueue("zho-CN", numbered(20, 2))
    file = io.BytesIO()
    torch.save(bank.state_dict(), file)
    file.seek(0)
    again = MemoryBank(5, 2)
    again.enqueue("xx", numbered(0, 1))  # a language the saved one never saw
    again.load_state_dict(torch.load(file, weights_only=True))
    assert held(again, "xx") == []
    for either in (bank, again):
        either.enqueue("en", numbered(30, 2))
    for key in ("en", "zho-CN"):
        for one, other in zip(bank.read(key), again.read(key), strict=True):
            assert torch.equal(one, other)


def test_a_state_of_another_size_is_refused() -> None:
    bank = MemoryBank(5, 2)
    bank.enqueue("en", numbered(0, 1))
    with pytest.raises(RuntimeError, match="size mismatch"):
        MemoryBank(6, 2).load_state_dict(bank.state_dict())


def test_a_language_that_cannot_name_a_tensor_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"en\.US"):
        MemoryBank(5, 2).enqueue("en.US", numbered(0, 1))
