"""A device's part in private rounds: a state, a message, the next state on disk, then the reply.

Every arrow IDLE -> READY -> SHARED -> MASKED -> CONFIRMED -> REVEALED is an atomic write before the
reply leaves. A message that was answered is answered again with the stored bytes; one for a later
stage, or of another round, is declined. Where a rule is broken the device declines and forgets the
round. Whatever it was, the server is told nothing but that the device declines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.device import Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.binding import Binding, settings_digest
from pocketquery.client.private.keys import (
    KEY_BYTES,
    AgreementKey,
    Certificate,
    RoundSecret,
    check_certificate,
)
from pocketquery.client.private.ledger import Ledger
from pocketquery.client.private.messages import (
    Announcement,
    CollectedBoxes,
    Confirmation,
    Invitation,
    Stage,
    Unmasking,
)
from pocketquery.client.private.replies import Ready
from pocketquery.client.private.rules import DeviceRules, Trained
from pocketquery.client.private.stages import (
    Seat,
    confirm,
    count_confirms,
    deal,
    holders,
    mask,
    open_boxes,
    reveal,
)
from pocketquery.client.private.state_file import SecureProgress, SecureState, StateFile
from pocketquery.sdk.bundle.signature import Key
from pocketquery.sdk.errors import InvalidInputError, PocketQueryError
from pocketquery.sdk.files import sha256_bytes

__all__ = ["Participant", "Trainer"]

_RETENTION_SECONDS = 86_400.0  # that anything of a round stays on the device, at most
_OTHER_ROUND = "the message is of another round than the one that this device is in"


class TrainedChange(Protocol):
    """What a training left: :class:`pocketquery.client.device.Training`."""

    @property
    def epoch(self) -> str:
        """Of the query store that was trained on."""

    @property
    def change(self) -> Mapping[str, NDArray[np.float32]]:
        """By name."""


class Trainer(Protocol):
    """What trains, by the user's consent: :class:`pocketquery.client.device.Device`."""

    def train(self, offer: Offer) -> TrainedChange | Declined:
        """Train as the offer says."""

    def forgotten(self, epoch: str) -> str | None:
        """Why what was trained in this epoch may not be used any more, or None."""


class Participant:
    """A device in private rounds.

    Args:
        trainer: trains, and knows whether the user still consents.
        key: the device's own.
        certificate: the authority's word for it.
        authority: Ed25519 public key of the enrolment authority, pinned.
        rules: what the device insists on.
        state: its progress in a round.
        ledger: what rounds cost.
        clock: Unix seconds.
        draw_secret: 32 random bytes for a binding's digest. A simulation gives its own, so that a
            seed decides everything.

    Raises:
        InvalidInputError: the certificate is of another key.
    """

    def __init__(
        self,
        trainer: Trainer,
        key: AgreementKey,
        certificate: Certificate,
        authority: Key,
        *,
        rules: DeviceRules,
        state: StateFile,
        ledger: Ledger,
        clock: Callable[[], float] = time.time,
        draw_secret: Callable[[bytes], bytes] = lambda beta: os.urandom(KEY_BYTES),
    ) -> None:
        if certificate.key != key.public:
            raise InvalidInputError(
                f"the certificate is of the device key {certificate.key.hex()}, but this device's "
                f"is {key.public.hex()}; have this one certified"
            )
        self._trainer = trainer
        self._key = key
        self._certificate = certificate
        self._authority = authority
        self._rules = rules
        self._file = state
        self._ledger = ledger
        self._clock = clock
        self._draw_secret = draw_secret

    @property
    def round(self) -> int | None:
        """The round that this device is in, as its file says; None: it is in none. One that is over
        is forgotten."""
        self.drop_over()
        with self._file.exclusive():
            state = self._file.load()
        return None if state is None else state.trained.round

    def drop_over(self) -> None:
        """Forget a round that expired, or whose queries the user erased: no message must come for
        that.

        Raises:
            OSError: its file cannot be read or removed.
        """
        with self._file.exclusive():
            if (state := self._file.load()) is not None:
                self._over(state)

    def give_up(self, round: int) -> None:
        """Forget ``round``, for which no more comes; another one stays. Raises as
        :meth:`drop_over`."""
        self._file.give_up(round)

    def answer(self, stage: int, body: bytes, offer: Offer | None = None) -> bytes | Declined:
        """The body of the reply to a stage's message, or why there is none, for the user's log.

        Args:
            stage: a :class:`Stage`.
            body: see :mod:`pocketquery.client.private.messages`.
            offer: what to train on, with the first stage alone.
        """
        try:
            with self._file.exclusive():
                return self._answer(Stage(stage), body, offer)
        except (PocketQueryError, ValueError) as error:
            return Declined(str(error))
        except OSError as error:
            return Declined(f"where the round stands cannot be kept ({error}); make room")

    def _answer(self, stage: Stage, body: bytes, offer: Offer | None) -> bytes | Declined:
        state = self._file.load()
        if state is not None and (reason := self._over(state)):
            return self._train(None, body, offer) if stage is Stage.OFFER else Declined(reason)
        if stage is Stage.OFFER:
            return self._train(state, body, offer)
        if state is None:
            return Declined("this device is in no round")
        if stage <= state.progress:
            return self._repeated_reply(state, stage, sha256_bytes(body))
        if stage != state.progress + 1:
            return Declined(f"stage {stage} came, but this device is {state.progress.name}")
        step = {
            Stage.INVITE: self._deal,
            Stage.COLLECT: self._mask,
            Stage.CONFIRM: self._confirm,
            Stage.UNMASK: self._reveal,
        }[stage]
        after = step(state, body)
        if isinstance(after, Declined):
            return after
        return self._keep(after, stage, sha256_bytes(body))

    def _over(self, state: SecureState) -> str | None:
        """Why the round of ``state`` is over for this device, and then forgotten; or None."""
        reason = self._trainer.forgotten(state.epoch)
        if reason is None and self._clock() >= state.kept_until:
            reason = f"the round expired at {state.kept_until:.0f} (Unix seconds)"
        if reason is not None:
            self._file.erase()
        return reason

    def _repeated_reply(self, state: SecureState, stage: Stage, asked: str) -> bytes | Declined:
        """The stored reply to a message that was answered before."""
        if state.asked.get(stage) == asked and stage in state.replies:
            return state.replies[stage]
        return Declined(f"stage {stage} was answered before; now it came with another content")

    def _keep(self, state: SecureState, stage: Stage, asked: str) -> bytes | Declined:
        """The reply that ``state`` holds, once it is on disk and the user has not erased the
        queries meanwhile.
        """
        state = replace(state, asked={**state.asked, stage: asked})
        self._file.keep(state)
        if reason := self._trainer.forgotten(state.epoch):
            self._file.erase()
            return Declined(reason)
        return state.replies[stage]

    def _broken(self, reason: str) -> Declined:
        """Decline, and be in this round no more."""
        self._file.erase()
        return Declined(reason)

    # Stage 1: IDLE -> READY

    def _train(
        self, state: SecureState | None, body: bytes, offer: Offer | None
    ) -> bytes | Declined:
        announcement = Announcement.parse(body)
        if offer is None:
            return Declined("there is no offer with the announcement of a private round")
        asked = sha256_bytes(body + offer.digest.encode())
        if state is not None and state.asked.get(Stage.OFFER) == asked:
            return self._repeated_reply(state, Stage.OFFER, asked)
        if state is not None and offer.round < state.trained.round:
            return Declined(_OTHER_ROUND)
        account = self._ledger.account(announcement.federation)
        if account.last_round is not None and offer.round <= account.last_round:
            return Declined(
                f"round {offer.round} is offered, but this device was in round {account.last_round}"
            )
        check_certificate(
            self._certificate, self._authority, announcement.federation, self._clock()
        )
        if reason := self._rules.of_offer(announcement.privacy, offer.round, account):
            return Declined(reason)
        if offer.config.client_init != "global":
            return Declined(f"client_init is {offer.config.client_init!r}, expected 'global'")
        self._file.erase()  # the round before, which is over
        training = self._trainer.train(offer)
        if isinstance(training, Declined):
            return training
        change = np.concatenate([training.change[name].ravel() for name in sorted(training.change)])
        if not np.isfinite(change).all():
            return Declined("the training diverged")
        trained = Trained(
            announcement.federation,
            offer.round,
            sha256_bytes(offer.release),
            settings_digest(offer.config),
            change.size,
            offer.clip_norm,
        )
        reply = Ready.prove(
            self._key, self._certificate, announcement.key, announcement.federation, offer.round
        )
        ready = SecureState(
            progress=SecureProgress.READY,
            epoch=training.epoch,
            trained=trained,
            kept_until=self._clock() + _RETENTION_SECONDS,
            asked={},
            replies={Stage.OFFER: reply.to_bytes()},
            change=change,
        )
        return self._keep(ready, Stage.OFFER, asked)

    # Stage 2: READY -> SHARED

    def _deal(self, state: SecureState, body: bytes) -> SecureState | Declined:
        invitation = Invitation.parse(body)
        binding, trained, now = invitation.binding, state.trained, self._clock()
        if (binding.federation, binding.round) != (trained.federation, trained.round):
            return Declined(_OTHER_ROUND)
        account = self._ledger.account(binding.federation)
        rules, own = self._rules, self._key.public
        reason = rules.of_invitation(binding, trained, account, now)
        reason = reason or rules.of_neighbours(
            binding, own, invitation.certificates, self._authority, now
        )
        if reason:
            return self._broken(reason)
        self._ledger.begin(binding)
        secret = self._draw_secret(binding.digest)
        keys = tuple(one.key for one in invitation.certificates)
        boxes = deal(Seat(self._key, binding, invitation.position, keys), RoundSecret(secret))
        return replace(
            state,
            progress=SecureProgress.SHARED,
            kept_until=min(now + _RETENTION_SECONDS, binding.expiry),
            replies={**state.replies, Stage.INVITE: boxes.to_bytes()},
            secret=secret,
            binding=binding,
            position=invitation.position,
            keys=keys,
        )

    # Stage 3: SHARED -> MASKED

    def _mask(self, state: SecureState, body: bytes) -> SecureState | Declined:
        binding, seat = self._seat(state)
        collection = CollectedBoxes.parse(body, binding)
        if reason := self._rules.of_collection(binding, len(collection.members)):
            return self._broken(reason)
        try:
            opened = open_boxes(seat, collection)
            masked = mask(seat, RoundSecret(state.secret), opened, state.change)
        except PocketQueryError as error:
            return self._broken(str(error))
        self._ledger.charge(binding)
        return replace(
            state,
            progress=SecureProgress.MASKED,
            replies={**state.replies, Stage.COLLECT: masked.to_bytes()},
            change=np.zeros(0, np.float32),
            secret=b"",
            held=tuple(one.held for one in opened),
        )

    # Stage 4: MASKED -> CONFIRMED

    def _confirm(self, state: SecureState, body: bytes) -> SecureState | Declined:
        binding, seat = self._seat(state)
        confirmation = Confirmation.parse(body, binding)
        near = [one.position for one in state.held]
        if reason := self._rules.of_confirmation(binding, seat.position, near, confirmation):
            return self._broken(reason)
        marks = confirm(seat, state.held, confirmation.committed, confirmation.survivors)
        return replace(
            state,
            progress=SecureProgress.CONFIRMED,
            replies={**state.replies, Stage.CONFIRM: marks.to_bytes()},
            committed=confirmation.committed,
            survivors=confirmation.survivors,
        )

    # Stage 5: CONFIRMED -> REVEALED

    def _reveal(self, state: SecureState, body: bytes) -> SecureState | Declined:
        binding, seat = self._seat(state)
        unmasking = Unmasking.parse(body, binding)
        confirmed = count_confirms(seat, state.held, state.committed, state.survivors, unmasking)
        if reason := self._rules.of_unmasking(binding, confirmed):
            return self._broken(reason)
        near = [one.position for one in state.held]
        named = self._rules.of_self_shares(near, holders(seat, unmasking))
        shares = reveal(seat, state.held, set(state.survivors), named)
        return replace(
            state,
            progress=SecureProgress.REVEALED,
            replies={Stage.UNMASK: shares.to_bytes()},
            asked={},
            held=(),
            committed=(),
            survivors=(),
        )

    def _seat(self, state: SecureState) -> tuple[Binding, Seat]:
        assert state.binding is not None  # from SHARED on
        return state.binding, Seat(self._key, state.binding, state.position, state.keys)
