"""Buffered asynchronous rounds beside synchronous ones, where devices are not equally fast.

    python benchmarks/buffered.py

Real devices of a 2x128 encoder train on a virtual clock: one takes from 30 to 300 seconds, log-
uniformly, the same one always as long. Both arms have
AT_ONCE devices training at a time, the same users, local training and server optimizer. A
synchronous round asks AT_ONCE and is over with four fifths of the replies; a buffered one makes a
step of every K updates, stale ones weighed 1 / sqrt(1 + releases behind). Every step is released; a
run ends with the first after SECONDS of the clock, and the acceptance gate then compares that
release with the shipped encoder.

Of each run: the gate's gain on mistyped questions, in nDCG@10; updates that counted; seconds that
devices were ready and waited for others, a device's place standing empty; seconds of training that
counted for nothing, because the round was over before it was.

Must reach: with every seed more updates and less waiting than synchronous rounds in the same time.
What that gains is told with its intervals and held to nothing: three short runs do not decide it.
The last line is one JSON object, stored as docs/results/buffered.json by ``--store``; the exit code
is 1 where a figure is missed. Ten minutes of one core.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fleet.small_fleet import SHAPE, small_fleet
from flwr.app import Message
from suite.results import store

from pocketquery.sdk.index.index import Index
from pocketquery.server.federation.orchestration.clock import VirtualClock
from pocketquery.server.federation.orchestration.federation import run_rounds
from pocketquery.server.federation.releases.gate import Gate
from pocketquery.server.federation.releases.gate_report import CLEAN, MISTYPED, AcceptanceReport
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery_simulation.files import Users
from pocketquery_simulation.local_grid import Client, LocalGrid
from pocketquery_simulation.simulation import open_simulation

USERS = 400
AT_ONCE = 20
K = 8
FASTEST, SLOWEST = 30.0, 300.0
SECONDS = 600.0
SHARED: dict[str, Any] = {"rounds": 1_000, "aggregation": "mean", "steps": 5, "least-replies": 4}
ARMS: dict[str, dict[str, Any]] = {
    "synchronous": {"clients-per-round": AT_ONCE * 4 // 5, "over-selection": 1.25},
    "buffered": {"mode": "buffered", "clients-per-round": K, "in-flight": AT_ONCE},
}


def main() -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--store", action="store_true", help="write docs/results/buffered.json")
    options = parser.parse_args()
    found = {
        arm: [measured(arm, seed).to_dict() for seed in range(1, options.seeds + 1)] for arm in ARMS
    }
    figures: dict[str, Any] = {
        "shape": SHAPE,
        "at_once": AT_ONCE,
        "arms": found,
        "counted_ratio": ratios(found, "counted"),
        "waiting_ratio": ratios(found, "waiting"),
        "wasted_ratio": ratios(found, "wasted"),
    }
    figures["reached"] = min(figures["counted_ratio"]) > 1 > max(figures["waiting_ratio"])
    if options.store:
        store("buffered", figures)
    print(json.dumps(figures))
    return 0 if figures["reached"] else 1


def ratios(found: Mapping[str, list[dict[str, Any]]], name: str) -> list[float]:
    """Buffered over synchronous, a seed each."""
    pairs = zip(found["buffered"], found["synchronous"], strict=True)
    return [round(mine[name] / max(1e-9, other[name]), 3) for mine, other in pairs]


@dataclass(frozen=True)
class Run:
    """A run; see the module. Times are of the virtual clock, in seconds; gains are the mean and the
    ends of its 95 % interval."""

    seconds: float
    waiting: float
    wasted: float
    trained: int
    counted: int
    steps: int
    staleness: float
    mistyped: tuple[float, float, float]
    clean: tuple[float, float, float]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in vars(self).items()
        }


class PacedGrid(LocalGrid):
    """Devices that take their time: a reply is there once the clock says so.

    Args:
        clients: the devices.
        clock: of the rounds.
        seconds: how long a node takes.
        keeps: see LocalGrid.
    """

    def __init__(
        self,
        clients: Mapping[int, Client],
        clock: VirtualClock,
        seconds: Callable[[int], float],
        *,
        keeps: bool,
    ) -> None:
        super().__init__(clients, keeps=keeps)
        self._clock, self._seconds = clock, seconds
        self.asked: dict[str, tuple[float, float]] = {}  # when, and when it is ready
        self.heard: dict[str, float] = {}

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Take messages, and note when their replies are ready."""
        pushed = list(messages)
        ids = super().push_messages(pushed)
        now = self._clock.now()
        for one, message in zip(ids, pushed, strict=True):
            self.asked[one] = (now, now + self._seconds(message.metadata.dst_node_id))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that are ready."""
        due = [one for one in message_ids if self.asked[one][1] <= self._clock.now()]
        found = super().pull_messages(due) if due else []
        for message in found:
            self.heard[message.metadata.reply_to_message_id] = self._clock.now()
        return found

    def spent(self, ends: Iterable[float]) -> tuple[float, float]:
        """Seconds waited by devices that were ready, and trained for nothing, of synchronous
        rounds that were over at these moments; of the last message on, nothing is known."""
        waiting = wasted = 0.0
        moments = np.array(sorted(ends))
        for one, (began, ready) in self.asked.items():
            place = int(np.searchsorted(moments, began, side="right"))
            if place == len(moments):
                continue
            if one in self.heard:
                waiting += max(0.0, moments[place] - ready)
            else:
                wasted += moments[place] - began
        return waiting, wasted


class Reached(Exception):
    """The run is over."""


def measured(arm: str, seed: int) -> Run:
    """One run."""
    options = FederationOptions.of({**SHARED, **ARMS[arm], "seed": seed})
    clock, rows, ends = VirtualClock(), list[RoundReport](), list[float]()
    buffered = options.settings.is_buffered

    def seconds(node: int) -> float:
        share = np.random.default_rng([seed, node]).random()
        return float(FASTEST * (SLOWEST / FASTEST) ** share)

    def show(report: RoundReport) -> None:
        if report.version is None:
            return
        rows.append(report)
        ends.append(clock.now())
        if clock.now() > SECONDS:
            raise Reached

    with (
        tempfile.TemporaryDirectory() as folder,
        open_simulation(small_fleet(USERS), Path(folder), options) as simulation,
    ):
        grid = PacedGrid(simulation.devices, clock, seconds, keeps=buffered)
        bundle, files = simulation.files.open_bundle(), simulation.files
        publisher = RegistryPublisher(bundle, Path(folder) / "all", None)
        with contextlib.suppress(Reached):
            run_rounds(Path(folder), publisher, simulation.first, options, grid, clock, show=show)
        setup = simulation.devices.training_setup
        assert isinstance(setup.documents, Index)
        collection = files.read_gate(setup.documents, setup.encoder, Users({}))
        report = Gate(bundle, collection).judge(None, publisher.registry.read())
    if buffered:  # a place is taken again as soon as its device is heard
        waiting = sum(now - grid.asked[one][1] for one, now in grid.heard.items())
        wasted = 0.0
    else:
        waiting, wasted = grid.spent(ends)
    stale = [row.staleness for row in rows if row.staleness is not None]
    found = Run(
        seconds=clock.now(),
        waiting=float(waiting),
        wasted=float(wasted),
        trained=len(grid.heard),
        counted=sum(row.accepted for row in rows),
        steps=len(rows),
        staleness=float(np.mean(stale)) if stale else 0.0,
        mistyped=_interval(report, MISTYPED),
        clean=_interval(report, CLEAN),
    )
    print(f"{arm} seed {seed}: {found.to_dict()}", flush=True)
    return found


def _interval(report: AcceptanceReport, name: str) -> tuple[float, float, float]:
    found = report.sets[name].difference
    return round(found.estimate, 5), round(found.low, 5), round(found.high, 5)


if __name__ == "__main__":
    sys.exit(main())
