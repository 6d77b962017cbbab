"""A private round as values: devices that are ready, groups they are dealt to, and their sums.

Everything random comes from a :class:`RandomSource`, everything timed from the caller; tables.py
keeps the values, stages.py carries the messages.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pocketquery.client.offer import Offer
from pocketquery.client.private.binding import Binding, Privacy, roster_digest, settings_digest
from pocketquery.client.private.encoding import Encoding, choose_encoding
from pocketquery.client.private.keys import KEY_BYTES, AgreementKey, Certificate
from pocketquery.client.private.messages import Announcement, Stage
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.private.coordinator import SecureReason, SecureSum, Skipped
from pocketquery.server.private.readiness import certified, proven
from pocketquery.server.private.settings import SecureSettings

__all__ = [
    "STAGES_LEFT",
    "Environment",
    "SumGroup",
    "SecureRound",
    "SeededSource",
    "RandomSource",
    "SystemSource",
    "announcement",
    "begin",
    "close_stage",
    "deal",
    "planned_encoding",
    "privacy_of",
    "ready",
    "receive",
]

STAGES_LEFT = 8.0  # times the deadline of one: four, and the last extended, and to spare
_NAMES = {Stage.INVITE: "committed", Stage.COLLECT: "survivors", Stage.CONFIRM: "confirmed"}
_COUNT_NAMES = {"committed": "committed", "survivors": "survivors", "confirmed": "confirms"}


class RandomSource(Protocol):
    """Where the server's random bytes come from."""

    def draw(self, purpose: str, count: int) -> bytes:
        """``count`` random bytes."""


class SystemSource:
    """The operating system's."""

    def draw(self, purpose: str, count: int) -> bytes:
        """``count`` bytes that nobody can foresee."""
        return os.urandom(count)


@dataclass(frozen=True)
class SeededSource:
    """A simulation's: the same purpose gives the same bytes.

    Attributes:
        seed: decides all of them.
    """

    seed: int

    def draw(self, purpose: str, count: int) -> bytes:
        """``count`` bytes, the same for the same purpose and seed."""
        key = f"{self.seed}".encode()
        blocks = (
            hmac.digest(key, f"{purpose}\n{number}".encode(), hashlib.sha256)
            for number in range(math.ceil(count / 32))
        )
        return b"".join(blocks)[:count]


@dataclass(frozen=True)
class Environment:
    """What a private round depends on besides its messages; a simulation gives its own.

    Attributes:
        source: of random bytes.
        wall: Unix seconds, as devices read them too.
    """

    source: RandomSource = field(default_factory=SystemSource)
    wall: Callable[[], float] = time.time


@dataclass(frozen=True)
class SumGroup:
    """Devices whose changes become one sum.

    Attributes:
        nodes: the members that they are, by position.
        sum: what is known of it.
    """

    nodes: tuple[int, ...]
    sum: SecureSum


@dataclass(frozen=True)
class SecureRound:
    """A private round; immutable.

    Attributes:
        settings: how it is run.
        private: of the X25519 key that the server announces, 32 bytes.
        ready: certificates of devices that trained, by member, in the order
            they came; none any more once they are dealt to groups.
        groups: those that a sum is still awaited of, by number, all in the same stage.
        declined, failed: how many devices were not ready, counted as the first stage ends.
        stages: how many devices came how far, counted as stages end: ``ready``, ``committed`` (to
            boxes), ``survivors`` (whose masked change came), ``confirmed`` and ``revealed``.
        finished: whether nothing is awaited any more.
    """

    settings: SecureSettings
    private: bytes = field(repr=False)
    ready: Mapping[int, Certificate] = field(default_factory=dict)
    groups: Mapping[int, SumGroup] = field(default_factory=dict)
    declined: int = 0
    failed: int = 0
    stages: Mapping[str, int] = field(default_factory=dict)
    finished: bool = False

    @property
    def key(self) -> AgreementKey:
        """The one that devices are told, and prove with that they hold theirs."""
        return AgreementKey(self.private)

    @property
    def stage(self) -> Stage:
        """The one that replies are taken of."""
        if not self.groups:
            return Stage.OFFER
        return next(iter(self.groups.values())).sum.stage

    def to_dict(self) -> dict[str, Any]:
        """Settings and counts as JSON values; devices and groups have tables of their own."""
        counts = {name: getattr(self, name) for name in ("declined", "failed", "finished")}
        named = {"settings": self.settings.to_dict(), "private": self.private.hex()}
        return {**counts, **named, "stages": dict(self.stages)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SecureRound:
        """The round that :meth:`to_dict` described, without devices and groups."""
        read = {
            "settings": SecureSettings.from_dict(values["settings"]),
            "private": bytes.fromhex(values["private"]),
        }
        return cls(**{**values, **read})


def begin(settings: SecureSettings, number: int, source: RandomSource) -> SecureRound:
    """The round ``number`` before anybody was asked."""
    return SecureRound(settings, source.draw(f"round {number} ready", KEY_BYTES))


def announcement(settings: SecureSettings, key: bytes) -> Announcement:
    """What devices are told with the offer.

    Args:
        settings: of the round.
        key: the public one, 32 bytes, of who looks at their proofs: the server, or a gateway.
    """
    return Announcement(settings.federation_id, key, privacy_of(settings, settings.least))


def ready(
    secure: SecureRound, node: int, body: bytes, number: int, now: float, *, vouched: bool = False
) -> tuple[SecureRound, SecureReason | None]:
    """``secure`` after a device said that it has trained, or why that does not count.

    Args:
        secure: the round, in its first stage; it stays as it is.
        node: the device, as a member.
        body: bytes from it, a :class:`~pocketquery.client.private.replies.Ready`.
        number: of the round.
        now: Unix seconds.
        vouched: whether a gateway has seen the device's proof; ``body`` is its certificate alone.
    """
    settings = secure.settings
    if vouched:
        certificate = certified(body, settings, now)
    else:
        certificate = proven(body, secure.key, settings, number, now)
    if isinstance(certificate, SecureReason):
        return secure, certificate
    known = {one.key for one in secure.ready.values()}
    if node in secure.ready or certificate.key in known:
        return secure, SecureReason.DUPLICATE
    return replace(secure, ready={**secure.ready, node: certificate}), None


def deal(secure: SecureRound, offer: Offer, size: int, surroundings: Environment) -> SecureRound:
    """The round with its devices dealt to groups, by a permutation that no device can foresee.

    Args:
        secure: the round, in its first stage; at least ``least`` devices are ready.
        offer: what they trained on.
        size: values of a change.
        surroundings: of the permutation, the rings, the nonce and the expiry.

    Raises:
        InvalidInputError: no encoding fits so many devices and such noise.
    """
    settings, source = secure.settings, surroundings.source
    purpose = f"round {offer.round} "
    # By its key: where a device is reached decides nothing of what it masks.
    ranks = {
        node: source.draw(f"{purpose}place of {one.key.hex()}", 32)
        for node, one in secure.ready.items()
    }
    ranked = sorted(secure.ready, key=lambda node: ranks[node])
    count = min(settings.groups, len(ranked) // settings.least)
    cuts = [len(ranked) * number // count for number in range(count + 1)]
    nonce = source.draw(purpose + "nonce", 32)
    expiry = math.ceil(surroundings.wall() + STAGES_LEFT * settings.stage_deadline)
    groups = {}
    for number in range(count):
        nodes = tuple(ranked[cuts[number] : cuts[number + 1]])
        certificates = tuple(secure.ready[node] for node in nodes)
        neighbours = min(len(nodes) - 1, settings.neighbours)
        binding = Binding(
            federation=settings.federation_id,
            round=offer.round,
            nonce=nonce,
            group=number,
            size=len(nodes),
            neighbours=neighbours,
            threshold=3 * neighbours // 5 + 1,
            ring_seed=source.draw(f"{purpose}ring {number}", 32),
            roster_sha256=roster_digest(tuple(one.key for one in certificates)),
            release_sha256=sha256_bytes(offer.release),
            settings_sha256=settings_digest(offer.config),
            encoding=planned_encoding(settings, offer, size, len(nodes)),
            privacy=privacy_of(settings, len(nodes)),
            expiry=expiry,
        )
        least = settings.least_survivors(len(nodes))
        groups[number] = SumGroup(nodes, SecureSum.begin(binding, certificates, least))
    stages = {"ready": len(ranked)}
    return replace(secure, ready={}, groups=groups, stages=stages)


def receive(
    secure: SecureRound, node: int, stage: int, body: bytes
) -> tuple[SecureRound, SecureReason | None]:
    """``secure`` after a reply in one of the stages that follow, or why it does not count.

    Args:
        secure: the round; it stays as it is.
        node: the member that was asked.
        stage: that the reply says it answers.
        body: bytes from it.
    """
    if stage not in Stage.__members__.values():
        return secure, SecureReason.MALFORMED
    for number, group in secure.groups.items():
        if node in group.nodes:
            position = group.nodes.index(node)
            after, reason = group.sum.receive(Stage(stage), position, body)
            groups = {**secure.groups, number: replace(group, sum=after)}
            return replace(secure, groups=groups), reason
    return secure, SecureReason.TOO_LATE


def close_stage(secure: SecureRound) -> tuple[SecureRound, dict[int, Skipped]]:
    """The round in its next stage, and the groups that ended here, by number.

    Args:
        secure: in a stage from INVITE to CONFIRM; who has not replied is gone.
    """
    groups, skipped = {}, {}
    for number, group in secure.groups.items():
        after = group.sum.close()
        if isinstance(after, Skipped):
            skipped[number] = after
        else:
            groups[number] = replace(group, sum=after)
    sums = [group.sum for group in groups.values()]
    name = _NAMES[secure.stage]
    counts = {name: sum(len(getattr(one, _COUNT_NAMES[name])) for one in sums)}
    return replace(secure, groups=groups, stages={**secure.stages, **counts}), skipped


def planned_encoding(settings: SecureSettings, offer: Offer, size: int, group: int) -> Encoding:
    """How the changes of ``group`` devices would become codes.

    Raises:
        InvalidInputError: none fits them.
    """
    return choose_encoding(
        size,
        group,
        offer.clip_norm,
        settings.largest_value(offer.config),
        settings.noise_multiplier if settings.is_noisy else 0.0,
        settings.counted_on(group),
    )


def privacy_of(settings: SecureSettings, group: int) -> Privacy:
    """The noise of a round, as a group of so many devices is told of it."""
    if not settings.is_noisy:
        return Privacy()
    return Privacy(
        mode=settings.privacy,
        noise_multiplier=settings.noise_multiplier,
        counted_on=settings.counted_on(group),
        season=settings.season,
        participations=settings.participations,
    )
