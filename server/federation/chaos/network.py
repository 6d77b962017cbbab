"""The real deployment in a network of its own that loses packets and delays them.

A network namespace of Linux with netem on its loopback, which needs root, the commands ``ip`` and
``tc``, and a kernel that has netem. Where one is missing, the row says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pocketquery.sdk.files import make_folder
from pocketquery.server.federation.chaos.expectation import Wrong
from pocketquery.server.federation.chaos.grid import Row

__all__ = ["network_row"]

_LOSS, _DELAY = "5%", "50ms"


def network_row(script: Path | None, arguments: Sequence[str], folder: Path) -> Row:
    """Run a deployment through a bad network, where this machine can.

    Args:
        script: the deployment, run with ``arguments``; None: there is none to run.
        arguments: of the script; it gets ``--output`` besides.
        folder: gets what it writes, and network.log.
    """
    said = "the deployment's rounds come to their end"
    level = f"loss {_LOSS}, delay {_DELAY}"
    row = Row("deployment", "network loses and delays packets", level, said)
    name = f"pocketquery-{os.getpid()}"
    row.not_run = _missing()
    if row.not_run is None and script is None:
        row.not_run = "needs --network examples/deployment/run_rounds.py"
    if row.not_run is not None or script is None:
        return row
    netem = ["qdisc", "add", "dev", "lo", "root", "netem", "delay", _DELAY, "loss", _LOSS]
    make_folder(folder)
    try:
        _do("ip", "netns", "add", name)
        _do("ip", "-n", name, "link", "set", "lo", "up")
        try:
            _do("tc", "-n", name, *netem)
        except subprocess.CalledProcessError as error:
            row.not_run = f"needs a kernel with netem (tc: {error.stderr.strip()})"
            return row
        command = [sys.executable, str(script), *arguments, "--output", str(folder / "deployment")]
        with (folder / "network.log").open("wb") as log:
            ended = subprocess.run(
                ["ip", "netns", "exec", name, *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    failed = f"{script.name} ended with status {ended.returncode}: {folder / 'network.log'}"
    found = [Wrong(failed, lost=True)] if ended.returncode else []
    row.add("came to its end" if not found else "ended in an error", found, folder)
    return row


def _missing() -> str | None:
    """What this machine lacks, as far as can be seen without trying."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root on Linux, to make a network namespace"
    for command in ("ip", "tc"):
        if shutil.which(command) is None:
            return f"needs the command {command} (iproute2)"
    return None


def _do(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)
