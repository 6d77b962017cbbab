"""A fleet of devices behind gateways: rounds over HTTPS, Flower, the gate, and the release back.

    make demo
    python examples/fleet/run_fleet.py

Everything runs on this machine: one SuperLink with TLS and node authentication, three gateways
(``pocketquery gateway``) with a Flower node each, three devices (``pocketquery join``) that know
nothing of Flower: they register with a key, poll over HTTPS, train, upload and fetch what the gate
released. ``flwr run`` runs two rounds; then every device must have the release in force. What was
started is stopped, each process by its id. Nothing is reported to anyone and nothing is downloaded.

With ``--private`` the devices are enrolled and the rounds private: gateways and server learn sums
alone, and a gateway carries messages that it cannot read. Groups of three devices are for a trial:
they hide little. Private rounds are experimental; no outside cryptographer has reviewed them.

With ``--buffered`` no device waits for another: the server makes a step of the first updates that
come, from whichever release they began, and devices that are through begin anew meanwhile.

The output folder gets keys, logs and Flower's own folders, a folder of each device and of each
gateway, and server/ with the releases and report.html. Needs the extra server and
packages/pocketquery-gateway; takes two minutes.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "deployment")]

from certificates import make_server_certificate  # noqa: E402
from gateways import app_of_gateways, socket_of, start, start_gateway  # noqa: E402
from loopback import Loopback  # noqa: E402
from processes import Processes  # noqa: E402
from trial import add_arguments, make_trial, show  # noqa: E402

from pocketquery.server.federation.releases.registry import Registry  # noqa: E402
from pocketquery_join.participation import RELEASE  # noqa: E402

DEVICES = 3
GATEWAYS = 3  # as many as devices: a round is dealt evenly to them, in no order


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    options = {
        "gateways": GATEWAYS,
        "clients-per-round": DEVICES,
        "deadline": arguments.deadline,
    }
    if arguments.private:
        options["stage-deadline"] = arguments.deadline / 4
    if arguments.buffered:
        options["mode"] = "buffered"
    elif not arguments.private:  # whose devices are dealt to groups
        options["shards"] = DEVICES
    trial = make_trial(arguments, private=arguments.private, **options)
    output, devices = trial.output, trial.devices(DEVICES, private=arguments.private)
    certificate = make_server_certificate(output / "tls")
    nodes = [{"gateway": str(socket_of(output, number))} for number in range(GATEWAYS)]
    with (
        Loopback(output, nodes, seconds=300.0, in_memory=arguments.private) as flower,
        Processes(output / "logs") as processes,
    ):
        tls = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
        ports = [start_gateway(processes, output, number, tls) for number in range(GATEWAYS)]
        for number, device in enumerate(devices):
            port = ports[number % GATEWAYS]
            start_device(processes, number, device, port, certificate.authority)
        print("SuperLink, gateways and devices are up; running", flush=True)
        if not flower.completes(app_of_gateways(output), trial.config, seconds=arguments.seconds):
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
    add_arguments(parser, "fleet", seconds=400.0)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--private", action="store_true", help="sums alone leave the devices")
    kinds.add_argument(
        "--buffered", action="store_true", help="a step as soon as updates are there"
    )
    parser.add_argument("--deadline", type=float, default=300.0, help="seconds of a round")
    return parser.parse_args()


def start_device(
    processes: Processes, number: int, device: Mapping[str, object], port: int, authority: Path
) -> None:
    """``pocketquery join``, which asks for offers until it is stopped."""
    options: list[str | Path] = ["--gateway", f"https://127.0.0.1:{port}", "--authority", authority]
    for name, value in device.items():
        options += [f"--{name}", str(value)]
    start(
        processes,
        f"device-{number}",
        ("pocketquery_join.command", "join"),
        *options,
        "--json",
    )


if __name__ == "__main__":
    sys.exit(main())
