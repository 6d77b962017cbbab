"""A device in JavaScript among devices in Python, at one gateway, in real rounds."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_gateway import Served, serving
from test_private_rounds import OPTIONS as PRIVATE
from test_private_rounds import at_work
from test_private_rounds import through as private_rounds
from test_rounds import KEY, OPTIONS, Devices, through
from turns import turn

from pocketquery.client.private.keys import DEVICE_KEY
from pocketquery.client.private.ledger import LEDGER, Ledger
from pocketquery.sdk.bundle.adapter import parse_adapter
from pocketquery.sdk.bundle.signature import key_id, public_key_of
from pocketquery.sdk.encoder import Encoder
from pocketquery.sdk.files import sha256_bytes
from pocketquery_join.participation import RELEASE
from pocketquery_simulation.enrolment import simulated_environment
from tests.server.federation.small_federation import USERS, Files, Parts, opened

PACKAGE = Path(__file__).parents[3] / "sdk" / "js"
SCRIPT = Path(__file__).with_name("javascript_device.mjs")
PAGE = Path(__file__).with_name("javascript_page.mjs")
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ANY = {
    "leastQueries": 1, "leastSteps": 1, "leastBatch": 1, "mostRepetitions": 1_000_000,
    "largestClip": 1e30,
}  # fmt: skip

is_built = (PACKAGE / "dist" / "gateway.js").exists() and shutil.which("node") is not None
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_built, reason="sdk/js is not built: npm ci && npm run build"),
]


class Mixed(Devices):
    """All of the federation's devices but the first, which is in JavaScript."""

    def __init__(self, parts: Parts, gateways: list[Served], folder: Path) -> None:
        super().__init__(parts, gateways, folder)
        self.alone = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopped.wait(0.02):
                for place, one in enumerate(self.parties[1:], 1):
                    self.outcomes.append(turn(one, self._parts.devices.device(place)).what)
        except BaseException as error:
            self.error = error


def command(files: Files, gateway: Served, state: Path, **more: Any) -> list[str]:
    users = [json.loads(line) for line in files.clients.read_text().splitlines()]
    settings = {
        "package": str(PACKAGE),
        "gateway": gateway.url,
        "bundle": str(files.bundle),
        "index": str(files.index),
        "state": str(state),
        "queries": [one["query"] for one in users if one["client"] == "user-0"],
        "publicKey": public_key_of(KEY).hex(),
        "rounds": 2,
        "version": "3",
        "limits": ANY,
    }
    return ["node", str(SCRIPT), json.dumps(settings | more)]


@pytest.mark.parametrize("dies", [None, "before the update", "after the update"])
def test_a_device_in_javascript_counts_once_in_each_round(
    federation: Files, tmp_path: Path, dies: str | None
) -> None:
    given = {**OPTIONS, "gateways": 1, "signing-key": KEY}
    state = tmp_path / "javascript"
    with (
        serving(tmp_path / "gateway") as gateway,
        opened(federation, tmp_path / "through", **given) as parts,
    ):
        devices = Mixed(parts, [gateway], tmp_path / "devices")
        found: list[str] = []

        def life() -> None:
            if dies is not None:
                dead = subprocess.run(
                    command(federation, gateway, state, dies=dies), timeout=120, check=False
                )
                found.append(str(dead.returncode))
            ended = subprocess.run(
                command(federation, gateway, state),
                stdout=subprocess.PIPE,
                text=True,
                timeout=120,
                check=True,
            )
            found.append(ended.stdout)

        javascript = threading.Thread(target=life)
        javascript.start()
        devices.start()
        try:
            reports = through(parts, [gateway])
            javascript.join()
        finally:
            devices.finish()
            devices.close()
        release = parts.publisher.registry.read()
        assert [one.accepted for one in reports] == [USERS, USERS]
        assert devices.outcomes.count("accepted") == 2 * (USERS - 1)
        if dies is not None:
            assert found[0] == "-9"
        said = json.loads(found[-1])
        accepted = [one["round"] for one in said["outcomes"] if one["what"] == "accepted"]
        assert accepted == ([1] if dies == "after the update" else [0, 1])
        assert said["sha256"] == sha256_bytes(release)
        assert (state / RELEASE).read_bytes() == release
        assert said["signedBy"] == key_id(public_key_of(KEY))
        assert said["again"] is None
        assert said["version"] == parse_adapter(release).version == "3"
        # What the device searches with is what Python's search with.
        encoder = Encoder.of_bundle(parts.bundle)
        query = json.loads(federation.clients.read_text().splitlines()[0])["query"]
        for vector in (said["before"], said["after"]):
            assert np.dot(encoder.encode_query(query), vector) > 0.9999
            encoder.swap_adapter(release)
        assert said["before"] != said["after"]
        assert (state / "gateway.key").stat().st_mode & 0o077 == 0


class PrivateRound:
    """A private round in which the first device is in JavaScript, and the others in Python."""

    def __init__(self, stack: contextlib.ExitStack, files: Files, folder: Path, **gateway: Any):
        self.gateway = stack.enter_context(serving(folder / "gateway", **gateway))
        given = {**PRIVATE, "rounds": 1, "gateways": 1, "signing-key": KEY}
        self.parts = stack.enter_context(opened(files, folder / "through", **given))
        enrolment = self.parts.devices.enrolment
        assert enrolment is not None
        self.federation = enrolment.settings.federation_id
        self.key, certificate = enrolment.enrolled(self.parts.devices.names[0])
        self.settings = {
            "certificate": certificate.to_bytes().hex(),
            "authority": str(enrolment.settings.enrolment),
            "rules": {"least": 4, "leastNoisy": 4, "rest": 1, "privacy": "any"},
            "now": simulated_environment(self.parts.options.seed).wall(),
        }
        self._folder = folder

    def run(self, life: Callable[[], None]) -> None:
        """The round, with the ``life`` of the first device beside it."""
        javascript = threading.Thread(target=life)
        javascript.start()
        with at_work(self.parts, [self.gateway], self._folder / "devices") as devices:
            devices.gone.add(0)
            (report,) = private_rounds(self.parts, [self.gateway])
            javascript.join()
        assert (report.accepted, report.version) == (USERS, "2")
        assert report.stages["survivors"] == USERS
        assert devices.count("accepted") == USERS - 1


def ended(command: list[str]) -> Any:
    """What a command that ends well prints."""
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return json.loads(said.stdout)


@pytest.mark.parametrize("dies", [None, "after the update"])
def test_a_device_in_javascript_is_one_of_a_private_round(
    federation: Files, tmp_path: Path, dies: str | None
) -> None:
    """Killed once its masked change is there, it goes on with the next stage."""
    state = tmp_path / "javascript"
    found: list[Any] = []
    with contextlib.ExitStack() as stack:
        one = PrivateRound(stack, federation, tmp_path)
        state.mkdir()
        (state / DEVICE_KEY).write_bytes(one.key.private)
        settings = {"private": one.settings, "diesAt": "/secure/3", "rounds": 1, "version": "2"}

        def life() -> None:
            if dies is not None:
                killed = command(federation, one.gateway, state, **settings, dies=dies)
                found.append(subprocess.run(killed, timeout=120, check=False).returncode)
            found.append(ended(command(federation, one.gateway, state, **settings)))

        one.run(life)
        release = one.parts.publisher.registry.read()
    assert found[:-1] == ([] if dies is None else [-9])
    (outcome,) = [said for said in found[-1]["outcomes"] if said["round"] == 0]
    assert outcome["what"] == "accepted"
    assert found[-1]["sha256"] == sha256_bytes(release)
    account = Ledger(state / LEDGER).account(one.federation)
    assert (account.last_round, account.last_masked) == (0, 0)


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no Chromium")
def test_a_page_of_another_origin_is_one_of_a_private_round(
    federation: Files, tmp_path: Path
) -> None:
    """Closed once its masked change is there, it goes on where it was."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found: list[Any] = []
    with contextlib.ExitStack() as stack:
        one = PrivateRound(stack, federation, tmp_path, origins=[f"http://127.0.0.1:{port}"])
        settings = one.settings | {
            "package": str(PACKAGE),
            "chromium": CHROMIUM,
            "port": port,
            "gateway": one.gateway.url,
            "key": one.key.private.hex(),
        }
        one.run(lambda: found.append(ended(["node", str(PAGE), json.dumps(settings)])))
    assert found == [{"closed": True, "outcome": found[0]["outcome"]}]
    assert (found[0]["outcome"]["what"], found[0]["outcome"]["round"]) == ("accepted", 0)
