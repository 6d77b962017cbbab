"""What a person sees while rounds run."""

from __future__ import annotations

import io

from pocketquery.server.federation.live_table import COLUMNS, LiveTable, cells, report_line
from tests.server.federation.round_reports import (
    ACCEPTED,
    NOT_FINITE,
    OVER,
    REFUSED,
    RUNNING,
    SKIPPED,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_cells_hold_what_was_asked_replied_left_out_and_decided() -> None:
    found = dict(zip(COLUMNS, cells(ACCEPTED), strict=True))
    assert found == {
        "round": "0",
        "asked": "25",
        "replied": "25",
        "left out": "declined 2, failed 1, duplicate 1, stale_round 1",
        "loss": "0.2500",
        "drift": "0.0125",
        "gate": "+0.0200 [+0.0100, +0.0300]",
        "result": "release 2",
    }
    assert cells(REFUSED)[-2:] == ("-0.0200 [+0.0100, +0.0300] mean_fell", "rejected")
    assert cells(NOT_FINITE)[-2:] == ("not_finite", "rejected")
    assert cells(RUNNING)[-5:] == ("-", "0.5000", "-", "-", "running")


def test_without_a_terminal_a_round_is_one_line_when_it_is_over() -> None:
    stream = io.StringIO()
    with LiveTable([ACCEPTED], stream=stream) as table:
        table.show(RUNNING)
        table.show(SKIPPED)
    assert stream.getvalue() == report_line(SKIPPED) + "\n"
    assert report_line(SKIPPED).endswith("skipped: 1 valid reply, <5> needed")


def test_on_a_terminal_the_table_moves_and_shows_the_running_round() -> None:
    stream = Terminal()
    with LiveTable([ACCEPTED], stream=stream) as table:
        table.show(REFUSED)
        table.show(RUNNING)
    for word in (*COLUMNS, "mean_fell", "running", "release 2"):
        assert word in stream.getvalue()


def test_nothing_is_shown_where_it_is_switched_off() -> None:
    for stream in (io.StringIO(), Terminal()):
        with LiveTable(stream=stream, enabled=False) as table:
            for row in OVER:
                table.show(row)
        assert stream.getvalue() == ""
