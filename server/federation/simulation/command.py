"""``pocketquery simulate``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command, add_public_key, chosen_public_key
from pocketquery.sdk.errors import MissingExtraError

if TYPE_CHECKING:
    from pocketquery.server.federation.simulation.files import SimulationFiles

__all__ = ["simulate"]

_METAVARS: dict[type, str] = {int: "N", float: "X", str: "NAME"}
_EPILOG = """\
examples:
  pocketquery simulate --bundle demo/bundle --index demo/index --queries queries.tsv
  pocketquery simulate --bundle demo/bundle --index demo/index --clients clients.jsonl \\
      --gate-queries heldout.tsv --gate-qrels qrels.tsv --rounds 50 --opened-weight 1

The bundle must carry a training step (pocketquery export --training-step). --clients has a user's
query a line: {"client": "anna", "query": "...", "shown": ["id", ...], "opened": "id"}; the last two
may be missing. With --queries, synthetic users each get queries on a few topics, and every tenth is
held out. Without --gate-qrels the gate asks held-out queries mistyped, and relevant is what the
shipped encoder finds first for the query as it was. Only what is shown to find more is released.

The output folder gets releases/ (see pocketquery releases), report.html, rounds.json and the
journal. Killed and run again with the same options, the simulation goes on where it was; run again
with more --rounds, it goes on from its end. One --seed gives the same bits.

--signing-key signs the releases and the statements of what is in force, and the simulated devices
take no others; see pocketquery releases.

--secure on simulates private rounds, whose devices a simulated authority enrols. They are
experimental: no outside cryptographer has reviewed them.
"""


def simulate(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "simulate",
        "Federated rounds over simulated devices: real training, gate and releases.",
        _EPILOG,
        _run,
    )
    add = parser.add_argument
    add(
        "--bundle",
        required=True,
        metavar="PATH",
        help="what the devices have, with a training step",
    )
    add_public_key(parser)
    add("--index", required=True, metavar="FOLDER", help="the index that the devices search")
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--clients", metavar="FILE", help="users and their queries, JSON Lines")
    whose.add_argument("--queries", metavar="FILE", help="queries (tsv or JSON Lines) to deal out")
    add(
        "--users",
        type=int,
        default=1000,
        metavar="N",
        help="users to deal --queries to (default: 1000)",
    )
    add(
        "--queries-each",
        type=int,
        default=40,
        metavar="N",
        help="queries of each of them (default: 40)",
    )
    add(
        "--any-offer",
        action="store_true",
        help="devices accept what real ones decline: few steps, few queries, no clipping",
    )
    add("--gate-queries", metavar="FILE", help="held-out queries for the acceptance gate")
    add("--gate-qrels", metavar="FILE", help="their judgements: query id, document id, grade")
    add(
        "--faults",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of devices that die, lag or repeat",
    )
    add(
        "--signing-key",
        metavar="FILE",
        help="Ed25519 private key of the releases: PEM or 64 digits",
    )
    add(
        "--roll-out",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="of the devices that search with a new release at first; needs --signing-key",
    )
    add("--output", default="simulation", metavar="FOLDER", help="default: simulation")
    add("--json", action="store_true", help="print the result as one JSON object")
    _add_options(parser)


_DEPLOYED = ("gateways",)  # what has no meaning where devices are simulated


def _add_options(parser: argparse.ArgumentParser) -> None:
    """The options of rounds.

    Raises:
        MissingExtraError: Flower is not installed.
    """
    try:
        from pocketquery.server.federation.rounds.options import OPTIONS
    except ImportError as error:
        raise MissingExtraError.of(error.name or "flwr", "federation") from error
    group = parser.add_argument_group("rounds and training")
    for one in OPTIONS:
        if one.name in _DEPLOYED:
            continue
        if isinstance(one.default, bool):
            name = f"--no-{one.name}"
            group.add_argument(name, dest=one.name, action="store_false", help=f"not: {one.help}")
        else:
            said = f"{one.help} (default: {one.default})"
            group.add_argument(
                f"--{one.name}",
                dest=one.name,
                type=type(one.default),
                default=one.default,
                metavar=_METAVARS[type(one.default)],
                help=said,
            )


def _run(arguments: argparse.Namespace) -> int:
    # flwr, numpy and onnxruntime come with these: only when the command runs.
    from pocketquery.client.offer_limits import OfferLimits
    from pocketquery.server.federation.live_table import LiveTable
    from pocketquery.server.federation.orchestration.federation import finished_rounds
    from pocketquery.server.federation.report import summary, write_report
    from pocketquery.server.federation.rounds.options import FederationOptions
    from pocketquery.server.federation.simulation.enrolment import with_enrolment
    from pocketquery.server.federation.simulation.simulation import open_simulation, run_simulation

    given = vars(arguments)
    if arguments.secure == "on":  # simulated devices are enrolled by a simulated authority
        given = with_enrolment(given, arguments.seed)
    options = FederationOptions.of(given)
    output = Path(arguments.output)
    limits = OfferLimits.none() if arguments.any_offer else OfferLimits()
    with open_simulation(
        _files_of(arguments),
        output,
        options,
        faults=arguments.faults,
        limits=limits,
        signing_key=arguments.signing_key,
        share=arguments.roll_out,
    ) as simulation:
        print(simulation.description, file=sys.stderr, flush=True)
        try:
            with LiveTable(finished_rounds(output), enabled=not arguments.json) as table:
                run_simulation(simulation, show=table.show)
        finally:  # also where the privacy budget is spent
            if rows := finished_rounds(output):
                write_report(output / "report.html", rows, simulation.description, options)
    found = summary(rows) | {"output": str(output)}
    print(json.dumps(found) if arguments.json else f"\nOpen {output / 'report.html'}")
    return 0


def _files_of(arguments: argparse.Namespace) -> SimulationFiles:
    from pocketquery.server.federation.simulation.files import SimulationFiles

    def path(name: str) -> Path | None:
        given = getattr(arguments, name)
        return None if given is None else Path(given)

    return SimulationFiles(
        bundle=arguments.bundle,
        public_key=chosen_public_key(arguments),
        index=Path(arguments.index),
        clients=path("clients"),
        queries=path("queries"),
        users=arguments.users,
        queries_each=arguments.queries_each,
        gate_queries=path("gate_queries"),
        gate_qrels=path("gate_qrels"),
    )
