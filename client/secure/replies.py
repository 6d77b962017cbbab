"""The bodies that devices send in a private round: stages 2 to 5, up. Their layouts stand in
:mod:`pocketquery.client.secure.messages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np

from pocketquery.client.secure.binding import Binding
from pocketquery.client.secure.keys import KEY_BYTES, MARK_BYTES
from pocketquery.client.secure.layout import cut, equal_pieces, refuse
from pocketquery.client.secure.masks import RingCodes, word_type
from pocketquery.client.secure.messages import BOX_BYTES
from pocketquery.client.secure.sharing import SHARE_BYTES

__all__ = ["Boxes", "Confirmed", "Kind", "Masked", "Share", "Shares"]

_DIGEST = 32
_POSITION = 4


@dataclass(frozen=True)
class Boxes:
    """Stage 2, up.

    Attributes:
        beta: the binding's digest.
        position: the sender's.
        mask_public: the public half of its mask key of this round. The server tells a restored
            mask key by it; neighbours take the one in their box.
        self_digest: SHA-256 of the self seed, 32 uniform bytes: the same for the self seed.
        boxes: for each neighbour.
    """

    beta: bytes
    position: int
    mask_public: bytes
    self_digest: bytes
    boxes: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """The body."""
        head = _head(self.beta, self.position)
        return b"".join([head, self.mask_public, self.self_digest, *self.boxes])

    @classmethod
    def parse(cls, data: bytes, binding: Binding) -> Self:
        """The body's content.

        Raises:
            CorruptArtifactError: it is another's.
        """
        beta, position, rest = _headed(data, "a reply with boxes", binding)
        public, digest, boxes = cut(rest, "a reply with boxes", KEY_BYTES, _DIGEST, None)
        found = equal_pieces(boxes, "a reply with boxes", binding.neighbours, BOX_BYTES)
        return cls(beta, position, public, digest, found)


@dataclass(frozen=True)
class Masked:
    """Stage 3, up.

    Attributes:
        beta: the binding's digest.
        position: the sender's.
        held: for each box that it holds, its mark that it does, for the neighbour it is of.
        codes: the masked change, uint16 or uint32 (d,).
    """

    beta: bytes
    position: int
    held: tuple[bytes, ...]
    codes: RingCodes

    def to_bytes(self) -> bytes:
        """The body."""
        codes = self.codes.astype(self.codes.dtype.newbyteorder("<"), copy=False).tobytes()
        return b"".join([_head(self.beta, self.position), *self.held, codes])

    @classmethod
    def parse(cls, data: bytes, binding: Binding, boxes: int) -> Self:
        """The body's content.

        Args:
            data: from anywhere.
            binding: of the round.
            boxes: how many the sender was given.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source = "a masked change"
        beta, position, rest = _headed(data, source, binding)
        encoding = binding.encoding
        held, codes = cut(rest, source, MARK_BYTES * boxes, encoding.size * encoding.bits // 8)
        word = np.dtype(word_type(encoding.bits))
        values = np.frombuffer(codes, word.newbyteorder("<")).astype(word)
        return cls(beta, position, equal_pieces(held, source, boxes, MARK_BYTES), values)


@dataclass(frozen=True)
class Confirmed:
    """Stage 4, up.

    Attributes:
        beta: the binding's digest.
        position: the sender's.
        marks: for each box that it holds, its mark of what it confirmed, for that neighbour.
    """

    beta: bytes
    position: int
    marks: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """The body."""
        return b"".join([_head(self.beta, self.position), *self.marks])

    @classmethod
    def parse(cls, data: bytes, binding: Binding, boxes: int) -> Self:
        """The body's content; ``boxes`` as in :meth:`Masked.parse`.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source = "a reply that confirms"
        beta, position, rest = _headed(data, source, binding)
        return cls(beta, position, equal_pieces(rest, source, boxes, MARK_BYTES))


class Kind(IntEnum):
    """What a revealed share is of."""

    NONE = 0
    SELF = 1
    MASK = 2


@dataclass(frozen=True)
class Share:
    """A share that is revealed of one neighbour's secrets; 32 bytes, zeros where there is none."""

    kind: Kind
    value: bytes = bytes(SHARE_BYTES)


@dataclass(frozen=True)
class Shares:
    """Stage 5, up.

    Attributes:
        beta: the binding's digest.
        position: the sender's.
        shares: of each neighbour's.
    """

    beta: bytes
    position: int
    shares: tuple[Share, ...]

    def to_bytes(self) -> bytes:
        """The body."""
        shares = (bytes([one.kind]) + one.value for one in self.shares)
        return b"".join([_head(self.beta, self.position), *shares])

    @classmethod
    def parse(cls, data: bytes, binding: Binding) -> Self:
        """The body's content.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source = "a reply with shares"
        beta, position, rest = _headed(data, source, binding)
        found = equal_pieces(rest, source, binding.neighbours, 1 + SHARE_BYTES)
        return cls(beta, position, tuple(_share(one, source) for one in found))


def _share(data: bytes, source: str) -> Share:
    kind, value = data[0], data[1:]
    if kind > Kind.MASK or (kind == Kind.NONE and any(value)):
        refuse(source, f"a share of kind {kind}")
    return Share(Kind(kind), value)


def _head(beta: bytes, position: int) -> bytes:
    return beta + position.to_bytes(_POSITION, "big")


def _headed(data: bytes, source: str, binding: Binding) -> tuple[bytes, int, bytes]:
    """beta, position and the rest of a reply."""
    beta, place, rest = cut(data, source, _DIGEST, _POSITION, None)
    position = int.from_bytes(place, "big")
    if position >= binding.size:
        refuse(source, f"position {position} in a group of {binding.size}")
    if beta != binding.digest:
        refuse(source, f"the binding {beta.hex()}, expected {binding.digest.hex()}")
    return beta, position, rest
