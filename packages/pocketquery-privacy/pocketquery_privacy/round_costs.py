"""What a graph of neighbours costs and risks in one private round: bytes, and probabilities.

Bytes are counted on the messages' own code; what Flower puts around a body and around an offer was
counted once, on its serialised messages. Probabilities are tails of the hypergeometric law for one
device's neighbours, times the devices of a group (Bell et al., CCS 2020, section 3), for a ring in
random order: a server that deviates chooses the order, and then only the bound on its sums holds.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.commitments import COMMITMENTS_BYTES
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.keys import CERTIFICATE_BYTES, KEY_BYTES, MARK_BYTES
from pocketquery.client.private.masks import word_type
from pocketquery.client.private.messages import (
    BOX_BYTES,
    Announcement,
    CollectedBoxes,
    Confirmation,
    Invitation,
    Unmasking,
)
from pocketquery.client.private.replies import (
    READY_BYTES,
    Boxes,
    Confirmed,
    Kind,
    Masked,
    Share,
    Shares,
)
from pocketquery.sdk.validation import check, number

__all__ = ["bytes_down", "bytes_up", "overrun_risk", "unrecoverable_risk"]

_FRAME = 143  # Flower's, around one body
_OFFER = 891  # settings and Flower's frame, around a release
_HEX = hashlib.sha256(b"").hexdigest()


def bytes_down(
    release: int, group: int, neighbours: int, threshold: int, encoding: Encoding
) -> int:
    """Bytes to one device: a release, and the five stages with nobody missing."""
    binding = _binding(group, neighbours, threshold, encoding)
    every, mark = tuple(range(neighbours)), (bytes(MARK_BYTES),)
    members = tuple(range(group))
    confirmers = tuple(range(threshold))
    beta = binding.digest
    invitation = len(Invitation(0, binding, ()).to_bytes()) + CERTIFICATE_BYTES * neighbours
    bodies = (
        len(Announcement(binding.federation, bytes(KEY_BYTES), binding.privacy).to_bytes()),
        invitation,
        len(CollectedBoxes(beta, every, (bytes(BOX_BYTES),) * neighbours).to_bytes(binding)),
        len(Confirmation(beta, members, members, bytes(32)).to_bytes(binding)),
        len(
            Unmasking(beta, confirmers, mark * threshold, every, mark * neighbours).to_bytes(
                binding
            )
        ),
    )
    return release + _OFFER + sum(bodies) + (len(bodies) - 1) * _FRAME  # the first is in the offer


def bytes_up(group: int, neighbours: int, threshold: int, encoding: Encoding) -> int:
    """Bytes from one device, with nobody missing."""
    beta = _binding(group, neighbours, threshold, encoding).digest
    mark = (bytes(MARK_BYTES),) * neighbours
    boxes = (bytes(BOX_BYTES),) * neighbours
    committed = (bytes(COMMITMENTS_BYTES),) * neighbours
    receipts = (bytes(COMMITMENTS_BYTES),) * neighbours
    codes = np.zeros(encoding.size, word_type(encoding.bits))
    bodies = (
        bytes(READY_BYTES),
        Boxes(beta, 0, bytes(32), bytes(32), boxes, committed).to_bytes(),
        Masked(beta, 0, mark, receipts, codes).to_bytes(),
        Confirmed(beta, 0, mark).to_bytes(),
        Shares(beta, 0, (Share(Kind.SELF),) * neighbours).to_bytes(),
    )
    return sum(len(body) + _FRAME for body in bodies)


def overrun_risk(group: int, neighbours: int, threshold: int, share: float) -> float:
    """The probability, at most, that some device has more colluding neighbours than the threshold
    withstands, where ``share`` of the group collude.
    """
    return _tail(group, neighbours, 2 * threshold - neighbours - 1, share)


def unrecoverable_risk(group: int, neighbours: int, threshold: int, share: float) -> float:
    """The probability, at most, that some device's secret cannot be restored and the group is
    skipped, where ``share`` of the group vanish between dealing and unmasking.
    """
    return _tail(group, neighbours, neighbours - threshold, share)


def _tail(group: int, neighbours: int, above: int, share: float) -> float:
    check("share", share, number(0, 1))
    from scipy.stats import hypergeom  # slow to import

    law: Any = hypergeom(group - 1, min(round(share * group), group - 1), neighbours)
    return min(1.0, group * float(law.sf(above)))


def _binding(group: int, neighbours: int, threshold: int, encoding: Encoding) -> Binding:
    return Binding(
        federation=bytes(16),
        round=100,
        nonce=bytes(32),
        group=0,
        size=group,
        neighbours=neighbours,
        threshold=threshold,
        ring_seed=bytes(32),
        roster_sha256=_HEX,
        release_sha256=_HEX,
        settings_sha256=_HEX,
        encoding=encoding,
        privacy=Privacy("devices", 2.4, group, "2026-1", 1),
        expiry=1_800_000_000,
    )
