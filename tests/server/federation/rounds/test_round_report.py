"""A round's row: how it grows, what it says, and its JSON."""

from __future__ import annotations

import json

from pocketquery.server.federation.rounds.round_report import RoundReport
from tests.server.federation.round_reports import ACCEPTED, OVER, REFUSED, RUNNING, SKIPPED


def test_figures_are_the_means_of_the_accepted_replies() -> None:
    row = RoundReport(0, "1", asked=3)
    for value in (1.0, 2.0, 6.0):
        row = row.with_accepted({"loss": value})
    assert (row.accepted, row.figures) == (3, {"loss": 3.0})


def test_replies_of_every_kind_are_counted() -> None:
    row = RoundReport(0, "1").with_quarantined({"zero": 1}).with_quarantined({"replay": 1})
    row = row.with_quarantined({"zero": 1}).with_accepted({})
    assert row.quarantined == {"replay": 1, "zero": 2}
    assert row.replied == 4
    assert ACCEPTED.replied == 25


def test_the_outcome_says_what_became_of_the_round() -> None:
    found = [row.outcome for row in (ACCEPTED, REFUSED, SKIPPED, RUNNING)]
    assert found == ["release 2", "rejected", "skipped", "running"]


def test_a_row_survives_json_and_fields_of_a_newer_release() -> None:
    for row in (*OVER, RUNNING):
        found = json.loads(json.dumps(row.to_dict()))
        assert RoundReport.from_dict(found) == row
        assert RoundReport.from_dict({**found, "newer": 1}) == row
