"""A fleet of devices behind gateways: rounds over HTTPS, Flower, the gate, and the release back.

    python examples/fleet/run_fleet.py --bundle demo/bundle --index demo/index \\
        --queries queries.tsv --output fleet

Everything runs on this machine: one SuperLink with TLS and node authentication, three gateways
(``pocketquery gateway``) with a Flower node each, three devices (``pocketquery join``) that know
nothing of Flower: they register with a key, poll over HTTPS, train, upload and fetch what the gate
released. ``flwr run`` runs two rounds; then every device must have the release in force. What was
started is stopped, each process by its id. Nothing is reported to anyone and nothing is downloaded.

The output folder gets keys, logs and Flower's own folders, a folder of each device and of each
gateway, and server/ with the releases and report.html. Needs the extras client, gateway and server;
takes two minutes.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "deployment")]

from certificates import make_server_certificate, make_signing_key  # noqa: E402
from gateways import app_of_gateways, socket_of, start, start_gateway  # noqa: E402
from loopback import Loopback  # noqa: E402
from processes import Processes  # noqa: E402
from run_rounds import make_device, show, sign_bundle, write_held_out  # noqa: E402

from pocketquery.client.gateway.participation import RELEASE  # noqa: E402
from pocketquery.server.corpus import read_queries  # noqa: E402
from pocketquery.server.federation.releases.registry import Registry  # noqa: E402

DEVICES = 3
GATEWAYS = 3  # as many as devices: a round is dealt evenly to them, in no order
HELD_OUT = 10


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
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
        "gateways": GATEWAYS,
        "clients-per-round": DEVICES,
        "shards": DEVICES,
        "deadline": 300.0,
    }
    kept = [query for place, query in enumerate(queries) if place % HELD_OUT]
    devices = [
        make_device(output / f"device-{number}", kept[number::DEVICES], config)
        | {"public-key": str(public)}
        for number in range(DEVICES)
    ]
    certificate = make_server_certificate(output / "tls")
    nodes = [{"gateway": str(socket_of(output, number))} for number in range(GATEWAYS)]
    with (
        Loopback(output, nodes, seconds=300.0) as flower,
        Processes(output / "logs") as processes,
    ):
        tls = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
        ports = [start_gateway(processes, output, number, tls) for number in range(GATEWAYS)]
        for number, device in enumerate(devices):
            port = ports[number % GATEWAYS]
            start_device(processes, number, device, port, certificate.authority)
        print("SuperLink, gateways and devices are up; running", flush=True)
        if not flower.completes(app_of_gateways(output), config, seconds=arguments.seconds):
            return 1
        release = Registry.open(output / "server" / "releases").read()
        files = [output / f"device-{number}" / RELEASE for number in range(DEVICES)]
        processes.wait_for(
            lambda: all(path.is_file() and path.read_bytes() == release for path in files),
            "the release on every device",
            120.0,
        )
    show(output / "server")
    version = Registry.open(output / "server" / "releases").current().version
    print(f"Every device has release {version}: {RELEASE} in its folder.")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="demo/bundle", help="with a training step")
    parser.add_argument("--index", default="demo/index")
    parser.add_argument("--queries", required=True, help="tsv (id, text) or JSON Lines")
    parser.add_argument("--output", default="fleet")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="training steps on a device")
    parser.add_argument("--seconds", type=float, default=400.0, help="most the run may take")
    return parser.parse_args()


def start_device(
    processes: Processes, number: int, device: Mapping[str, str], port: int, authority: Path
) -> None:
    """``pocketquery join``, which asks for offers until it is stopped."""
    options: list[str | Path] = ["--gateway", f"https://127.0.0.1:{port}", "--authority", authority]
    for name in ("bundle", "index", "state", "public-key", "policy"):
        options += [f"--{name}", device[name]]
    start(
        processes,
        f"device-{number}",
        ("pocketquery.client.gateway.join_command", "join"),
        *options,
        "--json",
    )


if __name__ == "__main__":
    sys.exit(main())
