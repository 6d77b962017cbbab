"""One group of a private round as a value: replies go in, the next value and messages come out.

    INVITE    devices deal boxes; at its close U2 is who dealt them
    COLLECT   masked changes are added up; at its close U3, the survivors, is whose came
    CONFIRM   survivors mark the two sets for each other
    UNMASK    they reveal shares, and unmasking.py takes the masks away

Nothing here knows a clock, a node or a table. A stage is closed when its caller says so: nobody is
waited for any more, or its time is over. Positions whose reply is missing then are gone: before U2
nothing of theirs is anywhere, between U2 and U3 their mask key is restored, after U3 their change
stays in the sum and their shares are missed.
"""

from __future__ import annotations

from collections.abc import Collection as Many
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

import numpy as np

from pocketquery.client.private.binding import Binding, roster_digest
from pocketquery.client.private.keys import Certificate, check_agreement_key
from pocketquery.client.private.masks import RingCodes, word_type
from pocketquery.client.private.messages import (
    CollectedBoxes,
    Confirmation,
    Invitation,
    Stage,
    Unmasking,
    survivors_digest,
)
from pocketquery.client.private.replies import Boxes, Confirmed, Masked, Shares
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

__all__ = ["SecureReason", "SecureSum", "Skipped"]


class SecureReason(StrEnum):
    """Why a reply of a private round, or a whole group, was left out."""

    MALFORMED = "malformed"
    DUPLICATE = "duplicate"
    TOO_LATE = "too_late"
    BAD_CERTIFICATE = "bad_certificate"
    BAD_PROOF = "bad_proof"
    BAD_SHARE = "bad_share"
    BELOW_LEAST = "below_least"
    BELOW_THRESHOLD = "below_threshold"
    SUM_OUT_OF_RANGE = "sum_out_of_range"
    SUM_NORM = "sum_norm"


@dataclass(frozen=True)
class Skipped:
    """A group that gives no sum.

    Attributes:
        reason: why.
        detail: in numbers and positions, for the log.
        blamed: positions of devices that are proven to have revealed or dealt wrong shares.
    """

    reason: SecureReason
    detail: str
    blamed: tuple[int, ...] = ()


@dataclass(frozen=True)
class SecureSum:
    """One group; immutable.

    Attributes:
        binding: what its devices agree on.
        certificates: of its devices, by position.
        least: devices that must survive.
        stage: which replies are taken now.
        dealt: boxes, by who dealt them, from COLLECT on of U2 alone; once it is closed without the
            boxes themselves.
        committed: U2 in ascending order, from COLLECT on; the keys of ``dealt``.
        total: the sum of the masked changes modulo 2**w, uint16 or uint32 (d,).
        survivors: U3; in COLLECT those so far, in the order they came; then in ascending order.
        held: held marks by who made them, for its committed neighbours in ascending order.
        disputes: pairs of a survivor and a dealer whose shares it does not hold as the dealer
            committed to them: one of the two lies, nobody knows which.
        confirms: confirm marks in the same way.
        shares: what was revealed, by who revealed it.
    """

    binding: Binding
    certificates: tuple[Certificate, ...]
    total: RingCodes
    least: int = 2
    stage: Stage = Stage.INVITE
    dealt: Mapping[int, Boxes] = field(default_factory=dict)
    committed: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()
    held: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    disputes: frozenset[tuple[int, int]] = frozenset()
    confirms: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    shares: Mapping[int, Shares] = field(default_factory=dict)

    @classmethod
    def begin(cls, binding: Binding, certificates: tuple[Certificate, ...], least: int = 2) -> Self:
        """A group that nobody has replied in yet.

        Args:
            binding: what its devices are to agree on.
            certificates: theirs, by position.
            least: devices that must survive, no less than each of them insists on.

        Raises:
            InvalidInputError: the certificates are not those of the binding's roster.
        """
        roster = roster_digest([one.key for one in certificates])
        if roster != binding.roster_sha256 or len(certificates) != binding.size:
            raise InvalidInputError(
                f"found {len(certificates)} certificates with the roster {roster}, expected "
                f"{binding.size} with {binding.roster_sha256}"
            )
        empty: RingCodes = np.zeros(binding.encoding.size, word_type(binding.encoding.bits))
        return cls(binding, certificates, empty, least)

    @property
    def asked(self) -> tuple[int, ...]:
        """Who is asked in this stage: everybody, U2, U3, and who confirmed."""
        if self.stage is Stage.INVITE:
            return tuple(range(self.binding.size))
        return tuple(sorted(self._asked))

    @property
    def waiting(self) -> tuple[int, ...]:
        """Who was asked in this stage and has not replied."""
        return tuple(one for one in self.asked if one not in self._replied)

    @property
    def _asked(self) -> Many[int]:
        stages = (range(self.binding.size), self.dealt, self.held, self.confirms)
        return stages[self.stage - Stage.INVITE]

    @property
    def _replied(self) -> Many[int]:
        return (self.dealt, self.held, self.confirms, self.shares)[self.stage - Stage.INVITE]

    def near(self, position: int, among: Many[int]) -> tuple[int, ...]:
        """The neighbours of ``position`` that are ``among`` others, in ascending order."""
        return tuple(one for one in self.binding.ring[position] if one in among)

    # Down

    def message(self, position: int) -> bytes:
        """The body for one of those asked in this stage; the same whenever it is called."""
        if self.stage is Stage.INVITE:
            keys = tuple(self.certificates[one] for one in self.binding.ring[position])
            return Invitation(position, self.binding, keys).to_bytes()
        if self.stage is Stage.COLLECT:
            return self._collection(position).to_bytes(self.binding)
        if self.stage is Stage.CONFIRM:
            return self._confirmation().to_bytes(self.binding)
        return self._unmasking(position).to_bytes(self.binding)

    def _collection(self, position: int) -> CollectedBoxes:
        near = self.near(position, self.dealt)
        boxes = (self.dealt[one].boxes[self.binding.place(one, position) - 1] for one in near)
        return CollectedBoxes(self.binding.digest, self._places(position, near), tuple(boxes))

    def _confirmation(self) -> Confirmation:
        beta, size = self.binding.digest, self.binding.size
        digest = survivors_digest(beta, self.committed, self.survivors, size)
        return Confirmation(beta, self.committed, self.survivors, digest)

    def _unmasking(self, position: int) -> Unmasking:
        # So many marks that t are good if no more neighbours lie than may collude.
        k, t = self.binding.neighbours, self.binding.threshold
        confirmers = self.near(position, self.confirms)[: t + max(0, 2 * t - k - 1)]
        holders = self.near(position, self.held)
        return Unmasking(
            self.binding.digest,
            self._places(position, confirmers),
            tuple(self._mark(self.confirms, one, position) for one in confirmers),
            self._places(position, holders),
            tuple(self._mark(self.held, one, position) for one in holders),
        )

    def _mark(self, marks: Mapping[int, tuple[bytes, ...]], sender: int, receiver: int) -> bytes:
        return marks[sender][self.near(sender, self.dealt).index(receiver)]

    def _places(self, position: int, neighbours: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.binding.place(position, one) - 1 for one in neighbours)

    # Up

    def receive(
        self, stage: Stage, position: int, body: bytes
    ) -> tuple[SecureSum, SecureReason | None]:
        """This group after a reply, or why the reply does not count. Nothing raises.

        Args:
            stage: that the reply says it answers.
            position: of the device that was asked.
            body: bytes from it.
        """
        if stage != self.stage:
            late = stage < self.stage
            return self, SecureReason.TOO_LATE if late else SecureReason.MALFORMED
        if position not in self._asked:
            return self, SecureReason.TOO_LATE
        if position in self._replied:
            return self, SecureReason.DUPLICATE
        try:
            after, sender = self._taken(position, body)
        except (CorruptArtifactError, InvalidInputError):
            return self, SecureReason.MALFORMED
        if sender != position:
            return self, SecureReason.MALFORMED
        return after, None

    def _taken(self, position: int, body: bytes) -> tuple[SecureSum, int]:
        """This group with a reply, and who the reply says it is from."""
        binding, boxes = self.binding, len(self.near(position, self.dealt))
        if self.stage is Stage.INVITE:
            dealt = Boxes.parse(body, binding)
            check_agreement_key(dealt.mask_public)
            return replace(self, dealt={**self.dealt, position: dealt}), dealt.position
        if self.stage is Stage.COLLECT:
            masked = Masked.parse(body, binding, boxes)
            total: RingCodes = self.total + masked.codes
            after = replace(
                self,
                total=total,
                held={**self.held, position: masked.held},
                survivors=(*self.survivors, position),
                disputes=self.disputes.union(self._disputed(position, masked.receipts)),
            )
            return after, masked.position
        if self.stage is Stage.CONFIRM:
            confirmed = Confirmed.parse(body, binding, boxes)
            return replace(
                self, confirms={**self.confirms, position: confirmed.marks}
            ), confirmed.position
        shares = Shares.parse(body, binding)
        return replace(self, shares={**self.shares, position: shares}), shares.position

    def _disputed(self, position: int, receipts: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        for dealer, receipt in zip(self.near(position, self.dealt), receipts, strict=True):
            place = self.binding.place(dealer, position) - 1
            if receipt != self.dealt[dealer].commitments[place]:
                yield position, dealer

    # Stages

    def close(self) -> SecureSum | Skipped:
        """The group in its next stage, or why it gives no sum. UNMASK is not closed but
        :func:`~pocketquery.server.private.unmasking.unmask` ends it.
        """
        if self.stage is Stage.INVITE:
            committed = self._core(self.dealt)
            if len(committed) < self.least:
                return self._below_least(len(committed), "dealt boxes")
            dealt = {one: self.dealt[one] for one in committed}
            return replace(self, stage=Stage.COLLECT, dealt=dealt, committed=committed)
        if self.stage is Stage.COLLECT:
            survivors = tuple(sorted(self.survivors))
            if len(survivors) < self.least:
                return self._below_least(len(survivors), "sent a masked change")
            dealt = {one: replace(boxes, boxes=()) for one, boxes in self.dealt.items()}
            after = replace(self, stage=Stage.CONFIRM, dealt=dealt, survivors=survivors)
            return after._reachable(survivors, "survive") or after
        if self.stage is Stage.CONFIRM:
            # A device reveals nothing on fewer confirm marks than t.
            t, confirmed = self.binding.threshold, self.confirms
            able = {one for one in confirmed if len(self.near(one, confirmed)) >= t}
            return self._reachable(able, "confirmed") or replace(self, stage=Stage.UNMASK)
        raise InvalidInputError("the last stage is not closed; unmask the group")

    def _core(self, replied: Many[int]) -> tuple[int, ...]:
        """The most of those who ``replied`` of whom each has t neighbours among them: who has fewer
        would decline, and its mask key could not be restored.
        """
        core = set(replied)
        while few := {one for one in core if len(self.near(one, core)) < self.binding.threshold}:
            core -= few
        return tuple(sorted(core))

    def _reachable(self, able: Many[int], verb: str) -> Skipped | None:
        """A skip where some committed device has fewer than t neighbours that are ``able``."""
        t = self.binding.threshold
        short = [one for one in self.committed if len(self.near(one, able)) < t]
        if not short:
            return None
        return Skipped(
            SecureReason.BELOW_THRESHOLD,
            f"of {len(short)} devices fewer than {t} neighbours {verb}",
        )

    def _below_least(self, count: int, verb: str) -> Skipped:
        return Skipped(
            SecureReason.BELOW_LEAST,
            f"{count} of {self.binding.size} devices {verb}, at least {self.least} are needed",
        )
