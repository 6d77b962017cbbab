"""Rounds, one after another, in a folder that holds all there is to know of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flwr.serverapp import Grid

from pocketquery.server.federation.round_row import RoundRow
from pocketquery.server.federation.rounds.clock import Clock
from pocketquery.server.federation.rounds.driver import Driver, Publisher
from pocketquery.server.federation.rounds.exchange import Exchange
from pocketquery.server.federation.rounds.journal import Journal
from pocketquery.server.federation.rounds.options import FederationOptions
from pocketquery.server.federation.rounds.state import FederationState
from pocketquery.server.federation.row_file import RowFile

__all__ = ["run_rounds"]


def run_rounds(
    folder: Path,
    publisher: Publisher,
    first: FederationState,
    options: FederationOptions,
    grid: Grid,
    clock: Clock,
    *,
    show: Callable[[RoundRow], None] = lambda row: None,
) -> list[RoundRow]:
    """Run the rounds that are left of ``options.rounds``; the rows of all of them.

    Args:
        folder: holds ``rounds.sqlite``, the journal, and ``rounds.json``, the rows.
        publisher: gate and releases.
        first: the state before the first round.
        options: how many rounds, and how.
        grid: how devices are reached.
        clock: for deadlines and waiting.
        show: told of every change of the running round's row.

    Raises:
        ArtifactError: too few devices connect, or the disk fails; call again to go on.
    """
    rows = RowFile(folder / "rounds.json")
    with Journal.open(folder / "rounds.sqlite", clock=clock.now) as journal:
        driver = Driver(
            Exchange(grid, clock, seed=options.seed),
            journal,
            publisher,
            first,
            settings=options.settings,
            local=options.local,
            compress=options.compress,
            clock=clock,
            show=show,
            keep=rows.keep,
        )
        while driver.next_round < options.rounds:
            driver.run_round(rows.of(driver.next_round))
        return rows.finished(journal)
