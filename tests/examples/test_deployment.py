"""The deployment example: certificates, processes, and with real Flower processes on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from pocketquery.client.trusted_releases import TRUSTED_RELEASES, TrustedReleases
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.server.federation.releases.registry import Registry
from pocketquery.server.federation.rounds.options import OPTIONS
from tests.server.federation.small_federation import Files, write_federation
from tests.tiny_models import sentences

FOLDER = Path(__file__).parents[2] / "examples" / "deployment"
_PATIENCE = 120.0  # seconds, which only a hang reaches


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """The example's own modules, which lie beside its script."""
    names = ("certificates", "processes", "loopback")
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: __import__(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))
        for name in names:
            sys.modules.pop(name, None)


def test_only_its_authority_is_trusted(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    made = modules["certificates"].make_server_certificate(tmp_path)
    assert made.key.stat().st_mode & 0o077 == 0
    assert shake_hands(made, ssl.create_default_context(cafile=str(made.authority)), "127.0.0.1")
    assert shake_hands(made, ssl.create_default_context(cafile=str(made.authority)), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(made, ssl.create_default_context(), "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        shake_hands(made, ssl.create_default_context(cafile=str(made.authority)), "example.org")


def shake_hands(made: object, trust: ssl.SSLContext, name: str) -> bool:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.certificate, made.key)  # type: ignore[attr-defined]
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs, contextlib.suppress(OSError):  # where the other side does not trust us
            server.wrap_socket(theirs, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with trust.wrap_socket(ours, server_hostname=name) as secured:
            return secured.version() == "TLSv1.3"
    finally:
        ours.close()
        thread.join()


def test_a_node_key_is_what_flower_reads(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    made = modules["certificates"].make_node_key(tmp_path, "node")
    private = load_ssh_private_key(made.private.read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    assert private.public_key() == load_ssh_public_key(made.public.read_bytes())
    assert made.private.stat().st_mode & 0o077 == 0


PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
time.sleep(1000)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"


def test_what_was_started_and_what_that_started_has_ended_afterwards(
    modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules["processes"], "_GRACE", 0.5)
    marked = f"{STUBBORN}  # {tmp_path}"
    with modules["processes"].Processes(tmp_path) as processes:
        processes.start("parent", [sys.executable, "-c", PARENT, marked], dict(os.environ))
        processes.wait_for(lambda: len(running(str(tmp_path))) == 2, "parent and child", _PATIENCE)
    end = time.monotonic() + _PATIENCE
    while running(str(tmp_path)) and time.monotonic() < end:
        time.sleep(0.05)
    assert running(str(tmp_path)) == []


def test_a_process_that_ends_while_it_is_waited_for_is_an_error_with_its_last_words(
    modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    with modules["processes"].Processes(tmp_path) as processes:
        processes.start("brief", [sys.executable, "-c", "print('no port')"], dict(os.environ))
        with pytest.raises(ChildProcessError, match=r"brief ended with code 0(.|\n)*no port"):
            processes.wait_for(lambda: False, "anything", _PATIENCE)
    with modules["processes"].Processes(tmp_path) as processes, pytest.raises(TimeoutError):
        processes.wait_for(lambda: False, "nothing", 0.1)


def running(word: str) -> list[int]:
    """Ids of other processes whose command line holds ``word``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(int(path.parent.name))
    return found


def test_the_flower_app_offers_every_option() -> None:
    import tomllib

    app = tomllib.loads((FOLDER / "flower_app" / "pyproject.toml").read_text())
    config = app["tool"]["flwr"]["app"]["config"]
    places = {"bundle", "folder", "index", "gate-queries", "gate-qrels", "signing-key"}
    places.add("roll-out")
    assert config.keys() == places | {option.name for option in OPTIONS}
    of_few = {"rounds", "clients-per-round", "over-selection", "least-replies", "deadline"}
    for option in OPTIONS:  # what is no matter of three devices is as everywhere
        assert option.name in of_few or config[option.name] == option.default, option.name


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_federation(tmp_path_factory.mktemp("deployment"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_rounds_over_tls_with_three_supernodes(files: Files, tmp_path: Path) -> None:
    arguments = ["--bundle", files.bundle, "--index", files.index, "--queries", files.queries]
    result = subprocess.run(
        [sys.executable, str(FOLDER / "run_rounds.py"), *map(str, arguments), "--steps", "5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    server = tmp_path / "deployment" / "server"
    rounds = json.loads((server / "rounds.json").read_text())["rounds"]
    assert [(one["asked"], one["accepted"]) for one in rounds] == [(3, 3), (3, 3)]
    registry = Registry.open(server / "releases")
    assert len(registry.history()) == 3
    for number in range(3):  # each device trained on what the publisher's key says is in force
        trusted = TrustedReleases(server.parent / f"device-{number}" / TRUSTED_RELEASES)
        found = trusted.target(Bundle.open(server.parent / "bundle").manifest)
        assert found in [one.release for one in registry.statements()]
    assert "release in force" in (server / "report.html").read_text()
    assert running(str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("devices", "rounds", "killed"),
    [(3, 1, False), pytest.param(5, 2, True, marks=pytest.mark.very_slow)],
)
def test_private_rounds_over_tls_with_enrolled_supernodes(
    files: Files, tmp_path: Path, devices: int, rounds: int, killed: bool
) -> None:
    queries = many_queries(tmp_path / "queries.tsv")
    arguments = ["--bundle", files.bundle, "--index", files.index, "--queries", queries]
    arguments += ["--steps", 5, "--devices", devices, "--rounds", rounds, "--seconds", 2400]
    arguments += ["--stage-deadline", 120, *([] if killed else ["--no-kill"])]
    result = subprocess.run(
        [sys.executable, str(FOLDER / "run_secure_rounds.py"), *map(str, arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert ("supernode-0 was killed" in result.stdout) == killed
    server = tmp_path / "secure-deployment" / "server"
    reports = json.loads((server / "rounds.json").read_text())["rounds"]
    survivors = devices - killed
    assert [one["accepted"] for one in reports] == [survivors] * rounds
    assert [one["stages"]["survivors"] for one in reports] == [survivors] * rounds
    assert reports[0]["stages"]["ready"] == devices
    assert running(str(tmp_path)) == []


def many_queries(path: Path) -> Path:
    """As many as five devices need to train, each on 32 of its own."""
    path.write_text("".join(f"q{n}\t{text}\n" for n, text in enumerate(sentences(260))))
    return path


INTRUDER = """
import sys
from pathlib import Path
from certificates import make_node_key
from loopback import Loopback

folder, port = Path(sys.argv[1]), sys.argv[2]
with Loopback(folder, []) as flower:
    unknown = make_node_key(folder / "keys", "unknown").private
    command = ["flower-supernode", "--superlink", f"127.0.0.1:{flower.port}", "--port", port,
               "--max-retries", "1"]
    trusting = ["--root-certificates", folder / "keys" / "ca.crt"]
    for name, options in {
        "unknown key": [*trusting, "--auth-supernode-private-key", unknown],
        "no key": trusting,
        "no trust": ["--auth-supernode-private-key", unknown],
        "no tls": ["--insecure"],
    }.items():
        intruder = flower.processes.start(name, command + options, flower.environment("intruder"))
        print(intruder.wait(60))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nobody_comes_in_without_a_registered_key_and_tls(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    result = subprocess.run(
        [sys.executable, "-c", INTRUDER, str(tmp_path), port],
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["1"] * 4
    log = (tmp_path / "logs" / "superlink.log").read_text(errors="replace")
    assert "No SuperNode found with the given public key" in log
    assert log.count("ApiError") == 2  # without trust or TLS they do not even get to ask
    assert "Activated node_id" not in log


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "kind",
    ["plain", *(pytest.param(one, marks=pytest.mark.very_slow) for one in ("private", "buffered"))],
)
def test_a_fleet_of_devices_behind_gateways(files: Files, tmp_path: Path, kind: str) -> None:
    private = kind == "private"
    queries = many_queries(tmp_path / "queries.tsv") if private else files.queries
    arguments = ["--bundle", files.bundle, "--index", files.index, "--queries", queries]
    arguments += ["--steps", 5, "--deadline", 1200, "--seconds", 2400]
    arguments += [] if kind == "plain" else [f"--{kind}"]
    script = FOLDER.parent / "fleet" / "run_fleet.py"
    result = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    server = tmp_path / "fleet" / "server"
    rounds = json.loads((server / "rounds.json").read_text())["rounds"]
    assert [(one["asked"], one["accepted"]) for one in rounds] == [(3, 3), (3, 3)]
    assert [bool(one.get("stages")) for one in rounds] == [private] * 2
    assert [one.get("staleness") is not None for one in rounds] == [kind == "buffered"] * 2
    release = Registry.open(server / "releases").read()
    for number in range(3):
        kept = tmp_path / "fleet" / f"device-{number}" / "adapter.safetensors"
        assert kept.read_bytes() == release
    assert running(str(tmp_path)) == []
