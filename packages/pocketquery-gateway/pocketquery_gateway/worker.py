"""One thread that owns the journal and writes all tasks that wait in one transaction.

Under load many requests wait while one transaction is written; they are the next. A transaction
writes every sum that changed, so many in one cost little more than one: where some came together,
the next one lets more come, for a few times as long as the last took. So a thousand uploads a
second cost a few commits, on a slow disk as on a busy processor, and each is answered after its own
is on the disk. One that comes alone is not kept waiting.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from pocketquery.sdk.errors import ArtifactError
from pocketquery_gateway.journal import GatewayJournal

__all__ = ["NotWrittenError", "Worker"]

_MOST_TOGETHER = 512
_SHARE = 5  # of the time, at most one part goes to transactions that held so many tasks or more
_LONGEST = 0.1  # seconds from one transaction's begin to the next's that are waited for
_log = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")
_Works = Callable[[GatewayJournal, list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class _Task:
    work: _Works
    item: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class NotWrittenError(ArtifactError):
    """The journal's disk is full or fails; nothing that came was taken."""


class Worker:
    """Runs functions of the journal, in the order they come.

    Args:
        journal: which from now on this alone touches.
    """

    def __init__(self, journal: GatewayJournal) -> None:
        self._journal = journal
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="gateway-journal", daemon=True)
        self.batches = 0
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many tasks wait, roughly."""
        return self._tasks.qsize()

    async def run(self, work: Callable[[GatewayJournal], T]) -> T:
        """What ``work`` returns or raises, once what it changed is on disk.

        Raises:
            NotWrittenError: the disk is full or fails; nothing was changed.
        """

        def works(journal: GatewayJournal, _: list[None]) -> list[T | Exception]:
            return [work(journal)]

        return await self.run_together(works, None)

    async def run_together(
        self, works: Callable[[GatewayJournal, list[I]], list[T | Exception]], item: I
    ) -> T:
        """What ``works`` finds for ``item``, once what it changed is on disk.

        Args:
            works: called once for whatever items came for it one after the other; returns what it
                found for each, or the error to raise.
            item: one of them.

        Raises:
            NotWrittenError: the disk is full or fails; nothing was changed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._tasks.put(_Task(works, item, loop, future))
        return await future

    def stop(self) -> None:
        """Do what waits, then end."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        earliest = 0.0
        while (task := self._tasks.get()) is not None:
            time.sleep(max(0.0, earliest - time.monotonic()))
            began = time.monotonic()
            together, ends = [task], False
            while len(together) < _MOST_TOGETHER and not ends:
                try:
                    more = self._tasks.get_nowait()
                except queue.Empty:
                    break
                ends = more is None
                together += [] if more is None else [more]
            self._do(together)
            self.batches += 1
            took = time.monotonic() - began
            earliest = began + min(_LONGEST, took * min(_SHARE, len(together)))
            if ends:
                return

    def _do(self, together: list[_Task]) -> None:
        results: list[Any] = []
        try:
            with self._journal.batch():
                for works, tasks in groupby(together, lambda task: task.work):
                    items = [task.item for task in tasks]
                    try:
                        results += works(self._journal, items)
                    except Exception as error:
                        results += [error] * len(items)
        except Exception as error:
            _log.exception("a batch was not written")
            results = [NotWrittenError(str(error))] * len(together)
        for loop in {task.loop for task in together}:
            done = [
                (task.future, result)
                for task, result in zip(together, results, strict=True)
                if task.loop is loop
            ]
            loop.call_soon_threadsafe(_resolve, done)


def _resolve(done: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in done:
        if future.cancelled():  # whoever asked has gone; what was done is done
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
