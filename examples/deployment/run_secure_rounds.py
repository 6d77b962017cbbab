"""Private rounds as they are deployed: enrolled devices, masked sums, one device killed on the way.

    make demo
    python examples/deployment/run_secure_rounds.py

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

from loopback import Loopback
from run_rounds import APP
from trial import add_arguments, make_trial, show

from pocketquery.client.private.state_file import SecureProgress, StateFile
from pocketquery.client.store.file import SECURE


def main() -> int:
    arguments = parse_arguments()
    trial = make_trial(
        arguments,
        private=True,
        **{
            "clients-per-round": arguments.devices,
            "deadline": 600.0,  # for everybody to be ready; who is, waits
            "stage-deadline": arguments.stage_deadline,
        },
    )
    devices = trial.devices(arguments.devices, private=True)
    with Loopback(trial.output, devices, in_memory=True) as flower:
        print("SuperLink and SuperNodes are up; running", flush=True)
        if arguments.kill:
            given = (flower, trial.output / "device-0")
            threading.Thread(target=kill_one, args=given, daemon=True).start()
        if not flower.completes(APP, trial.config, seconds=arguments.seconds):
            return 1
    show(trial.output / "server")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser, "secure-deployment", seconds=600.0)
    parser.add_argument("--devices", type=int, default=5)
    parser.add_argument("--stage-deadline", type=float, default=60.0, help="seconds of a stage")
    parser.add_argument(
        "--no-kill", dest="kill", action="store_false", help="let every SuperNode live"
    )
    return parser.parse_args()


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
