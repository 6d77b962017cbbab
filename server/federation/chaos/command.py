"""``pocketquery chaos``."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketquery.sdk.commands import add_command
from pocketquery.sdk.errors import InvalidInputError
from pocketquery.server.federation.simulation.command import add_files, add_options, files_of

if TYPE_CHECKING:
    from pocketquery.server.federation.chaos.grid import Extent, Row
    from pocketquery.server.federation.rounds.options import FederationOptions

__all__ = ["chaos"]

_TRAINING = 3  # devices that train in a quick run
# What has no meaning under masks: private rounds beside plain ones leave it at its default.
_PLAIN_ALONE = (
    "largest-weight", "compress", "shards", "weighting", "client-init", "aggregation",
)  # fmt: skip
# What must come of a run is computed for rounds that end with the devices they asked.
_SYNCHRONOUS_ALONE = ("mode", "in-flight", "most-staleness")
_EPILOG = """\
examples:
  pocketquery chaos --bundle trainable --index demo/index --queries queries.tsv
  pocketquery chaos --bundle trainable --index demo/index --queries queries.tsv --quick
  pocketquery chaos --bundle trainable --index demo/index --queries queries.tsv \\
      --secure on --clients-per-round 40 --secure-least 20

Runs your rounds, with your bundle, index and settings, again and again in this process: with
devices that drop at each stage, send what they should not, or send it twice or too late, and with
processes killed at their writes. What must come of each run is computed beside it: the release must
be the aggregate, to the bit, of exactly the devices that the rules name, or the round must be
skipped for the reason that the rules give. One row for each fault and level; exit code 1 where one
is not as expected. Without --secure on, plain and private rounds are run, with it private ones
alone. Private rounds are experimental: no outside cryptographer has reviewed them.

Each device trains once, and no gate judges: this says what gets into a release, not whether it
helps; for that see pocketquery simulate. Where devices drop more than your settings have room for,
rounds are skipped, and that is as expected: what it costs is for you to judge.
"""


def chaos(subparsers: Any) -> None:
    """Add the sub-command to the shell's parsers."""
    parser = add_command(
        subparsers,
        "chaos",
        "Whether rounds with these settings survive faults: one table of pass rates.",
        _EPILOG,
    )
    add_files(parser, users=None)
    add = parser.add_argument
    add("--quick", action="store_true", help="a part of the grid, and three devices that train")
    add(
        "--network",
        metavar="SCRIPT",
        help="also run this deployment (examples/deployment/run_rounds.py) through a network that "
        "loses and delays packets; needs root and netem",
    )
    add("--output", default="chaos", metavar="FOLDER", help="gets table.json (default: chaos)")
    add("--json", action="store_true", help="print the table as one JSON object")
    add_options(parser, without=("rounds", *_SYNCHRONOUS_ALONE))
    parser.set_defaults(run=_run, gate_queries=None, gate_qrels=None)


def _run(arguments: argparse.Namespace) -> int:
    logger = logging.getLogger("pocketquery")
    level = logger.level
    logger.setLevel(logging.ERROR)  # each fault is warned of elsewhere
    try:
        return _try_all(arguments)
    finally:
        logger.setLevel(level)


def _try_all(arguments: argparse.Namespace) -> int:
    from pocketquery.client.offer_limits import OfferLimits
    from pocketquery.sdk.files import make_folder, write_atomic
    from pocketquery.server.federation.chaos.grid import Extent, Row, rows
    from pocketquery.server.federation.chaos.network import network_row
    from pocketquery.server.federation.chaos.rehearsal import open_rehearsal

    output = Path(arguments.output)
    make_folder(output)
    limits = OfferLimits.none() if arguments.any_offer else OfferLimits()
    extent = Extent.quick() if arguments.quick else Extent()
    found: list[Row] = []
    said = ""

    def show(row: Row) -> None:
        nonlocal said
        if arguments.json:
            return
        if row.expected != said:
            said = row.expected
            print(f"expected: {said}")
        print(line(row), flush=True)

    if arguments.gate_queries is None:  # no gate judges here
        arguments.gate_queries = arguments.clients
    first, *others = _options(arguments)
    assert not isinstance(first, Row)
    if arguments.users is None:
        arguments.users = first.settings.asked()
    files, training = files_of(arguments), _TRAINING if arguments.quick else None
    with open_rehearsal(files, first, limits=limits, training=training) as rehearsal:
        for options in (first, *others):  # a device trains once for all of them
            if isinstance(options, Row):
                found.append(options)
                show(options)
                continue
            same = replace(rehearsal, options=options)
            found += rows(same, extent, output / "runs", show)
    script = None if arguments.network is None else Path(arguments.network)
    found.append(network_row(script, _places(arguments), output / "network"))
    show(found[-1])
    table = summary(found, extent)
    text = json.dumps(table, indent=None if arguments.json else 1)
    write_atomic(output / "table.json", json.dumps(table, indent=1) + "\n")
    print(text if arguments.json else ending(table, output))
    return 0 if table["met"] else 1


def line(row: Row) -> str:
    """A row as the table shows it."""
    if row.not_run is not None:
        share, came = "-", f"not run: {row.not_run}"
    else:
        share = f"{row.passed}/{row.runs}"
        came = ", ".join(f"{count} x {outcome}" for outcome, count in row.outcomes.items())
    told = "".join(f"\n    NOT AS EXPECTED: {one}" for one in row.wrong)
    lost = f"  lost {row.lost}" if row.lost else ""
    return f"  {row.rounds:10} {row.fault:32} {row.level:22} {share:>6}  {came}{lost}{told}"


def summary(rows: Sequence[Row], extent: Extent) -> dict[str, Any]:
    """The table and its sums as JSON values; ``met``: whether every row is as expected."""
    return {
        "met": all(row.met for row in rows),
        "runs": sum(row.runs for row in rows),
        "passed": sum(row.passed for row in rows),
        "lost": sum(row.lost for row in rows),
        "not_run": sum(row.not_run is not None for row in rows),
        "extent": asdict(extent),
        "rows": [row.to_dict() for row in rows],
    }


def ending(table: dict[str, Any], output: Path) -> str:
    """What the table comes to, for people."""
    said = f"{table['runs']} runs, {table['passed']} as expected; lost: {table['lost']}"
    if table["not_run"]:
        said += f"; {table['not_run']} rows not run"
    if not table["met"]:
        said += f"\nWhat failed is kept in {output / 'runs'}"
    return f"\n{said}\nThe table is in {output / 'table.json'}"


def _options(arguments: argparse.Namespace) -> Iterator[FederationOptions | Row]:
    """The options of plain and of private rounds; a row that says why where there can be none."""
    from pocketquery.server.federation.chaos.grid import Row
    from pocketquery.server.federation.rounds.options import OPTIONS, FederationOptions
    from pocketquery.server.federation.simulation.enrolment import with_enrolment

    given = vars(arguments)
    if arguments.secure != "on":
        defaults = {one.name: one.default for one in OPTIONS}
        private = {one.name: one.default for one in OPTIONS if one.switch}
        yield FederationOptions.of(given | private)
        given = given | {name: defaults[name] for name in _PLAIN_ALONE} | {"secure": "on"}
    try:
        options = FederationOptions.of(with_enrolment(given, arguments.seed))
    except InvalidInputError as error:
        if arguments.secure == "on":
            raise
        yield Row("private", "all", "all", "", not_run=str(error))
        return
    yield options


def _places(arguments: argparse.Namespace) -> list[str]:
    """What a deployment is told of bundle, index and queries."""
    queries = arguments.queries or arguments.clients
    return ["--bundle", arguments.bundle, "--index", arguments.index, "--queries", queries]
