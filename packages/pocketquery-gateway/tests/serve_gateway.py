"""``pocketquery gateway`` as a process of its own, for tests and benchmarks.

python packages/pocketquery-gateway/tests/serve_gateway.py gateway.toml
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketquery_gateway.control_client import Control


@dataclass
class Served:
    """A gateway that runs."""

    folder: Path
    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def control(self) -> Control:
        return Control(self.folder / "gateway.sock", patience=10.0)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; how it ended."""
        self.process.terminate()
        return self.process.wait(timeout=60)


def start(folder: Path, *, port: int = 0, **settings: Any) -> Served:
    """Start a gateway whose files are in ``folder``; returns when devices may come."""
    folder.mkdir(parents=True, exist_ok=True)
    given = {"folder": "files", "listen": f"127.0.0.1:{port}", "poll-seconds": 0} | settings
    config = folder / "gateway.toml"
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()))
    command = [sys.executable, __file__, str(config)]
    with (folder / "log.jsonl").open("a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=dict(os.environ)
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise ChildProcessError((folder / "log.jsonl").read_text()[-3000:])
    return Served(folder / "files", process, json.loads(line)["port"])


@contextlib.contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Served]:
    """The same, stopped at the end whatever happens."""
    served = start(folder, **settings)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.kill()
        if served.process.stdout is not None:
            served.process.stdout.close()


def main() -> int:
    """Run the command."""
    from pocketquery_gateway.command import gateway

    parser = argparse.ArgumentParser()
    gateway(parser.add_subparsers())
    options = parser.parse_args(["gateway", "--config", sys.argv[1]])
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
