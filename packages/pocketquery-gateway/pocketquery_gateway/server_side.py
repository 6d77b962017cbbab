"""What a gateway does for the server: its rounds, the stages of private ones, releases. control.py
speaks HTTP around it.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pocketquery.client.private.messages import Stage
from pocketquery.sdk.bundle.adapter import LARGEST_RELEASE, parse_adapter
from pocketquery.sdk.files import remove_file, sha256_bytes, write_atomic
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer, left_by
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.journal import GatewayJournal
from pocketquery_gateway.logs import event
from pocketquery_gateway.problems import Problem
from pocketquery_gateway.rounds.tables import InForce
from pocketquery_gateway.settings import GatewaySettings

__all__ = ["ServerSide"]

_KEPT_SECONDS = 7 * 86_400


class RunInJournal(Protocol):
    """Runs a function of the journal, and gives its result once that is on disk."""

    def __call__(self, work: Callable[[GatewayJournal], Any]) -> Awaitable[Any]: ...


class ServerSide:
    """The server's side of one gateway.

    Args:
        settings: how it is run.
        run: as :meth:`Gateway.run`.
        tick: as :meth:`Gateway.tick`.
        clock: seconds since 1970, for how long releases are kept.

    Attributes:
        answered: set while the cohort's answer is there.
        replied: set while no device is awaited in the stage of a private round.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        run: RunInJournal,
        tick: Callable[[], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self.answered = asyncio.Event()
        self.replied = asyncio.Event()
        self._settings = settings
        self._run = run
        self._tick = tick
        self._clock = clock
        self._asked: tuple[str, Stage, tuple[int, ...]] | None = None
        settings.releases.mkdir(mode=0o700, parents=True, exist_ok=True)

    def notice(self, *, is_open: bool, awaits: bool) -> None:
        """Wake up who waits for what is there now."""
        for happened, is_set in ((self.answered, not is_open), (self.replied, not awaits)):
            if is_set:
                happened.set()
            else:
                happened.clear()

    async def begin(self, asked: CohortOffer) -> bool:
        """Take the server's offer; whether a round was begun."""
        await self._keep_releases(asked.offer.release, asked.left_release)
        asked = replace(asked, left_release=b"")  # its file has it, the journal need not
        begun: bool = await self._run(lambda journal: journal.begin(asked))
        self.answered.clear()
        if begun:
            event("round_begun", round=asked.offer.round, wanted=asked.wanted,
                  private=asked.secure is not None)  # fmt: skip
        await self._tick()
        return begun

    async def answer(self, digest: str, wait: float) -> bytes | None:
        """The cohort's answer to the server's offer; None where it is not there in ``wait`` s."""

        def work(journal: GatewayJournal) -> bytes | None:
            return journal.cohort_round.answer(digest)

        reply: bytes | None = await self._run(work)
        if reply is None and await _within(self.answered, wait):
            reply = await self._run(work)
        return reply

    async def begin_stage(self, bundle: StageBundle) -> bool:
        """Take the server's messages of a stage of a private round; whether it is a new one.

        Raises:
            Problem: no such round is here, or a later stage is open.
        """
        begun: bool = await self._run(lambda journal: journal.seats.begin_stage(bundle))
        self._asked = (bundle.digest, bundle.stage, tuple(bundle.bodies))
        if begun:
            event("stage_begun", round=bundle.round, stage=int(bundle.stage),
                  devices=len(bundle.bodies))  # fmt: skip
        await self._tick()
        return begun

    async def stage_replies(self, digest: str, wait: float, *, last: bool) -> bytes | None:
        """The replies of a stage, once all have come; None where they have not in ``wait`` s.

        Args:
            digest: of the stage's messages.
            wait: seconds.
            last: those that came, where some have not.

        Raises:
            Problem: the gateway does not know what was asked, or knows better; ask again.
        """
        if self._asked is None or self._asked[0] != digest:
            raise Problem(409, "no_stage", "the gateway was not asked this; send the stage again")
        _, stage, seats = self._asked
        await _within(self.replied, wait)

        def work(journal: GatewayJournal) -> bytes | None:
            current, opened = journal.cohort_round.relay, journal.cohort_round.opened
            replied, gone = current.replies(stage, seats)
            if opened is None or (len(replied) + len(gone) < len(seats) and not last):
                return None
            return StageBundle(opened.state.round, stage, replied, gone=tuple(gone)).to_bytes()

        replies: bytes | None = await self._run(work)
        return replies

    async def announce(self, announced: AnnouncedRelease) -> None:
        """Take note of the release in force, and serve it. No round follows: the server says so as
        it ends."""
        await self._keep_releases(announced.release, announced.left_release)

        def work(journal: GatewayJournal) -> str:
            journal.cohort_round.end()
            return journal.announce(announced.release, announced.lineage).version

        event("release", version=await self._run(work))

    def sweep(self, force: InForce | None) -> None:
        """Remove releases that were replaced a week ago: they are not asked for any more."""
        named, now = _named(force), self._clock()
        for path in self._settings.releases.glob("*.safetensors"):
            if path.stem not in named and path.stat().st_mtime < now - _KEPT_SECONDS:
                remove_file(path)

    async def _keep_releases(self, release: bytes, left: bytes) -> None:
        """The files first, then the journal's word for them: what is named is there. A file's time
        is when it was last named, for :meth:`sweep`. ``left`` is empty where no roll-out runs."""
        releases = [release, left] if left else [release]
        for one in releases:
            if len(one) > LARGEST_RELEASE:
                raise Problem(413, "release", f"a release has at most {LARGEST_RELEASE} bytes")
            parse_adapter(one, "the release")
        replaced = _named(await self._run(lambda journal: journal.force))
        now = self._clock()
        paths = {self._file(sha256_bytes(one)): one for one in releases}
        for path, one in paths.items():
            if not path.is_file():
                write_atomic(path, one)
        for path in (*paths, *map(self._file, replaced)):
            if path.is_file():
                os.utime(path, (now, now))

    def _file(self, sha256: str) -> Path:
        return self._settings.releases / f"{sha256}.safetensors"


@functools.lru_cache(maxsize=1)  # asked every second
def _named(force: InForce | None) -> frozenset[str]:
    """The SHA-256 of the releases that devices are told to have."""
    if force is None:
        return frozenset()
    left = left_by(force.lineage)
    return frozenset((force.sha256,) if left is None else (force.sha256, left.sha256))


async def _within(happens: asyncio.Event, seconds: float) -> bool:
    """Whether it happens within so many seconds."""
    if seconds > 0:
        try:
            await asyncio.wait_for(happens.wait(), seconds)
        except TimeoutError:
            return False
    return happens.is_set()
