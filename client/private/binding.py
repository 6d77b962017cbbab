"""The binding of a private round: all that its devices must agree on, and the digest that binds it.

Every key and every mark of a round derives from the digest (beta). Devices that were shown another
model, other settings, another roster or another privacy derive other masks, so what a server then
adds up is a uniformly random sum (the remedy against Pasquini et al., "Eluding Secure Aggregation
in Federated Learning via Model Inconsistency", CCS 2022).

As bytes, a binding is JSON with sorted keys and no blanks, ASCII, of the fields of :class:`Binding`
and ``protocol``; bytes are lowercase hexadecimal digits, fractions the shortest decimals that read
back to the same double ("1.0", "1e-06"). The digest is SHA-256 of these bytes, so a device hashes
what it received and writes no JSON itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, NoReturn, get_args

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.keys import FEDERATION_BYTES, PROTOCOL
from pocketquery.client.private.masks import neighbours
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError, PocketQueryError
from pocketquery.sdk.files import sha256_bytes
from pocketquery.sdk.validation import Rule, check_fields, number, one_of, whole

__all__ = ["MOST_DEVICES", "Binding", "NoiseMode", "Privacy", "roster_digest", "settings_digest"]

NoiseMode = Literal["off", "devices"]

MOST_DEVICES = 100_000
"""In one group: a device computes the ring of all."""

_LAST_ROUND = 10**18 - 1  # the last that an update's header can name
_LONGEST = 4096  # bytes
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_SEASON = re.compile(r"[!-~]{0,64}")


@dataclass(frozen=True)
class Privacy:
    """The noise of a round, and what a device's ledger is charged for it.

    Attributes:
        mode: "off"; "devices": they add noise before they mask.
        noise_multiplier: z, the standard deviation of a sum's noise over a device's sensitivity,
            from 0.01; 0 where the mode is "off".
        counted_on: m, the honest survivors whose noise is counted on; at least 1 with noise.
        season: its name, up to 64 printable ASCII characters; at least one where there is noise.
        participations: of a device in a season, at most.

    Raises:
        InvalidInputError: a field is out of its range.
    """

    mode: NoiseMode = "off"
    noise_multiplier: float = 0.0
    counted_on: int = 0
    season: str = ""
    participations: int = 0

    def __post_init__(self) -> None:
        noisy = self.mode != "off"
        check_fields(
            self,
            mode=one_of(*get_args(NoiseMode)),
            noise_multiplier=_fraction(number(0.01, 1e6) if noisy else number(0, 0)),
            counted_on=whole(1 if noisy else 0, MOST_DEVICES),
            season=Rule(
                lambda value: (
                    isinstance(value, str)
                    and _SEASON.fullmatch(value) is not None
                    and bool(value) >= noisy
                ),
                "up to 64 printable ASCII characters, and at least one where there is noise",
            ),
            participations=whole(1 if noisy else 0, 10**6),
        )


@dataclass(frozen=True)
class Binding:
    """What the devices of one group agree on.

    Attributes:
        federation: its id, 16 bytes.
        round: its number, from 0.
        nonce: 32 random bytes of this round.
        group: number of the group, from 0.
        size: g, how many devices are in it.
        neighbours: k, how many of them each device shares masks with: even, or ``size - 1``.
        threshold: t, how many shares restore a secret.
        ring_seed: 32 random bytes that order the ring, see :mod:`masks`.
        roster_sha256: of the g device keys one after the other, in order of position.
        release_sha256: of the release file that was trained on.
        settings_sha256: of the settings that it was trained with, :func:`settings_digest`.
        encoding: how a change becomes whole numbers.
        privacy: the noise.
        expiry: Unix seconds, uint32, from which on nothing is revealed any more.

    Raises:
        InvalidInputError: a field is out of its range.
    """

    federation: bytes
    round: int
    nonce: bytes
    group: int
    size: int
    neighbours: int
    threshold: int
    ring_seed: bytes
    roster_sha256: str
    release_sha256: str
    settings_sha256: str
    encoding: Encoding
    privacy: Privacy
    expiry: int

    def __post_init__(self) -> None:
        size = whole(2, MOST_DEVICES)
        check_fields(self, size=size)
        complete = self.neighbours == self.size - 1
        check_fields(
            self,
            federation=_bytes(FEDERATION_BYTES),
            round=whole(0, _LAST_ROUND),
            nonce=_bytes(32),
            group=whole(0, MOST_DEVICES),
            neighbours=whole(1, self.size - 1) if complete else _even(self.size - 1),
            ring_seed=_bytes(32),
            roster_sha256=_DIGEST,
            release_sha256=_DIGEST,
            settings_sha256=_DIGEST,
            expiry=whole(1, 2**32 - 1),
        )
        check_fields(self, threshold=whole(1, self.neighbours))

    @cached_property
    def digest(self) -> bytes:
        """beta: SHA-256 of :meth:`to_bytes`, 32 bytes."""
        return sha256(self.to_bytes()).digest()

    @cached_property
    def ring(self) -> Sequence[tuple[int, ...]]:
        """The neighbours of each position, in ascending order."""
        return neighbours(self.ring_seed, self.size, self.neighbours)

    def place(self, position: int, neighbour: int) -> int:
        """The x of the share that ``position`` deals to ``neighbour``: from 1."""
        return self.ring[position].index(neighbour) + 1

    def to_bytes(self) -> bytes:
        """The canonical JSON."""
        return _json(asdict(self) | {"protocol": PROTOCOL})

    @classmethod
    def parse(cls, data: bytes) -> Binding:
        """The binding of :meth:`to_bytes`, bytes from anywhere.

        Raises:
            CorruptArtifactError: it is none of this version, or not written canonically.
        """
        if len(data) > _LONGEST:
            raise CorruptArtifactError(
                f"a round's binding has {len(data)} bytes, expected at most {_LONGEST}"
            )
        try:
            fields = json.loads(data.decode("ascii"), parse_constant=_refuse)
            encoding, privacy = Encoding(**fields["encoding"]), Privacy(**fields["privacy"])
            values: dict[str, Any] = fields | {"encoding": encoding, "privacy": privacy}
            if (protocol := values.pop("protocol")) != PROTOCOL:
                raise InvalidInputError(f"the protocol is {protocol!r:.80}")
            for name in ("federation", "nonce", "ring_seed"):
                values[name] = _from_hex(values[name])
            binding = cls(**values)
            canonical = binding.to_bytes() == data
        except (PocketQueryError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise CorruptArtifactError(
                f"a round's binding cannot be read ({error!s:.200}); expected one of {PROTOCOL}. "
                "Upgrade the older of server and device"
            ) from error
        if not canonical:
            raise CorruptArtifactError(
                "a round's binding is not canonical JSON: sorted keys, no blanks"
            )
        return binding


def settings_digest(config: LocalConfig) -> str:
    """Hexadecimal SHA-256 of the settings of a training, as canonical JSON."""
    return sha256_bytes(_json(config.to_dict()))


def roster_digest(keys: list[bytes] | tuple[bytes, ...]) -> str:
    """Hexadecimal SHA-256 of the device keys of a group in order of their positions."""
    return sha256_bytes(b"".join(keys))


def _json(values: object) -> bytes:
    text = json.dumps(
        values, sort_keys=True, separators=(",", ":"), allow_nan=False, default=bytes.hex
    )
    return text.encode("ascii")


def _from_hex(text: object) -> bytes:
    if not isinstance(text, str) or not _HEX.fullmatch(text):
        raise InvalidInputError(f"{text!r:.80} is not lowercase hexadecimal digits")
    return bytes.fromhex(text)


def _refuse(name: str) -> NoReturn:
    raise InvalidInputError(f"{name} is no number")


def _fraction(rule: Rule) -> Rule:
    """``rule``, of a float alone: a whole number would be written in another way."""
    return Rule(lambda value: type(value) is float and rule.holds(value), rule.expected)


def _bytes(count: int) -> Rule:
    return Rule(lambda value: type(value) is bytes and len(value) == count, f"{count} bytes")


def _even(most: int) -> Rule:
    rule = whole(2, most)
    return Rule(
        lambda value: rule.holds(value) and not int(value) % 2,  # type: ignore[call-overload]
        f"{most}, or an even number from 2 below it",
    )


_DIGEST = Rule(
    lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
    "64 lowercase hexadecimal digits",
)
