"""Federated rounds as they are deployed: a SuperLink with TLS, SuperNodes that prove who they are.

    make demo
    python examples/deployment/run_rounds.py

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
from pathlib import Path

from loopback import Loopback
from trial import add_arguments, make_trial, show

APP = Path(__file__).resolve().parent / "flower_app"
DEVICES = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser, "deployment", seconds=300.0)
    arguments = parser.parse_args()
    trial = make_trial(arguments)
    with Loopback(trial.output, trial.devices(DEVICES)) as flower:
        print("SuperLink and SuperNodes are up; running", flush=True)
        if not flower.completes(APP, trial.config, seconds=arguments.seconds):
            return 1
    show(trial.output / "server")
    return 0


if __name__ == "__main__":
    sys.exit(main())
