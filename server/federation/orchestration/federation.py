"""Rounds, one after another, in a folder that holds all there is to know of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from flwr.serverapp import Grid

from pocketquery.sdk.files import write_atomic
from pocketquery.sdk.plugins import load_plugin
from pocketquery.server.federation.orchestration.clock import Clock
from pocketquery.server.federation.orchestration.device_collector import DeviceCollector
from pocketquery.server.federation.orchestration.exchange import Exchange
from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.federation.orchestration.private_collector import PrivateCollector
from pocketquery.server.federation.orchestration.private_members import DeviceMembers, Members
from pocketquery.server.federation.rounds.federated_round import FederatedRound
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.parts import Collector, Publisher
from pocketquery.server.federation.rounds.round_report import RoundReport
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.private.secure_round import Environment
from pocketquery.server.private.stages import BANNER

__all__ = ["JOURNAL", "Gateways", "finished_rounds", "run_rounds"]

JOURNAL = "rounds.sqlite"
"""The journal's name in a federation's folder."""

_log = logging.getLogger(__name__)


class Gateways(Protocol):
    """Nodes that stand for many devices each: the plug-in of packages/pocketquery-gateway."""

    def collector(
        self, journal: Journal, least: int, show: Callable[[RoundReport], None]
    ) -> Collector:
        """What collects plain rounds."""

    def members(self) -> Members:
        """The devices of private rounds."""

    def announce(self, release: bytes, lineage: bytes, nodes: Sequence[int]) -> int:
        """Tell gateways the release in force; how many of them took note of it."""


def run_rounds(
    folder: Path,
    publisher: Publisher,
    first: FederationState,
    options: FederationOptions,
    grid: Grid,
    clock: Clock,
    *,
    environment: Environment | None = None,
    show: Callable[[RoundReport], None] = lambda report: None,
) -> list[RoundReport]:
    """Run the rounds that are left of ``options.rounds``; the reports of all of them.

    Args:
        folder: holds ``rounds.sqlite``, the journal; gets ``rounds.json``, the reports in it.
        publisher: gate and releases.
        first: the state before the first round.
        options: how many rounds, and how.
        grid: how devices are reached.
        clock: for deadlines and waiting.
        environment: of private rounds; None: this machine's.
        show: told of every change of the running round's report.

    Raises:
        ArtifactError: too few devices connect, or the disk fails; call again to go on.
        MissingExtraError: nodes are gateways, and packages/pocketquery-gateway is not installed.
    """
    with Journal.open(folder / JOURNAL, clock=clock.now) as journal:
        exchange = Exchange(grid, clock, seed=options.seed)
        gateways: Gateways | None = None
        if options.gateways:
            package = "./packages/pocketquery-gateway"
            load = load_plugin("pocketquery.round_nodes", "gateways", package)
            gateways = load(exchange, clock, publisher.release)
        collector = _collector(exchange, journal, clock, options, environment, show, gateways)
        one = FederatedRound(
            journal, collector, publisher, first, options, now=clock.now, show=show
        )
        while True:
            reports = _finished(journal)
            _write(folder / "rounds.json", reports)
            if one.number >= options.rounds:
                break
            one.run()
        if gateways is not None:
            version = one.in_force().version
            nodes = exchange.connected(options.gateways)
            gateways.announce(publisher.release(version), publisher.lineage(), nodes)
    return reports


def _collector(
    exchange: Exchange,
    journal: Journal,
    clock: Clock,
    options: FederationOptions,
    environment: Environment | None,
    show: Callable[[RoundReport], None],
    gateways: Gateways | None,
) -> Collector:
    """What collects rounds of ``options``."""
    if options.secure is not None:
        _log.warning("%s", BANNER)
        reach = gateways.members() if gateways else DeviceMembers(exchange)
        environment = environment or Environment()
        return PrivateCollector(exchange, journal, reach, clock, options, environment, show)
    if gateways is not None:
        return gateways.collector(journal, options.gateways, show)
    return DeviceCollector(exchange, journal, clock, options.settings.least_replies, show)


def finished_rounds(folder: Path) -> list[RoundReport]:
    """The reports of the rounds in ``folder`` that are over; none where no round was begun.

    Raises:
        ArtifactError: the journal there cannot be read, or a server has it open.
    """
    if not (folder / JOURNAL).is_file():
        return []
    with Journal.open(folder / JOURNAL) as journal:
        return _finished(journal)


def _finished(journal: Journal) -> list[RoundReport]:
    return [report for report in journal.reports() if report.version is not None]


def _write(path: Path, reports: Sequence[RoundReport]) -> None:
    """For people and dashboards; nothing here reads it."""
    body = json.dumps({"rounds": [one.to_dict() for one in reports]}, indent=1) + "\n"
    if reports and not (path.is_file() and path.read_text(encoding="utf-8") == body):
        write_atomic(path, body)
