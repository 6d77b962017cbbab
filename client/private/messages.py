"""The bodies of a private round's messages, five stages, down and up: fixed layouts of bytes.

Whole numbers are big-endian and unsigned; codes alone are little-endian. beta is the binding's
digest, k its ``neighbours``, g its ``size``. A *bitmap* of n members has ceil(n / 8) bytes: member
j is bit j % 8 (1 is the least) of byte j // 8, and the bits beyond n are zero. Where a layout says
"neighbour", they come in ascending order of position, as in :attr:`Binding.ring`.

    stage 1  down  Announcement   federation 16 | X25519 public key 32 | mode 1 (0 off, 1 devices)
                                  | participations 4 | counted-on 4 | noise multiplier 8 (IEEE 754
                                  double) | season (ASCII, the rest)
             up    Ready          certificate 100 | ready mark 16
    stage 2  down  Invitation     position 4 | length of the binding 2 | binding | k certificates
             up    Boxes          beta 32 | position 4 | mask public key 32 | SHA-256 of the self
                                  seed 32 | for each neighbour a box of 112 | for each neighbour
                                  commitments of 32
    stage 3  down  Collection     beta 32 | bitmap of k: whose boxes follow | their boxes of 112
             up    Masked         beta 32 | position 4 | for each box a held mark of 16 | for each
                                  box a receipt of 32 | codes
    stage 4  down  Confirmation   beta 32 | bitmap of g: committed | bitmap of g: survivors | digest
                                  of both 32
             up    Confirmed      beta 32 | position 4 | for each box a confirm mark of 16
    stage 5  down  Unmasking      beta 32 | bitmap of k | their confirm marks of 16 | bitmap of k |
                                  their held marks of 16
             up    Shares         beta 32 | position 4 | for each of the k neighbours a kind 1 |
                                  share 32: 0 none (zeros), 1 of the self seed, 2 of the mask key

A box is ChaCha20-Poly1305 (RFC 8439) under the ``box`` key of the pair, nonce zero, of mask public
key 32 | share of the self seed 32 | share of the mask key 32. Its associated data is beta | the
sender's position 4 | the receiver's position 4: who holds a box agrees with its sender on the
places of both, and so on what a bitmap says of either. Commitments and receipts are those of
:mod:`pocketquery.client.private.commitments`.

Parsing is strict: the length is the one that follows from the layout, or nothing is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from typing import Self, get_args

from pocketquery.client.private.binding import Binding, NoiseMode, Privacy
from pocketquery.client.private.keys import (
    CERTIFICATE_BYTES,
    FEDERATION_BYTES,
    KEY_BYTES,
    MARK_BYTES,
    Certificate,
    check_agreement_key,
)
from pocketquery.client.private.layout import (
    bitmap_bytes,
    cut,
    equal_pieces,
    members_of,
    refuse,
    to_bitmap,
)
from pocketquery.client.private.sharing import SHARE_BYTES
from pocketquery.sdk.errors import PocketQueryError
from pocketquery.sdk.validation import check, whole

__all__ = [
    "BOX_BYTES",
    "Announcement",
    "CollectedBoxes",
    "Confirmation",
    "Invitation",
    "Stage",
    "Unmasking",
    "survivors_digest",
]

BOX_BYTES = KEY_BYTES + 2 * SHARE_BYTES + 16  # and the tag

_DIGEST = 32
_HEADER = struct.Struct(f">{FEDERATION_BYTES}s{KEY_BYTES}sBIId")
_MODES = get_args(NoiseMode)


class Stage(IntEnum):
    """The five exchanges of a round; goes with every body."""

    OFFER = 1
    INVITE = 2
    COLLECT = 3
    CONFIRM = 4
    UNMASK = 5


@dataclass(frozen=True)
class Announcement:
    """Stage 1, down, beside the offer: for whom the round is, and how private its sum will be.

    Attributes:
        federation: 16 bytes.
        key: X25519 public key of who announces it, 32 bytes: a device that is ready proves with it
            that it holds its own.
        privacy: ``counted_on`` is that of the smallest group the server would begin with.
    """

    federation: bytes
    key: bytes
    privacy: Privacy

    def to_bytes(self) -> bytes:
        """The body."""
        p = self.privacy
        head = _HEADER.pack(
            self.federation,
            self.key,
            _MODES.index(p.mode),
            p.participations,
            p.counted_on,
            p.noise_multiplier,
        )
        return head + p.season.encode("ascii")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The body's content.

        Raises:
            CorruptArtifactError: it is another's, or a value is out of range.
        """
        try:
            federation, key, mode, participations, counted_on, noise = _HEADER.unpack_from(data)
            check_agreement_key(key)
            check("noise mode", mode, whole(0, len(_MODES) - 1))
            season = data[_HEADER.size :].decode("ascii")
            privacy = Privacy(_MODES[mode], noise, counted_on, season, participations)
        except (struct.error, UnicodeDecodeError, PocketQueryError) as error:
            refuse("an announcement", f"{error!s:.200}")
        return cls(federation, key, privacy)


@dataclass(frozen=True)
class Invitation:
    """Stage 2, down.

    Attributes:
        position: of the device in its group.
        binding: what all of them agree on.
        certificates: of its neighbours.
    """

    position: int
    binding: Binding
    certificates: tuple[Certificate, ...]

    def to_bytes(self) -> bytes:
        """The body."""
        binding = self.binding.to_bytes()
        head = struct.pack(">IH", self.position, len(binding))
        return b"".join([head, binding, *(one.to_bytes() for one in self.certificates)])

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The body's content; certificates are not checked yet.

        Raises:
            CorruptArtifactError: it is another's, or the binding cannot be read.
        """
        source = "an invitation"
        head, rest = cut(data, source, 6, None)
        position, length = struct.unpack(">IH", head)
        text, rest = cut(rest, source, length, None)
        binding = Binding.parse(text)
        if position >= binding.size:
            refuse(source, f"position {position} in a group of {binding.size}")
        certificates = equal_pieces(rest, source, binding.neighbours, CERTIFICATE_BYTES)
        return cls(position, binding, tuple(Certificate.parse(one) for one in certificates))


@dataclass(frozen=True)
class CollectedBoxes:
    """Stage 3, down.

    Attributes:
        beta: the binding's digest.
        members: which of the receiver's neighbours are committed, as places in its list, from 0.
        boxes: theirs for the receiver.
    """

    beta: bytes
    members: tuple[int, ...]
    boxes: tuple[bytes, ...]

    def to_bytes(self, binding: Binding) -> bytes:
        """The body."""
        return b"".join([self.beta, to_bitmap(self.members, binding.neighbours), *self.boxes])

    @classmethod
    def parse(cls, data: bytes, binding: Binding) -> Self:
        """The body's content.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source = "a collection"
        beta, rest = cut(data, source, _DIGEST, None)
        members, boxes, rest = _marked(rest, source, binding.neighbours, BOX_BYTES)
        cut(rest, source)
        return cls(_of_round(beta, source, binding), members, boxes)


@dataclass(frozen=True)
class Confirmation:
    """Stage 4, down.

    Attributes:
        beta: the binding's digest.
        committed: positions whose boxes were dealt, U2.
        survivors: positions whose masked change came, U3.
        digest: :func:`survivors_digest` of the three.
    """

    beta: bytes
    committed: tuple[int, ...]
    survivors: tuple[int, ...]
    digest: bytes

    def to_bytes(self, binding: Binding) -> bytes:
        """The body."""
        bitmaps = (to_bitmap(one, binding.size) for one in (self.committed, self.survivors))
        return b"".join([self.beta, *bitmaps, self.digest])

    @classmethod
    def parse(cls, data: bytes, binding: Binding) -> Self:
        """The body's content; that the digest is the right one is not checked yet.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source, size = "a confirmation", bitmap_bytes(binding.size)
        beta, committed, survivors, digest = cut(data, source, _DIGEST, size, size, _DIGEST)
        return cls(
            _of_round(beta, source, binding),
            members_of(committed, source, binding.size),
            members_of(survivors, source, binding.size),
            digest,
        )


@dataclass(frozen=True)
class Unmasking:
    """Stage 5, down: the evidence on which a device reveals shares. Places are in its list of
    neighbours, from 0.

    Attributes:
        beta: the binding's digest.
        confirmers: places of those whose confirm marks follow.
        confirms: the marks.
        holders: places of those whose held marks follow.
        held: the marks.
    """

    beta: bytes
    confirmers: tuple[int, ...]
    confirms: tuple[bytes, ...]
    holders: tuple[int, ...]
    held: tuple[bytes, ...]

    def to_bytes(self, binding: Binding) -> bytes:
        """The body."""
        confirmers, holders = (
            to_bitmap(one, binding.neighbours) for one in (self.confirmers, self.holders)
        )
        return b"".join([self.beta, confirmers, *self.confirms, holders, *self.held])

    @classmethod
    def parse(cls, data: bytes, binding: Binding) -> Self:
        """The body's content.

        Raises:
            CorruptArtifactError: it is another's.
        """
        source, count = "an unmasking", binding.neighbours
        beta, rest = cut(data, source, _DIGEST, None)
        confirmers, confirms, rest = _marked(rest, source, count, MARK_BYTES)
        holders, held, rest = _marked(rest, source, count, MARK_BYTES)
        cut(rest, source)
        return cls(_of_round(beta, source, binding), confirmers, confirms, holders, held)


def survivors_digest(
    beta: bytes, committed: Iterable[int], survivors: Iterable[int], size: int
) -> bytes:
    """S, what is confirmed: SHA-256 of beta and the bitmaps of both over the group, 32 bytes."""
    return sha256(beta + to_bitmap(committed, size) + to_bitmap(survivors, size)).digest()


def _of_round(beta: bytes, source: str, binding: Binding) -> bytes:
    if beta != binding.digest:
        refuse(source, f"the binding {beta.hex()}, expected {binding.digest.hex()}")
    return beta


def _marked(
    data: bytes, source: str, size: int, item: int
) -> tuple[tuple[int, ...], tuple[bytes, ...], bytes]:
    """The members of a bitmap at the start of ``data``, an item for each, and the rest."""
    bitmap, rest = cut(data, source, bitmap_bytes(size), None)
    members = members_of(bitmap, source, size)
    items, rest = cut(rest, source, item * len(members), None)
    return members, equal_pieces(items, source, len(members), item), rest
