"""A cohort of a private round as one group: keys, certificates, the value the server begins on."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.offer import Offer
from pocketquery.client.private.binding import Binding, Privacy, roster_digest, settings_digest
from pocketquery.client.private.encoding import choose_encoding, value_range
from pocketquery.client.private.keys import (
    AgreementKey,
    RoundSecret,
    federation_id,
    sign_certificate,
)
from pocketquery.client.private.noise import counted_on
from pocketquery.client.private.rules import DeviceRules
from pocketquery.client.private.stages import Seat
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.private.coordinator import SecureSum

__all__ = [
    "ANNOUNCED",
    "AUTHORITY",
    "FEDERATION",
    "NEIGHBOURS",
    "NEIGHBOURS_OF_MANY",
    "Group",
    "a_change",
    "secret_of",
]

AUTHORITY = sha256(b"the authority of a benchmark").digest()
ANNOUNCED = AgreementKey(sha256(b"the server of a benchmark").digest()).public
FEDERATION = federation_id("a benchmark")
NEIGHBOURS = 84
NEIGHBOURS_OF_MANY = 64  # the bitmaps of a group of 10,000 and 84 certificates pass 100 KB by 0.5 %

_MANY = 10_000
_NOISE_MULTIPLIER = 2.4
_LEAST_NOISY = 100  # devices; a smaller cohort has no noise
_NEVER = 4_000_000_000  # Unix seconds


@dataclass(frozen=True)
class Group:
    """A cohort of one group.

    Attributes:
        keys: of its devices, by position.
        sum: the server's value, in its first stage.
    """

    keys: tuple[AgreementKey, ...]
    sum: SecureSum

    @classmethod
    def of(cls, cohort: int, offer: Offer, size: int) -> Group:
        """``cohort`` devices that are ready in the round of ``offer``, of ``size`` values."""
        numbers = range(cohort)
        keys = tuple(AgreementKey(sha256(f"device {one}".encode()).digest()) for one in numbers)
        certificates = tuple(
            sign_certificate(AUTHORITY, FEDERATION, key.public, _NEVER) for key in keys
        )
        noise = _NOISE_MULTIPLIER if cohort >= _LEAST_NOISY else 0.0
        reach = value_range(offer.config.steps, offer.config.learning_rate)
        many = counted_on(min(cohort, DeviceRules.largest_group))
        neighbours = min(cohort - 1, NEIGHBOURS if cohort < _MANY else NEIGHBOURS_OF_MANY)
        binding = Binding(
            federation=FEDERATION,
            round=offer.round,
            nonce=bytes(32),
            group=0,
            size=cohort,
            neighbours=neighbours,
            threshold=3 * neighbours // 5 + 1,
            ring_seed=bytes(32),
            roster_sha256=roster_digest([key.public for key in keys]),
            release_sha256=sha256_bytes(offer.release),
            settings_sha256=settings_digest(offer.config),
            encoding=choose_encoding(size, cohort, offer.clip_norm, reach, noise, many),
            privacy=Privacy("devices", noise, many, "1", 1) if noise else Privacy(),
            expiry=_NEVER,
        )
        return cls(keys, SecureSum.begin(binding, certificates))

    @property
    def binding(self) -> Binding:
        """What the devices agree on."""
        return self.sum.binding

    def seat(self, position: int) -> Seat:
        """A device's place."""
        keys = tuple(self.keys[one].public for one in self.binding.ring[position])
        return Seat(self.keys[position], self.binding, position, keys)


def secret_of(position: int) -> RoundSecret:
    """A device's round secret."""
    return RoundSecret(sha256(f"secret {position}".encode()).digest())


def a_change(size: int, seed: int = 0) -> NDArray[np.float32]:
    """What a training might have come to: norm 1."""
    values = np.random.default_rng(seed).standard_normal(size)
    return (values / np.linalg.norm(values)).astype(np.float32)
