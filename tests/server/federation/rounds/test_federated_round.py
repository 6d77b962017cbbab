"""How many files one reads to follow a plain round, on the server and on a device."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from flwr.app import Message

import pocketquery.client
import pocketquery.sdk
import pocketquery.server
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.federation import run_rounds
from pocketquery_simulation.local_grid import LocalGrid
from tests.server.federation.small_federation import Files, opened

MOST_FILES = 50
# Where the namespace package's folders are.
ROOTS = tuple(
    str(Path(one.__path__[0]).resolve()) + "/"
    for one in (pocketquery.client, pocketquery.sdk, pocketquery.server)
)


class Walk:
    """The files of ours in which a function was called, in each of two parts of the code."""

    def __init__(self) -> None:
        self.server: set[str] = set()
        self.device: set[str] = set()
        self._now = self.server

    def on_device(self, work: Callable[[Message], Message]) -> Callable[[Message], Message]:
        """``work``, whose files count as the device's."""

        def apart(message: Message) -> Message:
            self._now = self.device
            try:
                return work(message)
            finally:
                self._now = self.server

        return apart

    @contextmanager
    def noted(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name not in self._now and name.startswith(ROOTS):
            self._now.add(name)


def test_a_plain_round_is_read_in_few_files(federation: Files, tmp_path: Path) -> None:
    with opened(federation, tmp_path) as parts:
        walk, options = Walk(), replace(parts.options, rounds=1)
        devices = {node: walk.on_device(parts.devices[node]) for node in parts.devices}
        grid = LocalGrid(devices)
        with walk.noted():
            (report,) = run_rounds(
                parts.work, parts.publisher, parts.first, options, grid, VirtualClock()
            )
    assert report.outcome == "release 2"
    assert any(name.endswith("rounds/federated_round.py") for name in walk.server)
    assert any(name.endswith("client/device.py") for name in walk.device)
    print(len(walk.server), len(walk.device))
    assert len(walk.server) <= MOST_FILES, sorted(walk.server)
    assert len(walk.device) <= MOST_FILES, sorted(walk.device)
