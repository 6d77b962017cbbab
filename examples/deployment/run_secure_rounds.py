"""Private rounds as they are deployed: enrolled devices, masked sums, one device killed on the way.

    python examples/deployment/run_secure_rounds.py --bundle trainable --index demo/index \\
        --queries queries.tsv --output secure-deployment

As run_rounds.py, on this machine alone: a SuperLink with TLS, which keeps messages in memory, and
five SuperNodes. Each makes a key of its own, and an authority, whom the server does not know the
private key of, certifies it (``pocketquery enrol``). Then two rounds are run in which the server
learns nothing but sums; in the first, one SuperNode is killed as soon as it has dealt its shares,
and the round goes on without it. What was started is stopped, each process by its id.

Groups of three to five devices are for a trial: they hide little. Private rounds are experimental;
no outside cryptographer has reviewed them. Needs the extras client, server and sign.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

from certificates import make_enrolment_authority
from loopback import Loopback
from run_rounds import APP, HELD_OUT, make_device, show, write_held_out

from pocketquery.client.secure.state_file import SecureProgress, StateFile
from pocketquery.client.store.file import SECURE
from pocketquery.sdk.cli import main as pocketquery
from pocketquery.server.corpus import read_queries

LEAST = 3
FEDERATION = "trial"


def main() -> int:
    arguments = parse_arguments()
    output = Path(arguments.output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    queries = read_queries(arguments.queries)
    private, public = make_enrolment_authority(output / "authority")
    config = {
        "bundle": str(Path(arguments.bundle).resolve()),
        "index": str(Path(arguments.index).resolve()),
        "folder": str(output / "server"),
        "gate-queries": str(write_held_out(output / "held-out.tsv", queries[::HELD_OUT])),
        "rounds": arguments.rounds,
        "steps": arguments.steps,
        "clients-per-round": arguments.devices,
        "deadline": 600.0,  # for everybody to be ready; who is, waits
        "least-replies": LEAST,
        "secure": "on",
        "federation": FEDERATION,
        "enrolment": str(public),
        "secure-least": LEAST,
        "stage-deadline": arguments.stage_deadline,
    }
    kept = [query for place, query in enumerate(queries) if place % HELD_OUT]
    devices = [
        make_device(output / f"device-{number}", kept[number :: arguments.devices], config)
        | enrol(output / f"device-{number}", private, public)
        for number in range(arguments.devices)
    ]
    with Loopback(output, devices, in_memory=True) as flower:
        print("SuperLink and SuperNodes are up; running", flush=True)
        if arguments.kill:
            given = (flower, output / "device-0")
            threading.Thread(target=kill_one, args=given, daemon=True).start()
        if not flower.completes(APP, config, seconds=arguments.seconds):
            return 1
    show(output / "server")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", default="demo/bundle", help="with a training step")
    parser.add_argument("--index", default="demo/index")
    parser.add_argument("--queries", required=True, help="tsv (id, text) or JSON Lines")
    parser.add_argument("--output", default="secure-deployment")
    parser.add_argument("--devices", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10, help="training steps on a device")
    parser.add_argument("--stage-deadline", type=float, default=60.0, help="seconds of a stage")
    parser.add_argument(
        "--no-kill", dest="kill", action="store_false", help="let every SuperNode live"
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="most the run may take")
    return parser.parse_args()


def enrol(state: Path, private: Path, public: Path) -> dict[str, object]:
    """Make a device's key and have it certified; what its SuperNode's configuration needs."""
    request, certificate = state / "device.request", state / "device.certificate"
    if not certificate.is_file():
        commands = (
            ["key", "--state", state],
            ["request", "--state", state, "--output", request],
            ["sign", request, "--key", private, "--federation", FEDERATION],
        )
        for command in commands:
            if code := pocketquery(["enrol", *map(str, command)]):
                raise SystemExit(code)
    return {
        "secure": "required",
        "enrolment": str(public),
        "certificate": str(certificate),
        "least": LEAST,  # of real devices: 20 and more
        "rest": 1,  # of real devices: 8 rounds
        "privacy": "any",  # no noise: of three devices it would leave nothing
    }


def kill_one(flower: Loopback, state: Path) -> None:
    """Kill the first SuperNode as soon as its device has dealt shares, and answers no more."""
    while True:
        found = StateFile(state / SECURE).load() if (state / SECURE).exists() else None
        if found is not None and found.progress >= SecureProgress.SHARED:
            flower.processes.kill("supernode-0")
            print("supernode-0 was killed in the middle of the round", flush=True)
            return
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
