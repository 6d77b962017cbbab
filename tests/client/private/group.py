"""A group of devices in memory: real participants, whose changes are drawn instead of trained."""

from __future__ import annotations

import contextlib
import hashlib
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.device import Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.binding import Binding, Privacy, roster_digest, settings_digest
from pocketquery.client.private.encoding import Encoding, encode, totals
from pocketquery.client.private.keys import (
    AgreementKey,
    Certificate,
    RoundSecret,
    sign_certificate,
)
from pocketquery.client.private.ledger import LEDGER, Ledger
from pocketquery.client.private.messages import Announcement, Stage
from pocketquery.client.private.noise import Table, draw, sigma
from pocketquery.client.private.participant import Participant
from pocketquery.client.private.replies import Ready
from pocketquery.client.private.rules import DeviceRules
from pocketquery.client.private.state_file import SecureState, StateFile
from pocketquery.client.store.file import SECURE
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.private.coordinator import SecureSum, Skipped

NOW = 1_800_000_000.0
FEDERATION = bytes(range(16))
AUTHORITY = bytes(range(32))
PUBLIC = public_key_of(AUTHORITY)
ANNOUNCER = AgreementKey(bytes(range(32, 64)))
OFFER = Offer(round=7, release=b"a release", clip_norm=1.0)
SMALL = DeviceRules(least=3, least_noisy=3, neighbours=16, privacy="any")
WIDE = Encoding(size=24, bits=32, exponent=14, range=0.5, clip=1.0)
NARROW = Encoding(size=24, bits=16, exponent=8, range=0.5, clip=1.0)


def drawn(*words: object) -> bytes:
    """32 bytes that only look random."""
    return hashlib.sha256(repr(words).encode()).digest()


@dataclass
class Synthetic:
    """A trainer that trains nothing: its change is given."""

    change: Mapping[str, NDArray[np.float32]]
    epoch: str = "first"
    trained: int = 0
    gone: str | None = None

    def train(self, offer: Offer) -> Synthetic | Declined:
        """The change, or why there is none."""
        self.trained += 1
        return Declined(self.gone) if self.gone else self

    def forgotten(self, epoch: str) -> str | None:
        """Why it may not be used."""
        return self.gone or (None if epoch == self.epoch else "the user erased queries")


@dataclass
class Member:
    """One device of a group."""

    trainer: Synthetic
    key: AgreementKey
    certificate: Certificate
    rules: DeviceRules
    folder: Path | None
    secret: Callable[[bytes], bytes]
    now: list[float] = field(default_factory=lambda: [NOW])
    file: StateFile = field(init=False)
    ledger: Ledger = field(init=False)
    participant: Participant = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """As a new process would open it."""
        folder = self.folder
        if folder is not None or not hasattr(self, "file"):
            self.file = StateFile(None if folder is None else folder / SECURE)
            self.ledger = Ledger(None if folder is None else folder / LEDGER)
        self.participant = Participant(
            self.trainer,
            self.key,
            self.certificate,
            PUBLIC,
            rules=self.rules,
            state=self.file,
            ledger=self.ledger,
            clock=lambda: self.now[0],
            draw_secret=self.secret,
        )

    def back_to(self, state: SecureState) -> None:
        """As it stood in ``state``, with an empty ledger."""
        self.ledger = Ledger()
        self.restart()
        self.file.keep(state)


def member(
    number: int,
    seed: int = 0,
    *,
    size: int = 24,
    rules: DeviceRules = SMALL,
    folder: Path | None = None,
    expiry: int = int(NOW) + 90 * 86_400,
) -> Member:
    """The device ``number`` of a fleet that ``seed`` decides."""
    rng = np.random.default_rng([seed, number])
    change = {
        name: np.float32(0.2) * rng.normal(size=count).astype(np.float32)
        for name, count in (("b", size - size // 3), ("a", size // 3))
    }
    key = AgreementKey(drawn("device", seed, number))
    certificate = sign_certificate(AUTHORITY, FEDERATION, key.public, expiry)
    secret = lambda beta: drawn("secret", seed, number, beta)  # noqa: E731
    return Member(Synthetic(change), key, certificate, rules, folder, secret)


@contextlib.contextmanager
def full_disk(limit: int = 0) -> Iterator[None]:
    """No file can grow beyond ``limit`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def declined(found: bytes | Declined) -> str:
    """Why a device declined, which it did."""
    assert isinstance(found, Declined), "it answered"
    return found.reason


def announce(privacy: Privacy | None = None) -> bytes:
    """The body of the first stage."""
    return Announcement(FEDERATION, ANNOUNCER.public, privacy or Privacy()).to_bytes()


def is_ready(one: Member, found: bytes | Declined, number: int = OFFER.round) -> bool:
    """Whether ``found`` says that this device is ready for the announced round."""
    assert isinstance(found, bytes), found
    said = Ready.parse(found)
    proven = said.is_proven(ANNOUNCER, FEDERATION, number)
    return proven and said.certificate == one.certificate


def binding_of(
    members: Iterable[Member],
    degree: int,
    threshold: int,
    *,
    seed: int = 0,
    offer: Offer = OFFER,
    encoding: Encoding = WIDE,
    privacy: Privacy | None = None,
    expiry: int = int(NOW) + 3600,
    nonce: bytes | None = None,
) -> Binding:
    """The binding of a group in this order."""
    keys = [one.key.public for one in members]
    return Binding(
        federation=FEDERATION,
        round=offer.round,
        nonce=nonce or drawn("nonce", seed),
        group=0,
        size=len(keys),
        neighbours=degree,
        threshold=threshold,
        ring_seed=drawn("ring", seed),
        roster_sha256=roster_digest(keys),
        release_sha256=sha256_bytes(offer.release),
        settings_sha256=settings_digest(offer.config),
        encoding=encoding,
        privacy=privacy or Privacy(),
        expiry=expiry,
    )


@dataclass
class Group:
    """Devices and what the server knows of them."""

    members: list[Member]
    sum: SecureSum

    @property
    def binding(self) -> Binding:
        return self.sum.binding

    def answer(self, position: int, body: bytes | None = None) -> bytes | Declined:
        """What a device says to its message of this stage, or to another ``body``."""
        said = self.sum.message(position) if body is None else body
        return self.members[position].participant.answer(self.sum.stage, said)

    def exchange(self, silent: Iterable[int] = ()) -> None:
        """Everybody who is asked answers, but those who are ``silent``."""
        for position in self.sum.waiting:
            if position in set(silent):
                continue
            found = self.answer(position)
            if isinstance(found, bytes):
                self.sum, reason = self.sum.receive(self.sum.stage, position, found)
                assert reason is None, (self.sum.stage, reason)

    def close(self) -> Skipped | None:
        """The next stage, or why there is none."""
        found = self.sum.close()
        if isinstance(found, Skipped):
            return found
        self.sum = found
        return None

    def run_to(self, stage: Stage) -> None:
        """All stages before ``stage``, with everybody in them."""
        while self.sum.stage < stage:
            self.exchange()
            assert self.close() is None

    def codes(self, position: int) -> NDArray[np.int64]:
        """What a device's change is in steps, with its noise: int64 (d,)."""
        one, binding = self.members[position], self.binding
        secret = RoundSecret(one.secret(binding.digest))
        privacy, encoding, noise = binding.privacy, binding.encoding, None
        if privacy.mode == "devices":
            deviation = sigma(privacy.noise_multiplier, encoding, privacy.counted_on)
            stream = secret.noise_stream(binding.digest)
            noise = draw(Table.of(deviation), stream, encoding.size)
        change = one.trainer.change
        flat = np.concatenate([change[name].ravel() for name in sorted(change)])
        return totals(encode(flat, encoding, secret.coins(binding.digest), noise), encoding)

    def plain_sum(self, survivors: Iterable[int]) -> NDArray[np.int64]:
        """The sum of their codes without any mask."""
        return sum((self.codes(one) for one in survivors), np.int64(0) * self.codes(0))


def ready_group(
    size: int,
    degree: int,
    threshold: int,
    *,
    seed: int = 0,
    rules: DeviceRules = SMALL,
    encoding: Encoding = WIDE,
    privacy: Privacy | None = None,
    folder: Path | None = None,
    least: int = 2,
    members: list[Member] | None = None,
) -> Group:
    """A group whose devices have trained."""
    if members is None:
        members = [
            member(
                n,
                seed,
                size=encoding.size,
                rules=rules,
                folder=None if folder is None else folder / str(n),
            )
            for n in range(size)
        ]
    for one in members:
        found = one.participant.answer(Stage.OFFER, announce(privacy), OFFER)
        assert is_ready(one, found)
    binding = binding_of(members, degree, threshold, seed=seed, encoding=encoding, privacy=privacy)
    certificates = tuple(one.certificate for one in members)
    return Group(members, SecureSum.begin(binding, certificates, least))
