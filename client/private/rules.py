"""A device's own rules for private rounds, enforced whatever the server says.

Each rule is a line that says why it is broken, in a sentence for the user's log. The rules hold up
the lemma of the protocol: if at most c of the k neighbours of each honest device collude with the
server and 2t > k + c, every value it can compute that depends on an honest device's change is a sum
over at least t - c + 1 honest devices. To lift a device's own mask takes t shares, so t - c honest
neighbours gave one, each of which the device's *held* mark told that its change carries their
pairwise mask; each of them saw t *confirm* marks on one set of survivors that contains itself, so
fewer than t of its neighbours give shares of its mask key, and its mask goes away only with its own
change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.keys import Certificate, check_certificate
from pocketquery.client.private.ledger import Account, cost_of, epsilon_of
from pocketquery.client.private.messages import Confirmation, survivors_digest
from pocketquery.client.private.noise import LEAST_SIGMA, counted_on, sigma
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.settings.declaration import Option, Settings
from pocketquery.sdk.validation import Rule, number, whole

__all__ = ["DeviceRules", "Secure", "SURVIVING_PERCENT", "Trained"]

Secure = Literal["required", "allowed"]
PrivacyWanted = Literal["devices", "any"]

SURVIVING_PERCENT = 80
"""Of a group, where there is noise: that of fewer would be too little."""


@dataclass(frozen=True)
class Trained:
    """What a device trained on, to be compared with what it is asked to mask.

    Attributes:
        federation: 16 bytes.
        round: its number.
        release_sha256, settings_sha256: hexadecimal digests.
        size: values of the change.
        clip_norm: that the offer asked for.
    """

    federation: bytes
    round: int
    release_sha256: str
    settings_sha256: str
    size: int
    clip_norm: float


@dataclass(frozen=True)
class DeviceRules(Settings):
    """The rules; a round that breaks one is declined.

    No device can check how large a group is, and the more devices are said to be in it, the less
    noise each adds. In a group above ``largest_group`` the noise of so many is counted on.

    Raises:
        InvalidInputError: a rule out of range.
    """

    secure: Annotated[Secure, "required: decline plain rounds; allowed: take part in them"] = (
        "required"
    )
    least: Annotated[int, whole(2), "devices in a group, and survivors of it"] = 20
    least_noisy: Annotated[int, whole(2), "the same where there is noise"] = 100
    largest_group: Annotated[
        int, whole(2), "devices that a group with their noise counts as, at most"
    ] = 1000
    neighbours: Annotated[int, whole(), "that each device shares masks with"] = 84
    collusion: Annotated[
        float, number(0, below=1), "share of them that the threshold must withstand"
    ] = 0.19
    rest: Annotated[int, whole(), "rounds between two that this device takes part in"] = 8
    privacy: Annotated[
        PrivacyWanted, "devices: only rounds whose noise devices add; any: those without, too"
    ] = "devices"
    noise_least: Annotated[float, number(0), "smallest noise multiplier"] = 2.0
    participations: Annotated[int, whole(), "in a season, at most"] = 1
    seasons: Annotated[
        int, whole(), "that this device takes part in; raise it to let another begin"
    ] = 1
    epsilon: Annotated[float, number(above=0), "that a season may cost"] = 4.0
    delta: Annotated[float, number(above=0, below=1), "of that epsilon"] = 1e-6
    revoked: Annotated[
        frozenset[bytes],
        Rule(lambda value: isinstance(value, frozenset), "a set of device keys"),
        "device keys that are no neighbours any more, 32 bytes each",
        Option(hidden=True),
    ] = field(default_factory=frozenset)

    def of_offer(self, privacy: Privacy, round: int, account: Account) -> str | None:
        """Why not to train for ``round``, or None: the rules that can be told from the offer.

        A device that declines after it said that it is ready spoils the round of its group.
        """
        return next(
            iter(
                (
                    *self._privacy(privacy),
                    *self._rested(round, account),
                    *self._budget(privacy, round, account, cost_of(privacy, None)),
                )
            ),
            None,
        )

    def of_invitation(
        self, binding: Binding, trained: Trained, account: Account, now: float
    ) -> str | None:
        """Why not to deal boxes in this group, or None."""
        privacy = binding.privacy
        cost = cost_of(privacy, binding.encoding)
        return next(
            iter(
                (
                    *self._trained(binding, trained),
                    *self._group(binding),
                    *self._privacy(privacy),
                    *self._noise(binding),
                    *self._rested(binding.round, account),
                    *self._budget(privacy, binding.round, account, cost),
                    *self._expired(binding, now),
                )
            ),
            None,
        )

    def of_neighbours(
        self,
        binding: Binding,
        own: bytes,
        certificates: Sequence[Certificate],
        authority: Key,
        now: float,
    ) -> str | None:
        """Why not to deal boxes to these neighbours, or None; ``own`` is this device's key."""
        keys = [one.key for one in certificates]
        if len(set(keys)) != len(keys):
            return "two neighbours have the same device key"
        if own in keys:
            return "this device's own key is a neighbour's"
        if revoked := self.revoked.intersection(keys):
            return f"the neighbour {min(revoked).hex()} is revoked"
        for certificate in certificates:
            try:
                check_certificate(certificate, authority, binding.federation, now)
            except InvalidInputError as error:
                return str(error)
        return None

    def of_collection(self, binding: Binding, boxes: int) -> str | None:
        """Why not to mask with ``boxes`` neighbours, or None."""
        if boxes >= binding.threshold:
            return None
        return f"boxes of {boxes} neighbours came, expected at least {binding.threshold}"

    def of_confirmation(
        self, binding: Binding, position: int, held: Sequence[int], confirmation: Confirmation
    ) -> str | None:
        """Why not to confirm these survivors, or None; ``held`` are the neighbours, by position,
        whose boxes this device holds.
        """
        return next(self._survivors(binding, position, held, confirmation), None)

    def of_unmasking(self, binding: Binding, confirmed: int) -> str | None:
        """Why not to reveal shares where so many neighbours ``confirmed`` this device's own view of
        the survivors, or None.
        """
        if confirmed >= binding.threshold:
            return None
        return (
            f"{confirmed} neighbours confirmed the survivors, expected at least {binding.threshold}"
        )

    def of_self_shares(self, held: Collection[int], holders: Collection[int]) -> set[int]:
        """Of which neighbours a share of the self seed may be revealed, if they survived: of those
        of the ``held`` whose own mark tells that they hold this device's box, the ``holders``.
        """
        return set(held) & set(holders)

    def least_survivors(self, binding: Binding) -> int:
        """How many of the group must have sent a masked change."""
        least = self._least(binding.privacy)
        if binding.privacy.mode == "off":
            return least
        return max(least, math.ceil(binding.size * SURVIVING_PERCENT / 100))

    def _least(self, privacy: Privacy) -> int:
        return self.least if privacy.mode == "off" else max(self.least, self.least_noisy)

    def _trained(self, binding: Binding, trained: Trained) -> Iterator[str]:
        encoding = binding.encoding
        for name, offered, used in (
            ("release", binding.release_sha256, trained.release_sha256),
            ("settings", binding.settings_sha256, trained.settings_sha256),
            ("number of values", encoding.size, trained.size),
            ("clip_norm", encoding.clip, trained.clip_norm),
        ):
            if offered != used:
                yield f"{name}: found {offered}, but this device trained on {used}"

    def _group(self, binding: Binding) -> Iterator[str]:
        size, k, t = binding.size, binding.neighbours, binding.threshold
        if size < (least := self._least(binding.privacy)):
            yield f"the group has {size} devices, expected at least {least}"
        if k < (least := min(size - 1, self.neighbours)):
            yield f"each device has {k} neighbours, expected at least {least}"
        if 2 * t <= k + math.floor(self.collusion * k):
            yield (
                f"the threshold is {t} of {k} neighbours, which does not withstand "
                f"{self.collusion:g} of them"
            )

    def _privacy(self, privacy: Privacy) -> Iterator[str]:
        if self.privacy == "devices" and privacy.mode != "devices":
            yield f"the noise is {privacy.mode!r}, this device accepts its own alone"
        if privacy.mode != "off" and privacy.noise_multiplier < self.noise_least:
            yield (
                f"the noise multiplier is {privacy.noise_multiplier:g}, this device accepts at "
                f"least {self.noise_least:g}"
            )
        most = counted_on(self.largest_group)
        if privacy.counted_on > most:
            yield (
                f"noise of {privacy.counted_on} devices is counted on, this device accepts at most "
                f"{most}: its largest-group is {self.largest_group}"
            )

    def _noise(self, binding: Binding) -> Iterator[str]:
        privacy = binding.privacy
        if privacy.mode == "off":
            return
        honest = counted_on(binding.size)
        if privacy.counted_on > honest:
            yield f"noise of {privacy.counted_on} devices is counted on, expected at most {honest}"
        deviation = sigma(privacy.noise_multiplier, binding.encoding, privacy.counted_on)
        if deviation < LEAST_SIGMA:
            yield f"the noise is of {deviation:g} steps, expected at least {LEAST_SIGMA:g}"

    def _rested(self, round: int, account: Account) -> Iterator[str]:
        if account.last_masked is not None and round < account.last_masked + self.rest:
            yield (
                f"round {round}: this device took part in round {account.last_masked} and rests "
                f"for {self.rest}"
            )

    def _budget(self, privacy: Privacy, round: int, account: Account, cost: int) -> Iterator[str]:
        if privacy.mode == "off":
            return
        after = account.charged(round, privacy, cost)
        most = min(self.participations, privacy.participations)
        if after.participations > most:
            yield f"this device took part {account.participations} times in the season, of {most}"
        if after.seasons > self.seasons:
            yield (
                f"the season {privacy.season!r} would be the {after.seasons}. of this device, it "
                f"allows {self.seasons}; raise seasons to go on"
            )
        if (spent := epsilon_of(after.rho, self.delta)) > self.epsilon:
            yield (
                f"the season would have cost epsilon {spent:.2f} at delta {self.delta:g}, of "
                f"{self.epsilon:g}"
            )

    def _expired(self, binding: Binding, now: float) -> Iterator[str]:
        if now >= binding.expiry:
            yield f"the round expired at {binding.expiry} (Unix seconds), and it is {int(now)}"

    def _survivors(
        self, binding: Binding, position: int, held: Sequence[int], confirmation: Confirmation
    ) -> Iterator[str]:
        committed, survivors = set(confirmation.committed), set(confirmation.survivors)
        near = set(binding.ring[position])
        expected = survivors_digest(binding.digest, committed, survivors, binding.size)
        if confirmation.digest != expected:
            yield "the digest of the survivors is another's"
        if position not in survivors or position not in committed:
            yield "this device itself is not among the survivors"
        if not survivors <= committed:
            yield "there are survivors that were not committed"
        if near & committed != set(held):
            yield "the committed neighbours are not those whose boxes came"
        if len(near & survivors) < binding.threshold:
            yield (
                f"{len(near & survivors)} neighbours survive, expected at least {binding.threshold}"
            )
        if len(survivors) < (least := self.least_survivors(binding)):
            yield f"{len(survivors)} devices survive, expected at least {least}"
