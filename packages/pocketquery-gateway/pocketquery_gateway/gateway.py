"""What a gateway does for a device: it checks who asks and whether they may, and answers. app.py is
the HTTP around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pocketquery.client.figures import parse_figures
from pocketquery.client.gateway.messages import offer_message
from pocketquery.client.gateway.signing import FIGURES_HEADER, SignedRequest
from pocketquery.client.private.messages import Stage
from pocketquery.server.federation.rounds.round import prepare
from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery.server.federation.rounds.validation import ExpectedUpdate
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.secure_round import announcement
from pocketquery_gateway.attestation import Attestation, load_attestation
from pocketquery_gateway.attestation.attesting import Attesting
from pocketquery_gateway.authentication import Authentication, Request
from pocketquery_gateway.body_limits import BodyLimits
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.journal import GatewayJournal
from pocketquery_gateway.limits import Leases
from pocketquery_gateway.logs import event
from pocketquery_gateway.metrics import Metrics
from pocketquery_gateway.problems import Problem
from pocketquery_gateway.rounds.errors import (
    UNKNOWN,
    BetweenStepsError,
    QuotaError,
    RoundOverError,
    UnknownDeviceError,
)
from pocketquery_gateway.rounds.tables import InForce
from pocketquery_gateway.rounds.upload import Upload
from pocketquery_gateway.rounds.verdicts import UpdateVerdict
from pocketquery_gateway.server_side import ServerSide
from pocketquery_gateway.settings import GatewaySettings
from pocketquery_gateway.worker import NotWrittenError, Worker

__all__ = ["Gateway"]

_DAY = 86_400
_QUESTIONS = 20
_LOOKS = 5  # of a device for the next step while one may last; it sends an update six times
_PROOF_HOLDS = 1.0  # seconds; whoever asks for health more often causes no more writes
_MOST_REMEMBERED = 50_000  # registered keys
_MOST_PREPARED = 256  # updates that are read and wait for the journal: a sum of one each
_WHY = {
    SecureReason.BAD_CERTIFICATE: "the certificate is not by the authority of these rounds, or not "
    "for this federation, or has expired; have a new one signed",
    SecureReason.BAD_PROOF: "there is no proof that the sender holds the certified key, for this "
    "round and the key that its offer announced; ask for the offer again, and answer that one",
    SecureReason.DUPLICATE: "another reply came before, or another device has this certificate",
}

T = TypeVar("T")


class Gateway:
    """One gateway.

    Args:
        settings: how it is run.
        journal: what it knows; touched by the gateway's worker alone from now on.
        attestation: who checks evidence; by default what the settings name.
        clock: seconds since 1970, for signatures and quotas.
        monotonic: seconds that do not jump, for rates and leases.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        journal: GatewayJournal,
        *,
        attestation: Attestation | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.authentication = Authentication(settings, clock, monotonic)
        self.worker = Worker(journal)
        self._clock = clock
        self._now = monotonic
        if attestation is None and settings.attestation:
            attestation = load_attestation(settings.attestation, settings.attestation_options)
        seconds = settings.attestation_seconds
        self.attesting = Attesting(attestation, seconds, self.metrics, clock)
        self._registered: OrderedDict[bytes, None] = OrderedDict()  # keys that asked last
        self._leases = Leases(settings.lease_seconds)
        self.body_limits = BodyLimits()
        self._reads: tuple[ExpectedUpdate, RoundSettings] | None = None  # of the plain round
        self._proved: float | None = None  # when something reached the disk
        self._room = asyncio.Semaphore(_MOST_PREPARED)
        self.server = ServerSide(settings, self.run, self.tick, clock)

    # Devices

    async def signed(self, request: Request, *, registered: bool = True) -> SignedRequest:
        """Who signed a request, before anything of its body is read.

        Args:
            request: by its headers.
            registered: whether the key must be.

        Raises:
            Problem: the request is not signed as it must be, was taken before, or its key is not
                registered, or asks too often.
        """
        signed = self.authentication.signed(request)
        if registered and signed.key not in self._registered:
            await self.run(lambda journal: _known(journal, signed.key))
            self._registered[signed.key] = None
            if len(self._registered) > _MOST_REMEMBERED:
                self._registered.popitem(last=False)
        self.authentication.take(signed)
        return signed

    async def register(
        self, request: Request, signed: SignedRequest, body: Mapping[str, Any]
    ) -> bool:
        """Register the key that signed; whether it is new.

        Raises:
            Problem: it may not.
        """
        known = await self.run(lambda journal: journal.device(signed.key))
        if known is not None:
            return False
        self.authentication.may_register(request)
        await self.attesting.check(signed.key, body)
        today, most = self._today(), self.settings.most_devices
        return await self.run(lambda journal: journal.register(signed.key, today, most))

    async def forget(self, signed: SignedRequest) -> None:
        """Remove the key that signed.

        Raises:
            Problem: it is not registered.
        """
        today = self._today()
        self._registered.pop(signed.key, None)

        def work(journal: GatewayJournal) -> None:
            _known(journal, signed.key).remove(signed.key, today)

        await self.run(work)

    # Rounds

    async def offer(self, signed: SignedRequest) -> dict[str, Any]:
        """What this device is offered, see client/gateway/messages.py."""
        return await self.run(lambda journal: self._offer(journal, signed.key))

    def _offer(self, journal: GatewayJournal, key: bytes) -> dict[str, Any]:
        current = _known(journal, key).cohort_round
        nothing = offer_message(None, self.settings.poll_seconds)
        if not current.is_offered or current.verdict(key) is not None:
            return nothing
        assert current.opened is not None
        assert current.cohort is not None
        asked = current.offer()
        cohort, free = current.cohort.nonce, current.opened.asked - current.taken
        if current.is_buffered:  # who trains as a step is made trains on
            cohort, free = "", asked.at_once
        if not self._leases.take(key, cohort, free, self._now()):
            return nothing
        offer = asked.offer
        if asked.secure is not None:
            announced = announcement(asked.secure, journal.key.public)
            offer = replace(offer, announcement=announced.to_bytes())
        return offer_message(offer, 0)

    async def update(
        self, signed: SignedRequest, headers: Mapping[str, str], number: int, body: bytes
    ) -> tuple[UpdateVerdict, str]:
        """Take an update: what became of it, which is on disk, and why."""
        figures, today = parse_figures(headers.get(FIGURES_HEADER)), self._today()
        async with self._room:
            # All that can be done before is done here: the journal's thread, which takes turns with
            # this one, then has but integers to add.
            prepared = None
            if self._reads is not None and self._reads[0].base(number) is not None:
                prepared = prepare(body, *self._reads)
            upload = Upload(signed.key, number, body, signed.digest, today, figures, prepared)
            with self._explained():
                verdict, detail = await self.worker.run_together(self._receive, upload)
        self.metrics.updates.labels(verdict.reason or "accepted").inc()
        return verdict, detail

    def _receive(
        self, journal: GatewayJournal, uploads: list[Upload]
    ) -> list[tuple[UpdateVerdict, str] | Exception]:
        most = self.settings.uploads_per_day
        results = journal.updates.receive_all(uploads, most_uploads=most)
        for upload, one in zip(uploads, results, strict=True):
            if not isinstance(one, Exception):
                self._leases.give_back(upload.key, self._now(), counts=one[0].accepted)
        return results

    async def decline(self, signed: SignedRequest, number: int) -> None:
        """Note that a device declines."""

        def work(journal: GatewayJournal) -> tuple[bool, bool]:
            current = _known(journal, signed.key).cohort_round
            self._leases.give_back(signed.key, self._now(), counts=False)
            current.decline(signed.key, number)
            return current.is_open, bool(current.relay.awaited)

        is_open, awaits = await self.run(work)
        self.server.notice(is_open=is_open, awaits=awaits)
        self.metrics.updates.labels("declined").inc()

    # Private rounds

    async def reply(self, signed: SignedRequest, number: int, stage: Stage, body: bytes) -> None:
        """Take a device's reply to a stage of a private round.

        Raises:
            Problem: it does not count.
        """
        today, most = self._today(), self.settings.uploads_per_day

        def work(journal: GatewayJournal) -> tuple[SecureReason | None, bool, bool]:
            current, key = _known(journal, signed.key).cohort_round, signed.key
            if stage is Stage.OFFER:
                reason = journal.seats.ready(
                    key, number, body, signed.digest, announcer=journal.key,
                    most_uploads=most, today=today, now=self._clock(),
                )  # fmt: skip
                self._leases.give_back(key, self._now(), counts=reason is None)
            else:
                reason = journal.seats.reply(key, number, stage, body, signed.digest)
            return reason, current.is_open, bool(current.relay.awaited)

        reason, is_open, awaits = await self.run(work)
        self.server.notice(is_open=is_open, awaits=awaits)
        word = "received" if reason is None else reason.value
        self.metrics.replies.labels(str(int(stage)), word).inc()
        if reason is not None:
            raise Problem(422, reason.value, _WHY[reason])

    async def message(self, signed: SignedRequest, number: int) -> tuple[Stage, bytes] | float:
        """What a device is to answer in a private round, or in how many seconds it may ask again.

        Raises:
            Problem: the round is over for it.
        """

        def work(journal: GatewayJournal) -> tuple[Stage, bytes] | float:
            current = _known(journal, signed.key).cohort_round
            pending = journal.seats.message(signed.key, number)
            assert current.cohort is not None
            return self._pause(current.cohort.asked) if pending is None else pending

        return await self.run(work)

    def _pause(self, asked: CohortOffer) -> float:
        """Seconds between two questions of a device for a stage: some twenty in a stage's time."""
        assert asked.secure is not None
        stage = math.ceil(asked.secure.stage_deadline / _QUESTIONS)
        return float(min(self.settings.poll_seconds, stage))

    # Releases

    async def in_force(self) -> InForce:
        """The release that devices are to have.

        Raises:
            Problem: none is known yet.
        """
        release = await self.run(lambda journal: journal.force)
        if release is None:
            raise Problem(404, "no_release", "no release is known here yet; ask again later",
                          retry_after=self.settings.poll_seconds)  # fmt: skip
        return release

    # In between

    async def tick(self) -> None:
        """What time brings: to be called every second or so."""

        def work(journal: GatewayJournal) -> tuple[bool, bool, InForce | None]:
            current, metrics = journal.cohort_round, self.metrics
            journal.end_day(self._today())
            current.close_if_over()
            wanted = current.cohort.asked.wanted if current.cohort else 0
            if current.cohort is not None and current.opened is not None:
                self.body_limits.set(current.opened.expected, current.cohort.asked.secure)
                takes = current.is_open and not current.is_private
                expected, settings = current.opened.expected, current.opened.settings
                self._reads = (expected, settings) if takes else None
            metrics.devices.set(journal.devices)
            metrics.open.set(current.is_open)
            metrics.accepted.set(current.taken if current.is_open else 0)
            metrics.wanted.set(wanted if current.is_open else 0)
            metrics.left.set(current.seconds_left())
            metrics.stage.set(current.relay.stage if current.relay.seats else 0)
            metrics.awaited.set(len(current.relay.awaited))
            return current.is_open, bool(current.relay.awaited), journal.force

        is_open, awaits, force = await self.run(work)
        self.metrics.waiting.set(self.worker.waiting)
        self.metrics.batches.set(self.worker.batches)
        self.server.notice(is_open=is_open, awaits=awaits)
        self.server.sweep(force)

    async def health(self) -> None:
        """See that an upload could be kept: what is written reaches the disk, or did a moment ago,
        and there is room for more.

        Raises:
            Problem: it could not.
        """
        await self.tick()
        now = self._now()
        if self._proved is None or now - self._proved >= _PROOF_HOLDS:
            free = await self.run(_prove) // 2**20
            if free < self.settings.free_megabytes:
                event("disk_full", logging.ERROR, free_megabytes=free)
                detail = f"there are {free} MB free on the journal's disk"
                raise Problem(503, "journal", detail, retry_after=10)
            self._proved = now

    async def run(self, work: Callable[[GatewayJournal], T]) -> T:
        """What ``work`` returns, once what it changed is on disk.

        Raises:
            Problem: the round is over, a quota is used up, or the disk fails.
        """
        with self._explained():
            return await self.worker.run(work)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """The journal's errors as problems."""
        try:
            yield
        except RoundOverError as error:
            raise Problem(409, "round_over", str(error)) from error
        except BetweenStepsError as error:
            wait = max(self.settings.poll_seconds, error.seconds / _LOOKS)
            raise Problem(503, "between_steps", str(error), retry_after=wait) from error
        except UnknownDeviceError as error:
            raise Problem(403, "unknown_device", str(error)) from error
        except QuotaError as error:
            raise Problem(429, "quota", str(error), retry_after=3600) from error
        except NotWrittenError as error:
            self._proved = None
            event("journal_failed", logging.ERROR)
            raise Problem(503, "journal", "what came could not be written; send it again",
                          retry_after=10) from error  # fmt: skip

    def _today(self) -> int:
        return int(self._clock() // _DAY)


def _known(journal: GatewayJournal, key: bytes) -> GatewayJournal:
    """``journal``, where the key is registered in it.

    Raises:
        UnknownDeviceError: it is not.
    """
    if journal.device(key) is None:
        raise UnknownDeviceError(UNKNOWN)
    return journal


def _prove(journal: GatewayJournal) -> int:
    """Bytes that are free on the journal's disk, once something was written to it.

    Raises:
        NotWrittenError: the disk cannot be asked.
    """
    journal.prove()
    try:
        return shutil.disk_usage(journal.path.parent).free
    except OSError as error:
        raise NotWrittenError(f"{journal.path}: {error}") from error
