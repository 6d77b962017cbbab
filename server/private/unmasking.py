"""The end of a private round: secrets are restored from shares, and the masks taken off the sum.

Of each survivor the self seed is restored, of each device that is gone its mask key of the round;
both are known by what the device published of them when it dealt its shares. Who lied is named by
what the commitments to shares prove (client/private/commitments.py), and by nothing else. A share
that is proven wrong is left out; every other one counts, no matter who revealed it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.commitments import commitment
from pocketquery.client.private.encoding import largest_total, totals
from pocketquery.client.private.keys import AgreementKey, derive, mask_label, self_label
from pocketquery.client.private.masks import RingCodes, add_masks
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.noise import sigma
from pocketquery.client.private.replies import Boxes, Kind
from pocketquery.client.private.sharing import join, join_despite
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.private.coordinator import SecureReason, SecureSum, Skipped

__all__ = ["Unmasked", "can_unmask", "norm_limit", "unmask"]

_NORM_SLACK = 1.1
_TAIL = 6.5  # standard deviations


@dataclass(frozen=True)
class Unmasked:
    """The sum of a group.

    Attributes:
        totals: int64 (d,), in steps of the binding's encoding.
        survivors: whose changes are in it, by position.
        blamed: positions of devices that are proven to have revealed or dealt a wrong share.
    """

    totals: NDArray[np.int64]
    survivors: tuple[int, ...]
    blamed: tuple[int, ...]


def can_unmask(group: SecureSum) -> bool:
    """Whether of every committed device t shares were revealed, so that :func:`unmask` may be
    tried. Where a share turns out wrong, more may help.
    """
    return group.stage is Stage.UNMASK and all(
        sum(1 for _ in _shares_of(group, one)) >= group.binding.threshold for one in group.committed
    )


def unmask(group: SecureSum) -> Unmasked | Skipped:
    """The sum behind the masked changes, or why there is none.

    The total is exact. It is refused where it is beyond what honest devices can sum to, each value
    and the norm of the mean. Where devices add noise, it is the noised total that is looked at, and
    there is no other: a refusal says no more of a change than the total does.

    Args:
        group: in stage UNMASK.
    """
    revealed = {one: _Revealed.of(group, one) for one in group.committed}
    blamed = {liar for one in revealed.values() for liar in one.liars}
    secrets: dict[int, bytes] = {}
    missing: dict[int, int] = {}
    for owner, shares in revealed.items():
        secret, is_proven = _restored(group, owner, shares)
        if is_proven:
            blamed.add(owner)
        if secret is None:
            missing[owner] = shares.count
        else:
            secrets[owner] = secret
    named = tuple(sorted(blamed))
    if missing:
        return _without_secrets(group, missing, named)
    group_totals = totals(_without_masks(group, secrets), group.binding.encoding)
    return _out_of_bounds(group, group_totals, named) or Unmasked(
        group_totals, group.survivors, named
    )


def norm_limit(group: SecureSum) -> float:
    """The norm that the mean of a group may have: a little over the clipping norm, and what
    rounding and noise add. Gaussian noise passes it once in 10**9 groups.
    """
    binding, count = group.binding, len(group.survivors)
    encoding = binding.encoding
    deviation = encoding.step * math.hypot(0.5, _deviation(group)) / math.sqrt(count)
    return _NORM_SLACK * encoding.clip + (math.sqrt(encoding.size) + _TAIL) * deviation


@dataclass
class _Revealed:
    """What was revealed of one device's secret, of the kind that is wanted, by x.

    Attributes:
        committed: shares that have the hash to which dealer and receipt agree.
        disputed: shares of neighbours whose receipts say other than the dealer does.
        liars: positions of who revealed another share than their receipts say.
    """

    committed: dict[int, bytes] = field(default_factory=dict)
    disputed: dict[int, bytes] = field(default_factory=dict)
    liars: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Of shares that may be right."""
        return len(self.committed) + len(self.disputed)

    @classmethod
    def of(cls, group: SecureSum, owner: int) -> _Revealed:
        """Those of ``owner``'s secret."""
        revealed, beta, dealt = cls(), group.binding.digest, group.dealt[owner].commitments
        part: Literal["self", "mask"] = "self" if owner in group.held else "mask"
        for x, neighbour, share in _shares_of(group, owner):
            digest = commitment(part, beta, owner, neighbour, share)
            half = len(digest)
            if (neighbour, owner) in group.disputes:
                revealed.disputed[x] = share
            elif digest == (dealt[x - 1][:half] if part == "self" else dealt[x - 1][half:]):
                revealed.committed[x] = share
            else:
                revealed.liars.append(neighbour)
        return revealed


def _shares_of(group: SecureSum, owner: int) -> Iterator[tuple[int, int, bytes]]:
    """What was revealed of ``owner``, of the kind that is wanted: x, who by, and the share."""
    kind = Kind.SELF if owner in group.held else Kind.MASK
    for x, neighbour in enumerate(group.binding.ring[owner], start=1):
        if neighbour in group.shares:
            share = group.shares[neighbour].shares[group.binding.place(neighbour, owner) - 1]
            if share.kind is kind:
                yield x, neighbour, share.value


def _restored(group: SecureSum, owner: int, revealed: _Revealed) -> tuple[bytes | None, bool]:
    """The secret of ``owner``, None where its shares do not give it; and whether that is proven to
    be its own lie: of those that it committed to, t do not."""
    t, dealt, is_self = group.binding.threshold, group.dealt[owner], owner in group.held
    has_enough = len(revealed.committed) >= t
    if has_enough and _fits(secret := _joined(revealed.committed, t), dealt, is_self):
        return secret, False
    for shares in (revealed.committed, revealed.committed | revealed.disputed):
        secret = join_despite(shares, t) or b""
        if _fits(secret, dealt, is_self):
            return secret, has_enough
    return None, has_enough


def _without_secrets(
    group: SecureSum, missing: Mapping[int, int], named: tuple[int, ...]
) -> Skipped:
    t = group.binding.threshold
    few = [owner for owner, count in missing.items() if count < t]
    if len(few) == len(missing) and not named:
        return Skipped(
            SecureReason.BELOW_THRESHOLD,
            f"of {len(few)} devices fewer than {t} shares were revealed",
        )
    owner = min(missing)
    proven = f"{list(named)} are proven to have lied" if named else "nobody is proven to have lied"
    return Skipped(
        SecureReason.BAD_SHARE,
        f"the shares of position {owner} do not give its secret, {missing[owner]} that may be "
        f"right, with {t} needed; {proven}, {len(group.disputes)} pairs contradict each other",
        named,
    )


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


def _out_of_bounds(
    group: SecureSum, totals_: NDArray[np.int64], named: tuple[int, ...]
) -> Skipped | None:
    encoding, count = group.binding.encoding, len(group.survivors)
    most = largest_total(encoding, count, _deviation(group))
    peak = int(np.abs(totals_).max(initial=0))
    if peak > most:
        return Skipped(
            SecureReason.SUM_OUT_OF_RANGE, f"a total is {peak} steps, at most {most} can be", named
        )
    norm = math.sqrt(float(np.square(totals_.astype(np.float64)).sum())) * encoding.step / count
    if norm > (limit := norm_limit(group)):
        return Skipped(
            SecureReason.SUM_NORM,
            f"the mean has norm {norm:g}, at most {limit:g} is expected",
            named,
        )
    return None


def _deviation(group: SecureSum) -> float:
    """Of one device's noise, in steps."""
    privacy = group.binding.privacy
    if privacy.mode == "off":
        return 0.0
    return sigma(privacy.noise_multiplier, group.binding.encoding, privacy.counted_on)
