"""The end of a private round: secrets are restored from shares, and the masks taken off the sum.

Of each survivor the self seed is restored, of each device that is gone its mask key of the round;
both are known by what the device published of them when it dealt its shares. A share that does not
fit is named, not guessed: whoever revealed it, or dealt it, lied.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.secure.encoding import largest_total, totals
from pocketquery.client.secure.keys import AgreementKey, derive, mask_label, self_label
from pocketquery.client.secure.masks import RingCodes, add_masks
from pocketquery.client.secure.messages import Stage
from pocketquery.client.secure.noise import sigma
from pocketquery.client.secure.replies import Boxes, Kind
from pocketquery.client.secure.sharing import join
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.secure.coordinator import SecureReason, SecureSum, Skipped

__all__ = ["Unmasked", "can_unmask", "norm_limit", "unmask"]

_TRIES = 400  # combinations of shares, where some are wrong
_NORM_SLACK = 1.1
_TAIL = 6.5  # standard deviations


@dataclass(frozen=True)
class Unmasked:
    """The sum of a group.

    Attributes:
        totals: int64 (d,), in steps of the binding's encoding.
        survivors: whose changes are in it, by position.
        blamed: positions of devices that revealed a share that does not fit.
    """

    totals: NDArray[np.int64]
    survivors: tuple[int, ...]
    blamed: tuple[int, ...]


def can_unmask(group: SecureSum) -> bool:
    """Whether of every committed device t shares were revealed, so that :func:`unmask` may be
    tried. Where a share turns out wrong, more may help.
    """
    return group.stage is Stage.UNMASK and all(
        len(_shares_of(group, one)) >= group.binding.threshold for one in group.committed
    )


def unmask(group: SecureSum) -> Unmasked | Skipped:
    """The sum behind the masked changes, or why there is none.

    The total is exact. It is refused where it is beyond what honest devices can sum to, each value
    and the norm of the mean.

    Args:
        group: in stage UNMASK.
    """
    binding, t = group.binding, group.binding.threshold
    short = [one for one in group.committed if len(_shares_of(group, one)) < t]
    if short:
        return Skipped(
            SecureReason.BELOW_THRESHOLD,
            f"of {len(short)} devices fewer than {t} shares were revealed",
        )
    blamed: set[int] = set()
    secrets: dict[int, bytes] = {}
    for owner in group.committed:
        found = _restored(group, owner, blamed)
        if found is None:
            return Skipped(
                SecureReason.BAD_SHARE,
                f"the shares of position {owner} do not give its secret; wrong shares came from "
                f"{sorted(blamed)}, or {owner} dealt them wrong",
                (*sorted(blamed), owner),
            )
        secrets[owner] = found
    codes = _without_masks(group, secrets)
    found_totals = totals(codes, binding.encoding)
    return _out_of_bounds(group, found_totals) or Unmasked(
        found_totals, group.survivors, tuple(sorted(blamed))
    )


def norm_limit(group: SecureSum) -> float:
    """The norm that the mean of a group may have: a little over the clipping norm, and what
    rounding and noise add. Gaussian noise passes it once in 10**9 groups.
    """
    binding, count = group.binding, len(group.survivors)
    encoding = binding.encoding
    deviation = encoding.step * math.hypot(0.5, _deviation(group)) / math.sqrt(count)
    return _NORM_SLACK * encoding.clip + (math.sqrt(encoding.size) + _TAIL) * deviation


def _shares_of(group: SecureSum, owner: int) -> dict[int, tuple[int, bytes]]:
    """What was revealed of ``owner``, of the kind that is wanted: by x, who by and the share."""
    wanted = Kind.SELF if owner in group.held else Kind.MASK
    found = {}
    for place, neighbour in enumerate(group.binding.ring[owner], start=1):
        if neighbour in group.shares:
            share = group.shares[neighbour].shares[group.binding.place(neighbour, owner) - 1]
            if share.kind is wanted:
                found[place] = (neighbour, share.value)
    return found


def _restored(group: SecureSum, owner: int, blamed: set[int]) -> bytes | None:
    """The secret of ``owner``, or None where no t shares give it; adds to ``blamed`` whose shares
    do not fit where one of the first t does not.
    """
    t, dealt = group.binding.threshold, group.dealt[owner]
    is_self = owner in group.held
    shares = {
        x: value
        for x, (neighbour, value) in _shares_of(group, owner).items()
        if neighbour not in blamed
    }
    if len(shares) < t:
        return None
    first = _joined(dict(list(shares.items())[:t]), t)
    if _fits(first, dealt, is_self):
        return first
    good = _good_shares(shares, t, dealt, is_self, seed=group.binding.digest + bytes([owner % 256]))
    if good is None:
        return None
    secret = _joined(good, t)
    near = group.binding.ring[owner]
    for x in shares.keys() - good.keys():
        others = dict(
            list(good.items())[1:]
        )  # with one of the good replaced, it must give the same
        if _joined(others | {x: shares[x]}, t) != secret:
            blamed.add(near[x - 1])
    return secret


def _good_shares(
    shares: Mapping[int, bytes], t: int, dealt: Boxes, is_self: bool, seed: bytes
) -> dict[int, bytes] | None:
    """t shares that give what ``dealt`` is known by; None where none were found."""
    rng = random.Random(seed)
    places = sorted(shares)
    if len(places) == t:
        return None
    for _ in range(_TRIES):
        chosen = {x: shares[x] for x in rng.sample(places, t)}
        if _fits(_joined(chosen, t), dealt, is_self):
            return chosen
    return None


def _joined(shares: Mapping[int, bytes], t: int) -> bytes:
    """What shares give; nothing where one of them is out of the field."""
    try:
        return join(shares, t)
    except InvalidInputError:
        return b""


def _fits(secret: bytes, dealt: Boxes, is_self: bool) -> bool:
    if not secret:
        return False
    if is_self:
        return sha256(secret).digest() == dealt.self_digest
    return AgreementKey(secret).public == dealt.mask_public


def _without_masks(group: SecureSum, secrets: Mapping[int, bytes]) -> RingCodes:
    beta, codes = group.binding.digest, group.total
    alive = set(group.survivors)
    for owner in group.committed:
        if owner in alive:
            key = derive(secrets[owner], self_label(beta))
            codes = add_masks(codes, owner, key, {}, sign=-1)
            continue
        # What its neighbours added for the masks they share with it, it would have taken away.
        gone = AgreementKey(secrets[owner])
        keys = {
            one: derive(gone.agree(group.dealt[one].mask_public), mask_label(beta))
            for one in group.near(owner, alive)
        }
        codes = add_masks(codes, owner, b"", keys)
    return codes


def _out_of_bounds(group: SecureSum, found: NDArray[np.int64]) -> Skipped | None:
    encoding, count = group.binding.encoding, len(group.survivors)
    most = largest_total(encoding, count, _deviation(group))
    peak = int(np.abs(found).max(initial=0))
    if peak > most:
        return Skipped(
            SecureReason.SUM_OUT_OF_RANGE, f"a total is {peak} steps, at most {most} can be"
        )
    norm = math.sqrt(float(np.square(found.astype(np.float64)).sum())) * encoding.step / count
    if norm > (limit := norm_limit(group)):
        return Skipped(
            SecureReason.SUM_NORM, f"the mean has norm {norm:g}, at most {limit:g} is expected"
        )
    return None


def _deviation(group: SecureSum) -> float:
    """Of one device's noise, in steps."""
    privacy = group.binding.privacy
    if privacy.mode == "off":
        return 0.0
    return sigma(privacy.noise_multiplier, group.binding.encoding, privacy.counted_on)
