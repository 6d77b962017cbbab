"""Calls a checker with a time limit: a device always gets an answer, and a failure is logged and
counted.

A checker may ask a server of its platform, and so may be slow, fail, or hang. Each question has a
daemon thread of its own: one that hangs holds neither a request, nor the process as it stops, nor
the threads that others work in. As many as that may hang; then new ones are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pocketquery_gateway.attestation.challenges import Challenges
from pocketquery_gateway.attestation.interface import Attestation, AttestationError, binding
from pocketquery_gateway.logs import event
from pocketquery_gateway.metrics import Metrics
from pocketquery_gateway.problems import Problem

__all__ = ["Attesting"]

_MOST_AT_ONCE = 64
_RETRY_DELAY_S = 60.0  # which a device is told to wait


class Attesting:
    """Checks that a device which registers is attested, where the gateway asks for it.

    Args:
        checker: looks at evidence; None: any device may register.
        seconds: that it has.
        metrics: where outcomes are counted.
        clock: seconds since 1970, for how long challenges hold.

    Attributes:
        challenges: that evidence is made over.
    """

    def __init__(
        self,
        checker: Attestation | None,
        seconds: float,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self.challenges = Challenges()
        self._checker = checker
        self._seconds = seconds
        self._metrics = metrics
        self._clock = clock
        self._running = 0

    def challenge(self) -> dict[str, Any]:
        """A challenge for a device, and how many seconds it holds."""
        made = self.challenges.make(self._clock())
        return {"challenge": made, "expires_in": self.challenges.seconds}

    async def check(self, key: bytes, body: Mapping[str, Any]) -> None:
        """See that what a device says as it registers ``key`` attests it.

        Raises:
            Problem: it does not (403), or that could not be found out (503).
        """
        if self._checker is None:
            return
        evidence, challenge = body.get("attestation"), body.get("challenge")
        if not isinstance(evidence, dict) or not isinstance(challenge, str):
            raise Problem(
                403,
                "attestation_needed",
                "this gateway registers attested devices alone; expected challenge (of "
                "/v1/challenge) and attestation, an object",
            )
        try:
            bound = binding(self.challenges.check(challenge, self._clock()), key)
            await self._ask(self._checker, bound, evidence)
        except AttestationError as error:
            self._metrics.attestations.labels("refused").inc()
            raise Problem(403, "attestation", str(error)) from error
        self._metrics.attestations.labels("accepted").inc()

    async def _ask(self, checker: Attestation, bound: bytes, evidence: Mapping[str, Any]) -> None:
        """Raises as the checker does where that is AttestationError, else Problem."""
        if self._running >= _MOST_AT_ONCE:
            raise self._not_found_out("busy")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[BaseException | None] = loop.create_future()

        def work() -> None:
            failure: BaseException | None = None
            try:
                checker.check(bound, evidence)
            except BaseException as error:  # whatever it is, it may not end in this thread
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(done, failure)

        def done(failure: BaseException | None) -> None:
            self._running -= 1
            if not answer.done():  # else nobody waits any more
                answer.set_result(failure)

        try:
            threading.Thread(target=work, name="gateway-attestation", daemon=True).start()
        except RuntimeError as error:  # the system has no thread left
            raise self._not_found_out("busy", error) from error
        self._running += 1  # done() comes later, by this loop
        try:
            async with asyncio.timeout(self._seconds):
                outcome = await answer
        except TimeoutError:
            raise self._not_found_out("late") from None
        if isinstance(outcome, AttestationError):
            raise outcome
        if outcome is not None:
            raise self._not_found_out("failed", outcome) from outcome

    def _not_found_out(self, why: str, error: BaseException | None = None) -> Problem:
        """What a device is told, once it is in the log and counted."""
        event("attestation_failed", logging.ERROR, error=error, why=why)
        self._metrics.attestations.labels(why).inc()
        detail = "the evidence could not be checked; register again later, with a new challenge"
        return Problem(503, "attestation_failed", detail, retry_after=_RETRY_DELAY_S)
