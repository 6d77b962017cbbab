"""Vectors of earlier steps by language, as further negatives."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import torch
from torch import nn

from pocketquery.sdk.errors import InvalidInputError

__all__ = ["BankRows", "MemoryBank", "text_code"]

_PREFIX = "in_"  # a language's code may be empty, or the name of one of nn.Module's attributes


class BankRows(NamedTuple):
    """Vectors and where each comes from."""

    vectors: torch.Tensor
    """float32 (rows, dim), without gradient."""
    documents: torch.Tensor
    """int64 (rows,): code of the document."""
    positions: torch.Tensor
    """int64 (rows,): which of the document's sentences."""
    texts: torch.Tensor
    """int64 (rows,): code of the text itself, equal for equal texts."""

    def newest(self, count: int) -> BankRows:
        """The last ``count`` rows."""
        return BankRows(*(column[-count:] for column in self))


class _Ring(nn.Module):
    """One language's rows, the oldest overwritten first."""

    vectors: torch.Tensor
    documents: torch.Tensor
    positions: torch.Tensor
    texts: torch.Tensor
    written: torch.Tensor

    def __init__(self, size: int, dimension: int, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(size, dimension, device=device))
        for name in ("documents", "positions", "texts"):
            self.register_buffer(name, torch.zeros(size, dtype=torch.int64, device=device))
        self.register_buffer("written", torch.zeros((), dtype=torch.int64))  # in all, ever

    def columns(self) -> BankRows:
        return BankRows(self.vectors, self.documents, self.positions, self.texts)

    def filled(self) -> int:
        return min(int(self.written), len(self.vectors))


class MemoryBank(nn.Module):
    """A ring of vectors for every key (a language), part of the checkpoint.

    A ring comes into being with its first rows; loading a state makes the rings it holds.

    Args:
        size: rows a key.
        dimension: of the vectors.
    """

    _place: torch.Tensor

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        self.size, self.dimension = size, dimension
        self.rings = nn.ModuleDict()
        # Rings made later stand where the module was moved to.
        self.register_buffer("_place", torch.empty(0), persistent=False)
        self.register_load_state_dict_pre_hook(_make_rings)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def enqueue(self, key: str, rows: BankRows) -> None:
        """Put rows into the ring of ``key``, in order; of more than fit, the newest stay."""
        ring = self._ring(key)
        count, newest = len(rows.vectors), rows.newest(self.size)
        start = int(ring.written) + count - len(newest.vectors)
        places = (start + torch.arange(len(newest.vectors), device=self._place.device)) % self.size
        for column, values in zip(ring.columns(), newest, strict=True):
            column[places] = values.detach().to(column)
        ring.written += count

    def read(self, key: str) -> BankRows:
        """The rows there are for ``key``, in no order, valid until the next :meth:`enqueue`.

        None where nothing was put in: a partly filled ring gives its filled rows alone.
        """
        name = _PREFIX + key
        if name not in self.rings:
            ring = _Ring(0, self.dimension, self._place.device)
            return ring.columns()
        own_ring = self._ring(key)
        filled = own_ring.filled()
        return BankRows(*(column[:filled] for column in own_ring.columns()))

    def _ring(self, key: str) -> _Ring:
        name = _PREFIX + key
        if "." in key:
            raise InvalidInputError(f'the language is "{key}"; expected a code without a full stop')
        if name not in self.rings:
            self.rings[name] = _Ring(self.size, self.dimension, self._place.device)
        ring = self.rings[name]
        assert isinstance(ring, _Ring)
        return ring


def _make_rings(bank: nn.Module, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Before a state is loaded: exactly its rings, so that ``load_state_dict`` can be strict."""
    assert isinstance(bank, MemoryBank)
    bank.rings.clear()
    start = f"{prefix}rings.{_PREFIX}"
    for name in state:
        if name.startswith(start):
            bank._ring(name.removeprefix(start).split(".")[0])


def text_code(text: str) -> int:
    """A signed 64-bit code of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
