"""Rows of rounds: accepted, refused, skipped, running; for tests of what shows them."""

from __future__ import annotations

from pocketquery.server.federation.rounds.round_report import RoundReport

GATE = {
    "accepted": True,
    "reason": "accepted",
    "metric": "ndcg@10",
    "before": 0.5,
    "after": 0.52,
    "low": 0.01,
    "high": 0.03,
}
ACCEPTED = RoundReport(
    0,
    "1",
    asked=25,
    accepted=20,
    declined=2,
    failed=1,
    quarantined={"duplicate": 1, "stale_round": 1},
    figures={"loss": 0.25, "drift": 0.0125},
    gate=GATE,
    version="2",
)
REFUSED = RoundReport(
    1,
    "2",
    asked=25,
    accepted=20,
    gate={**GATE, "accepted": False, "reason": "mean_fell", "before": 0.52, "after": 0.5},
    version="2",
)
NOT_FINITE = RoundReport(
    2,
    "2",
    asked=25,
    accepted=20,
    gate={
        **GATE,
        "accepted": False,
        "reason": "not_finite",
        "before": 0.52,
        "after": None,
        "low": None,
    },
    version="2",
)
SKIPPED = RoundReport(
    3, "2", asked=25, accepted=1, skipped="1 valid reply, <5> needed", version="2"
)
RUNNING = RoundReport(4, "2", asked=25, accepted=3, figures={"loss": 0.5})
OVER = (ACCEPTED, REFUSED, NOT_FINITE, SKIPPED)
