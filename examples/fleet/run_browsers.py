"""A fleet of two browsers: search pages that take part in a round, and use what it releases.

    make demo && (cd sdk/js && npm ci && npm run build)
    python examples/fleet/run_browsers.py

Everything runs on this machine: a SuperLink with TLS and node authentication, one gateway
(``pocketquery gateway``) with its Flower node, the search page, and headless
Chromium with two profiles. In each the user agrees to keep searches, searches and opens results,
and agrees to take part. ``flwr run`` runs a round: both pages train in WebAssembly and send their
updates, the gate passes a release, and both pages fetch it, check whose it is and search with it.
What was started is stopped, each process by its id. Nothing is reported to anyone and nothing is
downloaded.

Page and gateway speak http on loopback, which browsers take for secure; the page's origin is the
only one that the gateway answers. The output folder gets pictures of the pages, browsers.json with
what they said, keys, logs and server/ with the releases and report.html. Needs the extra server,
packages/pocketquery-gateway, Node, and Chromium; takes four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "deployment")]

from gateways import app_of_gateways, socket_of, start_gateway  # noqa: E402
from loopback import Loopback, free_ports  # noqa: E402
from processes import Processes  # noqa: E402
from trial import add_arguments, make_trial, show  # noqa: E402

from pocketquery.server.corpus import Query  # noqa: E402
from pocketquery.server.federation.releases.registry import Registry  # noqa: E402

PAGES = 2
SEARCHES = 36  # on each page; a device takes part from 32 different ones on
SERVE = HERE.parent / "web" / "serve.py"
PACKAGE = HERE.parents[1] / "sdk" / "js"


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    output = Path(arguments.output).resolve()
    if (output / "server").exists():
        print(f"{output} has rounds of an earlier start; name another --output", file=sys.stderr)
        return 2
    options = {
        "learning-rate": arguments.learning_rate,
        "gateways": 1,
        "clients-per-round": PAGES,
        "aggregation": "mean",  # a median needs three
        "deadline": 300.0,
    }
    trial = make_trial(arguments, **options)
    searches = [searches_of(page, trial.kept) for page in range(PAGES)]
    gateway, page = (f"127.0.0.1:{port}" for port in free_ports(2))
    with (
        Loopback(output, [{"gateway": str(socket_of(output, 0))}], seconds=300.0) as flower,
        Processes(output / "logs") as processes,
    ):
        # No authority that a browser trusts would vouch for a name of loopback, and none is needed.
        settings = {"listen": gateway, "authorities": [gateway], "origins": [f"http://{page}"]}
        start_gateway(processes, output, 0, settings)
        places = [f"--{name}={trial.config[name]}" for name in ("bundle", "index")]
        command: list[str | Path] = [sys.executable, SERVE, *places]
        command += ["--port", page.rpartition(":")[2], "--gateway", f"http://{gateway}"]
        command += ["--release-key", trial.public]
        processes.start("page", command, os.environ)
        processes.wait_for(partial(has_said, processes.log("page"), "http://"), "the page", 60.0)
        start_browsers(processes, output, page, searches, arguments)
        says = partial(has_said, processes.log("browsers"))
        processes.wait_for(partial(says, '"joined"'), "both pages", arguments.seconds)
        print("SuperLink, gateway and both pages are up; running", flush=True)
        if not flower.completes(app_of_gateways(output), trial.config, seconds=arguments.seconds):
            return 1
        processes.wait_for(partial(says, '"accepted"'), "both updates", arguments.seconds)
        show(output / "server")
        releases = Registry.open(output / "server" / "releases")
        if releases.current().version == releases.history()[0].version:
            print("The gate passed no release: it takes more queries to be sure of a gain.")
            return 1
        found = output / "browsers.json"
        processes.wait_for(found.is_file, "the release on both pages", arguments.seconds)
    for number, said in enumerate(json.loads(found.read_text(encoding="utf-8"))["pages"]):
        print(f"Page {number}: {said['last']}. Encoder {said['before']}, then {said['after']}.")
    print(
        f"Release {releases.current().version} is in force; pictures of the pages are in {output}."
    )
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser, "browsers", seconds=600.0)
    parser.set_defaults(rounds=1)
    parser.add_argument("--learning-rate", type=float, default=0.003, help="of the pages")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    parser.add_argument("--chromium", default=chromium)
    return parser.parse_args()


def searches_of(page: int, kept: Sequence[Query]) -> list[str]:
    """What the user of a page searches for: other queries than the gate's and the other page's."""
    mine = list(dict.fromkeys(query.text for query in kept[page::PAGES]))
    return mine[:: max(1, len(mine) // SEARCHES)][:SEARCHES]


def start_browsers(
    processes: Processes,
    output: Path,
    page: str,
    searches: Sequence[Sequence[str]],
    arguments: argparse.Namespace,
) -> None:
    """Both users at their pages; they say when they take part, and at the end browsers.json."""
    settings = {
        "playwright": str(PACKAGE / "node_modules" / "playwright-core" / "index.js"),
        "chromium": arguments.chromium,
        "page": f"http://{page}/",
        "searches": searches,
        "output": str(output),
        "seconds": arguments.seconds,
    }
    file = output / "browsers-settings.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    processes.start("browsers", ["node", HERE / "browsers.mjs", file], os.environ)


def has_said(log: Path, word: str) -> bool:
    return word in log.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main())
