"""``pocketquery simulate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command, chosen_public_key
from pocketquery.sdk.errors import MissingExtraError
from pocketquery.sdk.settings.command_line import add_options, read_options

if TYPE_CHECKING:
    from pocketquery.server.federation.rounds.options import Option as RoundOption

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
    """Add the sub-command to the shell's parsers.

    Raises:
        MissingExtraError: Flower is not installed.
    """
    try:
        from pocketquery.server.federation.rounds.options import OPTIONS
        from pocketquery_simulation.options import SimulateOptions
    except ImportError as error:
        raise MissingExtraError.of(error.name or "flwr", "federation") from error
    parser = add_command(
        subparsers,
        "simulate",
        "Federated rounds over simulated devices: real training, gate and releases.",
        _EPILOG,
        _run,
    )
    add_options(parser, SimulateOptions)
    _add_rounds(parser, OPTIONS)


_DEPLOYED = ("gateways",)  # what has no meaning where devices are simulated


def _add_rounds(parser: argparse.ArgumentParser, options: Sequence[RoundOption]) -> None:
    """The options of rounds."""
    group = parser.add_argument_group("rounds and training")
    for one in options:
        if one.name in _DEPLOYED:
            continue
        if isinstance(one.default, bool):
            name = f"--no-{one.name}"
            group.add_argument(name, dest=one.name, action="store_false", help=f"not: {one.help}")
        else:
            text = f"{one.help} (default: {one.default})"
            group.add_argument(
                f"--{one.name}",
                dest=one.name,
                type=type(one.default),
                default=one.default,
                metavar=_METAVARS[type(one.default)],
                help=text,
            )


def _run(arguments: argparse.Namespace) -> int:
    # flwr, numpy and onnxruntime come with these: only when the command runs.
    from pocketquery.client.offer_limits import OfferLimits
    from pocketquery.server.federation.live_table import LiveTable
    from pocketquery.server.federation.orchestration.federation import finished_rounds
    from pocketquery.server.federation.report import summary, write_report
    from pocketquery.server.federation.rounds.options import FederationOptions
    from pocketquery_simulation.enrolment import with_enrolment
    from pocketquery_simulation.options import SimulateOptions
    from pocketquery_simulation.simulation import open_simulation, run_simulation

    chosen, given = read_options(SimulateOptions, arguments), vars(arguments)
    if arguments.secure == "on":  # simulated devices are enrolled by a simulated authority
        given = with_enrolment(given, arguments.seed)
    options = FederationOptions.of(given)
    output = Path(chosen.output)
    files = replace(chosen.files, public_key=chosen_public_key(chosen.files))
    with open_simulation(
        files,
        output,
        options,
        faults=chosen.faults,
        limits=OfferLimits.none() if chosen.any_offer else OfferLimits(),
        signing_key=chosen.signing_key,
        share=chosen.roll_out,
    ) as simulation:
        print(simulation.description, file=sys.stderr, flush=True)
        try:
            with LiveTable(finished_rounds(output), enabled=not chosen.json) as table:
                run_simulation(simulation, show=table.show)
        finally:  # also where the privacy budget is spent
            if rows := finished_rounds(output):
                write_report(output / "report.html", rows, simulation.description, options)
    result = summary(rows) | {"output": str(output)}
    print(json.dumps(result) if chosen.json else f"\nOpen {output / 'report.html'}")
    return 0
