"""Federated rounds as they are deployed: a SuperLink with TLS, SuperNodes that prove who they are.

    python examples/deployment/run_rounds.py --bundle demo/bundle --index demo/index \\
        --queries queries.tsv --output deployment

Everything runs on this machine: certificates and keys are made, one SuperLink and three SuperNodes
are started on loopback, ``flwr run`` runs two rounds, and what was started is stopped, each process
by its id, whether it went well or not. Nothing is reported to anyone and nothing is downloaded.

The queries are dealt to three devices, as if their users had searched for them; every tenth is held
out for the acceptance gate. A publisher's key signs the bundle, the releases and what is in force,
and the devices take nothing else. The output folder gets keys, logs and Flower's own folders, a
folder of each device, and server/ with the releases and report.html. Needs the extras client,
server and sign; takes two minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from certificates import make_signing_key
from loopback import Loopback

from pocketquery.client.store.store import QueryStore
from pocketquery.sdk.bundle.bundle import Bundle, write_bundle
from pocketquery.server.corpus import Query, read_queries
from pocketquery.server.federation.live_table import report_line
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.federation import finished_rounds

APP = Path(__file__).resolve().parent / "flower_app"
DEVICES = 3
HELD_OUT = 10


def main() -> int:
    arguments = parse_arguments()
    output = Path(arguments.output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    queries = read_queries(arguments.queries)
    private, public = make_signing_key(output / "publisher", "publisher")
    sign_bundle(Path(arguments.bundle), output / "bundle", private)
    config = {
        "bundle": str(output / "bundle"),
        "signing-key": str(private),
        "index": str(Path(arguments.index).resolve()),
        "folder": str(output / "server"),
        "gate-queries": str(write_held_out(output / "held-out.tsv", queries[::HELD_OUT])),
        "rounds": arguments.rounds,
        "steps": arguments.steps,
    }
    kept = [query for place, query in enumerate(queries) if place % HELD_OUT]
    devices = [
        make_device(output / f"device-{number}", kept[number::DEVICES], config)
        | {"public-key": str(public)}
        for number in range(DEVICES)
    ]
    with Loopback(output, devices) as flower:
        print("SuperLink and SuperNodes are up; running", flush=True)
        if not flower.completes(APP, config, seconds=arguments.seconds):
            return 1
    show(output / "server")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="demo/bundle", help="with a training step")
    parser.add_argument("--index", default="demo/index")
    parser.add_argument("--queries", required=True, help="tsv (id, text) or JSON Lines")
    parser.add_argument("--output", default="deployment")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="training steps on a device")
    parser.add_argument("--seconds", type=float, default=300.0, help="most the run may take")
    return parser.parse_args()


def sign_bundle(source: Path, target: Path, signing_key: Path) -> None:
    """A copy of a bundle, signed. Where you export your own: pocketquery export --signing-key."""
    bundle = Bundle.open(source)
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    write_bundle(target, bundle.manifest, files, signing_key=signing_key)


def write_held_out(path: Path, queries: Sequence[Query]) -> Path:
    """Queries for the gate, which no device has."""
    path.write_text("".join(f"{query.id}\t{query.text}\n" for query in queries), encoding="utf-8")
    return path


def make_device(
    folder: Path, queries: Sequence[Query], config: dict[str, object]
) -> dict[str, str]:
    """A device whose user consented and searched; the configuration of its SuperNode."""
    folder.mkdir(parents=True, exist_ok=True)
    with QueryStore.open(folder / "queries.sqlite") as store:
        store.give_consent()
        known = len(store)
        for query in queries[known:]:
            store.add(query.text)
    return {
        "bundle": str(config["bundle"]),
        "index": str(config["index"]),
        "state": str(folder),
        "policy": "always",  # this machine need not be idle, charging or on a network
    }


def show(folder: Path) -> None:
    """The rounds, and what to look at."""
    for report in finished_rounds(folder):
        print(report_line(report))
    print(f"\nOpen {folder / 'report.html'}, or:")
    print(f"  pocketquery releases list --registry {folder / 'releases'}")
    if Registry.open(folder / "releases").lineage():
        print(f"  pocketquery releases lineage --registry {folder / 'releases'}")


if __name__ == "__main__":
    sys.exit(main())
