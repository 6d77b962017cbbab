"""What a device computes in stages 2 to 5 of a private round: pure functions of keys and messages.

That a round keeps the device's rules is asked elsewhere, before (participant.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from pocketquery.client.private.binding import Binding
from pocketquery.client.private.commitments import commitments
from pocketquery.client.private.encoding import encode
from pocketquery.client.private.keys import (
    KEY_BYTES,
    AgreementKey,
    RoundSecret,
    box_label,
    confirm_label,
    derive,
    held_label,
    is_mark,
    mark,
    mask_label,
    self_label,
)
from pocketquery.client.private.layout import cut
from pocketquery.client.private.masks import add_masks
from pocketquery.client.private.messages import CollectedBoxes, Unmasking, survivors_digest
from pocketquery.client.private.noise import Table, draw, sigma
from pocketquery.client.private.replies import Boxes, Confirmed, Kind, Masked, Share, Shares
from pocketquery.client.private.sharing import SHARE_BYTES, split
from pocketquery.sdk.errors import CorruptArtifactError

__all__ = [
    "Held",
    "Opened",
    "Seat",
    "confirm",
    "count_confirms",
    "deal",
    "holders",
    "mask",
    "open_boxes",
    "reveal",
]

_NONCE = bytes(12)  # each box key encrypts one box


@dataclass(frozen=True)
class Seat:
    """A device's place in a group.

    Attributes:
        key: its own.
        binding: of the round.
        position: its own.
        keys: device keys of its neighbours, in the order of ``binding.ring[position]``.
    """

    key: AgreementKey
    binding: Binding
    position: int
    keys: Sequence[bytes]

    @property
    def neighbours(self) -> tuple[int, ...]:
        """Their positions."""
        return self.binding.ring[self.position]

    def key_of(self, neighbour: int) -> bytes:
        """The device key of a neighbour by its position."""
        return self.keys[self.neighbours.index(neighbour)]

    def agreed(self, neighbour: int) -> bytes:
        """What both device keys agree on; worked out once, it is most of a stage's time."""
        if neighbour not in self._agreed:
            self._agreed[neighbour] = self.key.agree(self.key_of(neighbour))
        return self._agreed[neighbour]

    @cached_property
    def _agreed(self) -> dict[int, bytes]:
        return {}


@dataclass(frozen=True)
class Held:
    """A neighbour whose box was opened, and the shares that were in it; revealed, one of the two
    leaves the device.

    Attributes:
        position: the neighbour's.
        self_share, mask_share: of its self seed and of its mask key, 32 bytes each.
    """

    position: int
    self_share: bytes
    mask_share: bytes


@dataclass(frozen=True)
class Opened:
    """What was in a neighbour's box: its public mask key of the round, and what is to be held."""

    mask_public: bytes
    held: Held


def deal(seat: Seat, secret: RoundSecret) -> Boxes:
    """Stage 2: the device's secrets of the round, shared out among its neighbours in boxes, and
    commitments to the shares."""
    beta, threshold, count = seat.binding.digest, seat.binding.threshold, len(seat.keys)
    own, seed = secret.mask_key(beta), secret.self_seed(beta)
    parts: dict[Literal["self", "mask"], bytes] = {"self": seed, "mask": own.private}
    shares = [
        split(
            value,
            threshold,
            [secret.coefficient(beta, part, index) for index in range(1, threshold)],
            count,
        )
        for part, value in parts.items()
    ]
    boxes, committed = [], []
    for place, neighbour in enumerate(seat.neighbours):
        sealed = ChaCha20Poly1305(_key(seat, box_label, neighbour))
        content = own.public + shares[0][place] + shares[1][place]
        committed.append(
            commitments(beta, seat.position, neighbour, shares[0][place], shares[1][place])
        )
        boxes.append(sealed.encrypt(_NONCE, content, _places(beta, seat.position, neighbour)))
    digest = sha256(seed).digest()
    return Boxes(beta, seat.position, own.public, digest, tuple(boxes), tuple(committed))


def open_boxes(seat: Seat, collection: CollectedBoxes) -> list[Opened]:
    """Stage 3: what the committed neighbours dealt this device.

    Raises:
        CorruptArtifactError: a box is not by this neighbour for this device, round and positions.
    """
    beta, opened = seat.binding.digest, []
    for place, box in zip(collection.members, collection.boxes, strict=True):
        neighbour = seat.neighbours[place]
        sealed = ChaCha20Poly1305(_key(seat, box_label, neighbour, sent=False))
        try:
            content = sealed.decrypt(_NONCE, box, _places(beta, neighbour, seat.position))
        except InvalidTag:
            raise CorruptArtifactError(
                f"the box of the neighbour at position {neighbour} is not one that it dealt this "
                "device in this round"
            ) from None
        public, self_share, mask_share = cut(content, "a box", KEY_BYTES, SHARE_BYTES, SHARE_BYTES)
        opened.append(Opened(public, Held(neighbour, self_share, mask_share)))
    return opened


def mask(
    seat: Seat, secret: RoundSecret, opened: Sequence[Opened], change: NDArray[np.float32]
) -> Masked:
    """Stage 3: the change as codes, with noise where the binding says so, under all masks. Each
    neighbour whose mask is in it gets a mark of that, and a receipt of its shares.

    Raises:
        InvalidInputError: a public mask key is none, or the change is not finite.
    """
    binding, beta = seat.binding, seat.binding.digest
    encoding, privacy = binding.encoding, binding.privacy
    own = secret.mask_key(beta)
    pairs = {
        one.held.position: derive(own.agree(one.mask_public), mask_label(beta)) for one in opened
    }
    noise = None
    if privacy.mode == "devices":
        deviation = sigma(privacy.noise_multiplier, encoding, privacy.counted_on)
        noise = draw(Table.of(deviation), secret.noise_stream(beta), encoding.size)
    codes = encode(change, encoding, secret.coins(beta), noise)
    self_key = derive(secret.self_seed(beta), self_label(beta))
    held = [one.held for one in opened]
    return Masked(
        beta,
        seat.position,
        tuple(mark(_key(seat, held_label, one.position), beta) for one in held),
        tuple(
            commitments(beta, one.position, seat.position, one.self_share, one.mask_share)
            for one in held
        ),
        add_masks(codes, seat.position, self_key, pairs),
    )


def confirm(
    seat: Seat, held: Sequence[Held], committed: Sequence[int], survivors: Sequence[int]
) -> Confirmed:
    """Stage 4: for each neighbour whose box is held, a mark on the survivors that were seen."""
    digest = survivors_digest(seat.binding.digest, committed, survivors, seat.binding.size)
    marks = (mark(_key(seat, confirm_label, one.position), digest) for one in held)
    return Confirmed(seat.binding.digest, seat.position, tuple(marks))


def count_confirms(
    seat: Seat,
    held: Sequence[Held],
    committed: Sequence[int],
    survivors: Sequence[int],
    unmasking: Unmasking,
) -> int:
    """How many neighbours whose boxes are held marked the survivors that this device confirmed."""
    digest = survivors_digest(seat.binding.digest, committed, survivors, seat.binding.size)
    known = {one.position for one in held}
    marks = zip(unmasking.confirmers, unmasking.confirms, strict=True)
    received = ((seat.neighbours[place], value) for place, value in marks)
    return sum(
        neighbour in known
        and is_mark(_key(seat, confirm_label, neighbour, sent=False), digest, value)
        for neighbour, value in received
    )


def holders(seat: Seat, unmasking: Unmasking) -> set[int]:
    """The neighbours whose held mark names this device: its mask is in their change."""
    beta = seat.binding.digest
    marks = zip(
        (seat.neighbours[place] for place in unmasking.holders), unmasking.held, strict=True
    )
    return {
        neighbour
        for neighbour, value in marks
        if is_mark(_key(seat, held_label, neighbour, sent=False), beta, value)
    }


def reveal(
    seat: Seat, held: Sequence[Held], survivors: Container[int], named: Container[int]
) -> Shares:
    """Stage 5: of each neighbour one share: of its self seed where it survived and is one of
    ``named``, of its mask key where it is gone. Of no neighbour there are both.
    """
    shares = {}
    for one in held:
        if one.position not in survivors:
            shares[one.position] = Share(Kind.MASK, one.mask_share)
        elif one.position in named:
            shares[one.position] = Share(Kind.SELF, one.self_share)
    nothing = Share(Kind.NONE)
    revealed = tuple(shares.get(one, nothing) for one in seat.neighbours)
    return Shares(seat.binding.digest, seat.position, revealed)


def _key(
    seat: Seat, label: Callable[[bytes, bytes, bytes], bytes], neighbour: int, *, sent: bool = True
) -> bytes:
    """The key of what this device sends a neighbour, or gets from it, under a label."""
    own, other = seat.key.public, seat.key_of(neighbour)
    sender, receiver = (own, other) if sent else (other, own)
    return derive(seat.agreed(neighbour), label(seat.binding.digest, sender, receiver))


def _places(beta: bytes, sender: int, receiver: int) -> bytes:
    """What a box is bound to: a server that told the two other positions than each other cannot
    have it opened.
    """
    return beta + sender.to_bytes(4, "big") + receiver.to_bytes(4, "big")
