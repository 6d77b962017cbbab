"""The bodies that devices send in a private round: stages 1 to 5, up.

:mod:`pocketquery.client.private.messages` has their layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np

from pocketquery.client.private.binding import Binding
from pocketquery.client.private.commitments import COMMITMENTS_BYTES
from pocketquery.client.private.keys import (
    CERTIFICATE_BYTES,
    KEY_BYTES,
    MARK_BYTES,
    AgreementKey,
    Certificate,
    derive,
    is_mark,
    mark,
    ready_label,
)
from pocketquery.client.private.layout import cut, equal_pieces, refuse
from pocketquery.client.private.masks import RingCodes, word_type
from pocketquery.client.private.messages import BOX_BYTES
from pocketquery.client.private.sharing import SHARE_BYTES

__all__ = ["READY_BYTES", "Boxes", "Confirmed", "Kind", "Masked", "Ready", "Share", "Shares"]

READY_BYTES = CERTIFICATE_BYTES + MARK_BYTES

_DIGEST = 32
_POSITION = 4
_ROUND = 8


@dataclass(frozen=True)
class Ready:
    """Stage 1, up: the device has trained, and it is the one that its certificate is of.

    The certificate alone would not say that: neighbours of an earlier round have seen it.

    Attributes:
        certificate: the device's.
        proof: a mark, under what its key and the announced one agree on.
    """

    certificate: Certificate
    proof: bytes

    @classmethod
    def prove(
        cls,
        key: AgreementKey,
        certificate: Certificate,
        announced: bytes,
        federation: bytes,
        number: int,
    ) -> Self:
        """What the device says in one round.

        Args:
            key: its own.
            certificate: of this key.
            announced: public key of who announced the round, 32 bytes.
            federation: 16 bytes.
            number: of the round, below 2**64.

        Raises:
            InvalidInputError: ``announced`` is no key, or one of small order.
        """
        label = ready_label(federation, key.public, announced)
        secret = derive(key.agree(announced), label)
        return cls(certificate, mark(secret, _proven(certificate, number)))

    def is_proven(self, announcer: AgreementKey, federation: bytes, number: int) -> bool:
        """Whether who sent this holds the certified key, and meant this round.

        Args:
            announcer: the key whose public half was announced.
            federation: 16 bytes.
            number: of the round, below 2**64.

        Raises:
            InvalidInputError: the certified key is none; see
                :func:`~pocketquery.client.private.keys.check_certificate`.
        """
        device = self.certificate.key
        label = ready_label(federation, device, announcer.public)
        secret = derive(announcer.agree(device), label)
        return is_mark(secret, _proven(self.certificate, number), self.proof)

    def to_bytes(self) -> bytes:
        """The body, 116 bytes."""
        return self.certificate.to_bytes() + self.proof

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The body's content; neither certificate nor proof is checked yet.

        Raises:
            CorruptArtifactError: it has not 116 bytes.
        """
        certificate, proof = cut(data, "a ready device's reply", CERTIFICATE_BYTES, MARK_BYTES)
        return cls(Certificate.parse(certificate), proof)


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
        commitments: for each neighbour, to the shares in its box, 32 bytes.
    """

    beta: bytes
    position: int
    mask_public: bytes
    self_digest: bytes
    boxes: tuple[bytes, ...]
    commitments: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """The body."""
        head = _head(self.beta, self.position)
        dealt = (*self.boxes, *self.commitments)
        return b"".join([head, self.mask_public, self.self_digest, *dealt])

    @classmethod
    def parse(cls, data: bytes, binding: Binding) -> Self:
        """The body's content.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source, count = "a reply with boxes", binding.neighbours
        beta, position, rest = _headed(data, source, binding)
        public, digest, boxes, committed = cut(
            rest, source, KEY_BYTES, _DIGEST, BOX_BYTES * count, COMMITMENTS_BYTES * count
        )
        return cls(
            beta,
            position,
            public,
            digest,
            equal_pieces(boxes, source, count, BOX_BYTES),
            equal_pieces(committed, source, count, COMMITMENTS_BYTES),
        )


@dataclass(frozen=True)
class Masked:
    """Stage 3, up.

    Attributes:
        beta: the binding's digest.
        position: the sender's.
        held: for each box that it holds, its mark that it does, for the neighbour it is of.
        receipts: for each of these boxes, commitments to the shares that are in it, 32 bytes.
        codes: the masked change, uint16 or uint32 (d,).
    """

    beta: bytes
    position: int
    held: tuple[bytes, ...]
    receipts: tuple[bytes, ...]
    codes: RingCodes

    def to_bytes(self) -> bytes:
        """The body."""
        codes = self.codes.astype(self.codes.dtype.newbyteorder("<"), copy=False).tobytes()
        return b"".join([_head(self.beta, self.position), *self.held, *self.receipts, codes])

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
        held, receipts, codes = cut(
            rest,
            source,
            MARK_BYTES * boxes,
            COMMITMENTS_BYTES * boxes,
            encoding.size * encoding.bits // 8,
        )
        word = np.dtype(word_type(encoding.bits))
        values = np.frombuffer(codes, word.newbyteorder("<")).astype(word)
        return cls(
            beta,
            position,
            equal_pieces(held, source, boxes, MARK_BYTES),
            equal_pieces(receipts, source, boxes, COMMITMENTS_BYTES),
            values,
        )


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
        pieces = equal_pieces(rest, source, binding.neighbours, 1 + SHARE_BYTES)
        return cls(beta, position, tuple(_share(one, source) for one in pieces))


def _share(data: bytes, source: str) -> Share:
    kind, value = data[0], data[1:]
    if kind > Kind.MASK or (kind == Kind.NONE and any(value)):
        refuse(source, f"a share of kind {kind}")
    return Share(Kind(kind), value)


def _proven(certificate: Certificate, number: int) -> bytes:
    return number.to_bytes(_ROUND, "big") + certificate.to_bytes()


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
