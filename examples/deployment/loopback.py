"""One SuperLink with TLS and node authentication, and SuperNodes, all on this machine."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from certificates import ServerCertificate, make_node_key, make_server_certificate
from processes import Processes

__all__ = ["Loopback", "free_ports"]

_HOST = "127.0.0.1"
_CONNECTION = "loopback"  # its name in Flower's configuration file
# Nothing is reported to anyone, nothing is asked for, and no package is installed at run time.
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


class Loopback:
    """A context: on entering everything is started, on leaving everything is stopped.

    Args:
        folder: gets keys, logs and Flower's own folders; nothing is written elsewhere.
        nodes: the configuration of each SuperNode, which its ClientApp finds in
            ``context.node_config``.
        seconds: how long the start may take.
        in_memory: whether the SuperLink keeps messages in memory alone. Its database holds them
            until they are delivered and then deletes rows without overwriting pages: what devices
            send in private rounds is not to be found there later.

    Attributes:
        port: of the SuperLink.
        processes: what was started.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[Mapping[str, object]],
        *,
        seconds: float = 90.0,
        in_memory: bool = False,
    ) -> None:
        self.folder = folder.resolve()
        self._nodes = list(nodes)
        self._seconds = seconds
        self._in_memory = in_memory
        self.processes = Processes(self.folder / "logs")
        self.port = 0

    def __enter__(self) -> Loopback:
        try:
            self._start()
        except BaseException:
            self.processes.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.stop()

    def run(self, app: Path, config: Mapping[str, object], *, seconds: float) -> str:
        """``flwr run``: the app runs to its end; its final status, "finished:completed" where well.

        Args:
            app: folder with the app's pyproject.toml.
            config: replaces values of its ``[tool.flwr.app.config]``.
            seconds: after which the run is stopped.

        Raises:
            TimeoutError: it took longer; it was told to stop.
        """
        options = self._write_run_config(config)
        started = json.loads(
            self._flwr("run", app, _CONNECTION, "--run-config", options, "--format", "json")
        )
        if "run-id" not in started:
            raise ChildProcessError(f"flwr run refused {app}: {started}")
        run_id = str(started["run-id"])
        end = time.monotonic() + seconds
        while not (status := self._status(run_id)).startswith("finished"):
            if time.monotonic() > end:
                self._flwr("stop", run_id, _CONNECTION)
                raise TimeoutError(
                    f"the run was not finished after {seconds:.0f} s; see {self.folder / 'logs'}"
                )
            time.sleep(1.0)
        return status

    def completes(self, app: Path, config: Mapping[str, object], *, seconds: float) -> bool:
        """Whether :meth:`run` ends well; where not, prints how, and the SuperLink's last lines."""
        status = self.run(app, config, seconds=seconds)
        if status == "finished:completed":
            return True
        log = self.log("superlink").read_text(errors="replace").splitlines()
        print(f"the run ended as {status}; the SuperLink says:", *log[-25:], sep="\n")
        return False

    def log(self, name: str) -> Path:
        """What the process printed: "superlink" or "supernode-0" and so on."""
        return self.processes.log(name)

    def _start(self) -> None:
        certificate = make_server_certificate(self.folder / "keys", _HOST)
        port, *node_ports = free_ports(1 + len(self._nodes))
        self.port = port
        self._start_superlink(certificate, port)
        self._write_connection(certificate, port)
        for number, (config, node_port) in enumerate(zip(self._nodes, node_ports, strict=True)):
            self._start_supernode(number, config, certificate, (port, node_port))
        self.processes.wait_for(self._all_online, "every SuperNode online", self._seconds)

    def _start_superlink(self, certificate: ServerCertificate, port: int) -> None:
        command: list[str | Path] = [
            _tool("flower-superlink"),
            "--host",
            _HOST,
            "--port",
            f"{port}",
        ]
        command += ["--ssl-ca-certfile", certificate.authority]
        command += ["--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key]
        command += ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        database = self.folder / "superlink.sqlite"
        database.unlink(missing_ok=True)  # of an earlier start, with nodes that had other keys
        command += ["--database", ":flwr-in-memory:" if self._in_memory else database]
        self.processes.start("superlink", command, self.environment("superlink"))
        trust = ssl.create_default_context(cafile=str(certificate.authority))
        self.processes.wait_for(
            lambda: _answers(f"https://{_HOST}:{port}/health", trust), "SuperLink", self._seconds
        )

    def _start_supernode(
        self,
        number: int,
        config: Mapping[str, object],
        certificate: ServerCertificate,
        ports: tuple[int, int],
    ) -> None:
        name = f"supernode-{number}"
        key = make_node_key(self.folder / "keys", name)
        self._flwr("supernode", "register", key.public, _CONNECTION)
        command: list[str | Path] = [_tool("flower-supernode")]
        command += ["--superlink", f"{_HOST}:{ports[0]}", "--host", _HOST, "--port", f"{ports[1]}"]
        command += ["--root-certificates", certificate.authority]
        command += ["--auth-supernode-private-key", key.private]
        command += ["--node-config", " ".join(f"{k}={json.dumps(v)}" for k, v in config.items())]
        self.processes.start(name, command, self.environment(name))

    def _all_online(self) -> bool:
        listed = json.loads(self._flwr("supernode", "list", _CONNECTION, "--format", "json"))
        online = [node for node in listed["nodes"] if node["status"] == "online"]
        return len(online) == len(self._nodes)

    def _status(self, run_id: str) -> str:
        listed = self._flwr("list", _CONNECTION, "--run-id", run_id, "--format", "json")
        return str(json.loads(listed)["runs"][0]["status"])

    def _flwr(self, *arguments: str | Path) -> str:
        command = [_tool("flwr"), *map(str, arguments)]
        result = subprocess.run(
            command, env=self.environment("cli"), capture_output=True, text=True, timeout=300
        )
        if result.returncode:
            raise ChildProcessError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
        return result.stdout

    def environment(self, name: str) -> dict[str, str]:
        """What the process ``name`` is started with."""
        # Each has a home of its own: they unpack the same app at the same time.
        home = self.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, **_QUIET, "FLWR_HOME": str(home), "PATH": path}

    def _write_connection(self, certificate: ServerCertificate, port: int) -> None:
        home = Path(self.environment("cli")["FLWR_HOME"])
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
            f'address = "{_HOST}:{port}"\nroot-certificates = "{certificate.authority}"\n'
        )

    def _write_run_config(self, config: Mapping[str, object]) -> Path:
        path = self.folder / "run.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items()))
        return path


def _tool(name: str) -> str:
    """The command beside this Python: flwr's own may be anywhere else on the path."""
    return str(Path(sys.executable).parent / name)


def free_ports(count: int) -> list[int]:
    """Ports on this machine that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _answers(url: str, trust: ssl.SSLContext) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1.0, context=trust) as response:
            return bool(response.status == 200)
    except OSError:
        return False
