"""Gateways on this machine, and the Flower app whose nodes they are."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

DEPLOYMENT = Path(__file__).resolve().parents[1] / "deployment"
sys.path.insert(0, str(DEPLOYMENT))

from processes import Processes  # noqa: E402

from pocketquery_gateway.control_client import Control  # noqa: E402

__all__ = ["app_of_gateways", "socket_of", "start", "start_gateway"]

COMMAND = "import sys; from {0} import {1}; from argparse import ArgumentParser as P; p = P(); " \
    "{1}(p.add_subparsers()); o = p.parse_args(); sys.exit(o.run(o))"  # fmt: skip


def socket_of(output: Path, number: int) -> Path:
    """Where the Flower node of a gateway finds it."""
    return output / f"gateway-{number}" / "gateway.sock"


def app_of_gateways(output: Path) -> Path:
    """The Flower app of the deployment example, with gateways in the place of devices."""
    text = (DEPLOYMENT / "flower_app" / "pyproject.toml").read_text(encoding="utf-8")
    device, gateway = "pocketquery.client.app:app", "pocketquery_gateway.node:app"
    assert text.count(device) == 1
    folder = output / "flower_app"
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(text.replace(device, gateway), encoding="utf-8")
    return folder


def start_gateway(
    processes: Processes, output: Path, number: int, settings: Mapping[str, object]
) -> int:
    """``pocketquery gateway`` with these settings; the port that devices reach it at."""
    config = output / f"gateway-{number}.toml"
    given = {"folder": f"gateway-{number}", "listen": "127.0.0.1:0", "poll-seconds": 2, **settings}
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in given.items()))
    name = f"gateway-{number}"
    start(processes, name, ("pocketquery_gateway.command", "gateway"), "--config", config)
    control = Control(socket_of(output, number), patience=0.0)
    processes.wait_for(control.is_healthy, name, 60.0)
    lines = processes.log(name).read_text().splitlines()
    end = time.monotonic() + 10
    while not (found := [json.loads(line) for line in lines if '"port"' in line]):
        if time.monotonic() > end:
            raise TimeoutError(f"{name} does not say its port; see {processes.log(name)}")
        time.sleep(0.1)
        lines = processes.log(name).read_text().splitlines()
    return int(found[0]["port"])


def start(processes: Processes, name: str, command: Sequence[str], *arguments: str | Path) -> None:
    """One of the package's commands, by this Python, whatever is on the path."""
    script = COMMAND.format(*command)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes.start(name, [sys.executable, "-c", script, command[1], *arguments], environment)
