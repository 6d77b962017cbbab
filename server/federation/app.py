"""Flower's ServerApp: the rounds of a federation, behind a SuperLink.

``flwr run`` starts it with the run configuration of its app (examples/deployment/flower_app):
``bundle``, what the devices have; ``folder``, which gets the journal, the releases and
the report; ``index`` and ``gate-queries`` for the acceptance gate, with ``gate-qrels`` where there
are judgements; optionally ``signing-key``, and with it ``roll-out``, the share of the devices that
search with a new release at first (1: all); and the options of options.py. Started again, it goes
on with what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.index.index import open_index
from pocketquery.server.corpus import read_judgements, read_queries
from pocketquery.server.federation.live_table import LiveTable
from pocketquery.server.federation.orchestration.clock import SystemClock
from pocketquery.server.federation.orchestration.federation import finished_rounds, run_rounds
from pocketquery.server.federation.releases.gate import Gate, GateCollection
from pocketquery.server.federation.releases.gate_data import judged_by_people, judged_by_shipped
from pocketquery.server.federation.releases.publishing import RegistryPublisher
from pocketquery.server.federation.report import write_report
from pocketquery.server.federation.rounds.options import OPTIONS, FederationOptions
from pocketquery.server.federation.rounds.state import FederationState

__all__ = ["app", "run_federation"]

_PLACES = ("bundle", "folder", "index", "gate-queries", "gate-qrels", "signing-key")
_OPTIONAL = {"gate-qrels", "signing-key"}
_ROLL_OUT = "roll-out"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds that are left."""
    run_federation(grid, context.run_config)


def run_federation(grid: Grid, config: Mapping[str, Any]) -> None:
    """The rounds that ``config`` describes, over ``grid``.

    Raises:
        InvalidInputError: a place is missing from it, a name is unknown, or a value out of range.
        ArtifactError: what lies there cannot be used, or too few devices connect.
    """
    _check_names(config)
    options = FederationOptions.of(config).with_secret_shards()
    places = {name: Path(str(config[name])) for name in _PLACES if config.get(name)}
    bundle, folder = Bundle.open(places["bundle"]), places["folder"]
    gate = Gate(bundle, _collection(bundle, places))
    publisher = RegistryPublisher(
        bundle,
        folder / "releases",
        gate,
        signing_key=places.get("signing-key"),
        share=config.get(_ROLL_OUT, 1.0),
    )
    first = FederationState.of_bundle(bundle)
    try:
        with LiveTable() as table:
            run_rounds(folder, publisher, first, options, grid, SystemClock(), show=table.show)
    finally:  # also where the privacy budget is spent
        if rows := finished_rounds(folder):
            lead = f"Rounds of the bundle {bundle.manifest.name}"
            write_report(folder / "report.html", rows, lead, options)


def _collection(bundle: Bundle, places: Mapping[str, Path]) -> GateCollection:
    queries = read_queries(places["gate-queries"])
    with open_index(places["index"]) as index:
        if "gate-qrels" in places:
            return judged_by_people(index, queries, read_judgements(places["gate-qrels"]))
        encoder = Encoder.of_bundle(bundle)
        return judged_by_shipped(index, encoder, [query.text for query in queries])


def _check_names(config: Mapping[str, Any]) -> None:
    known = {*_PLACES, _ROLL_OUT, *(option.name for option in OPTIONS)}
    missing = [name for name in _PLACES if not config.get(name) and name not in _OPTIONAL]
    unknown = sorted(config.keys() - known)
    if missing or unknown:
        raise InvalidInputError(
            f"the run configuration lacks {', '.join(missing) or 'nothing'} and has unknown "
            f"{', '.join(unknown) or 'nothing'}; expected {', '.join(sorted(known))}"
        )
