"""Commitments to shares: either a wrong share is proven to be its dealer's, or nobody is named.

A dealer tells the server, with its boxes, a hash of either share that it dealt each neighbour. A
neighbour that opens its box answers, with its masked change, by a *receipt*: the same two hashes,
as it computes them from the shares that it holds. Where both say the same, both are bound:

- A share that is revealed and does not have the hash is a lie of who revealed it.
- A share that has it is the one that was dealt. Where t of these do not give the secret whose hash
  or public key the dealer published, the dealer lied.

Where they say different things one of them lies, and nothing proves which. A share that such a
neighbour reveals is evidence of nothing: nobody is blamed for it. So no dealer can have an honest
neighbour blamed, for an honest neighbour reveals what has the hash of its receipt. Nor can a
neighbour have an honest dealer blamed: it would need a second share with the hash of the first.

A commitment hides its share without a salt. A share is uniform among nearly 2**256 values, also for
somebody who knows the t - 1 shares that a secret withstands. A hash of such a value helps only
somebody who guesses the value (SHA-256 taken as a random function). All shares together give their
dealer's secret, of which a hash or a public key is known to the server anyway.

Sixteen bytes bind, for what counts is a second share with the hash of a given one: 2**128 hashes. A
dealer that looks for any two with one hash, 2**64, has only itself blamed by whoever reveals the
other. Hashes name the round's binding, both places and what is shared, so none is of use elsewhere.

They are not signed. A device has a key to agree and none to sign, and the server knows who is at
the other end of a connection by the proof of the round's first stage. Behind a gateway that is the
gateway's word: what is proven against a device there is proven against the device or its gateway.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

from pocketquery.client.private.keys import PROTOCOL

__all__ = ["COMMITMENTS_BYTES", "commitment", "commitments"]

COMMITMENTS_BYTES = 32
"""To the two shares of one neighbour."""

_LABEL = PROTOCOL.encode() + b" share "


def commitment(
    part: Literal["self", "mask"], beta: bytes, dealer: int, neighbour: int, share: bytes
) -> bytes:
    """The hash of one share, 16 bytes.

    Args:
        part: whether it is of the self seed or of the mask key.
        beta: the binding's digest, 32 bytes.
        dealer, neighbour: positions.
        share: 32 bytes.
    """
    places = dealer.to_bytes(4, "big") + neighbour.to_bytes(4, "big")
    data = _LABEL + part.encode() + b" " + beta + places + share
    return sha256(data).digest()[: COMMITMENTS_BYTES // 2]


def commitments(
    beta: bytes, dealer: int, neighbour: int, self_share: bytes, mask_share: bytes
) -> bytes:
    """Those to both shares of one neighbour, first of the self seed: 32 bytes. A receipt is the
    same. Arguments as for :func:`commitment`."""
    return commitment("self", beta, dealer, neighbour, self_share) + commitment(
        "mask", beta, dealer, neighbour, mask_share
    )
