"""Reports of the acceptance gate, as it gives them, for tests of what is done with them."""

from __future__ import annotations

import dataclasses

from pocketquery.client.bootstrap import Interval
from pocketquery.client.training.monitors import Health
from pocketquery.server.federation.releases.gate_report import (
    AcceptanceReport,
    Comparison,
    GateSettings,
    Verdict,
)

ACCEPTED = AcceptanceReport(
    verdict=Verdict.ACCEPTED,
    detail="+0.0100 [+0.0020, +0.0180]",
    queries=500,
    sets={"clean": Comparison(0.70, 0.71, 0.69, Interval(0.01, 0.002, 0.018))},
    health=Health(90.0, 0.95, 0.02, 1.0, 1.0),
    settings=GateSettings(),
)
REJECTED = dataclasses.replace(
    ACCEPTED,
    verdict=Verdict.MEAN_FELL,
    detail="the mean difference from the release in force is -0.0200",
    sets={"clean": Comparison(0.70, 0.68, 0.69, Interval(-0.02, -0.03, -0.01))},
)
