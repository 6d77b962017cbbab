"""``pocketquery join`` runs until it is stopped, whatever answers in a gateway's place."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import resource
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from quiet_server import QuietHandler, serving
from test_join_command import Stopped, parsed

from pocketquery.sdk import load
from pocketquery.sdk.bundle.adapter import pack_adapter
from pocketquery.sdk.bundle.bundle import Bundle
from pocketquery.sdk.bundle.lineage import pack_lineage
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.bundle.statement import Statement, StatementKey, Target
from pocketquery.sdk.bundle.writing import write_bundle
from pocketquery.sdk.files import sha256_bytes
from pocketquery_join import command
from pocketquery_join.command import JoinOptions
from pocketquery_join.connection import GatewayConnection
from pocketquery_join.participation import RELEASE, Participation
from tests.client.private.test_transport import supernode

__all__ = ["supernode"]

KEY = bytes(range(32))
OFFER, CURRENT, DEVICE = "/v1/offer", "/v1/releases/current", "/v1/device"
HTML = b"<html>Sign in to the hotel's network</html>"


class Gateway(ThreadingHTTPServer):
    """A gateway without an offer; the next answers to ``path`` are ``odd``."""

    daemon_threads = True

    def __init__(self) -> None:
        self.path, self.odd, self.times = "", Odd(), 0
        self.asked: list[str] = []
        self.files: dict[str, bytes] = {}  # by path, beside what every gateway answers
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(QuietHandler):
    server: Gateway

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append(self.path)
        if self.path == self.server.path and self.server.times > 0:
            self.server.times -= 1
            with contextlib.suppress(OSError):
                self.server.odd.answer(self)
            self.close_connection = True
        elif self.path in self.server.files:
            self.send(200, self.server.files[self.path])
        elif self.path == DEVICE:
            self.send(200, b'{"registered": true}')
        elif self.path == OFFER:
            self.send(200, b'{"offer": null, "retry_after": 7}')
        else:
            self.send(404, b'{"code": "no_release", "detail": ""}')

    do_PUT = do_GET


class Odd:
    """An answer that no gateway gives."""

    def __init__(
        self, status: int = 200, body: bytes | Any = HTML, raw: bytes | None = None, **headers: str
    ) -> None:
        self.status, self.raw, self.headers = status, raw, headers
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(self, handler: Handler) -> None:
        """Send it."""
        if self.raw is None:
            handler.send(self.status, self.body, **self.headers)
        elif self.raw:
            handler.wfile.write(self.raw)
        else:  # a reset
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.connection.close()


ANYWHERE = {
    **{f"status {status}": Odd(status) for status in (202, 203, 206, 226, 299, 300, 304, 305)},
    **{f"refusal {status}": Odd(status)
       for status in (400, 401, 403, 404, 405, 409, 410, 418, 421, 422, 451, 500, 501, 511, 599)},
    "no gateway's code": Odd(403, {"code": "forbidden", "detail": "Zugriff verweigert"}),
    "codes that are none": Odd(500, {"code": ["x"], "detail": {"a": 1}}),
    "control characters": Odd(500, {"code": "x", "detail": "\x1b[2J\r\n\u2028gone"}),
    **{f"redirect {status}": Odd(status, b"", location="http://127.0.0.1:1/")
       for status in (301, 302, 303, 307, 308)},
    "a portal": Odd(200, HTML, content_type="text/html"),
    "switching": Odd(raw=b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\n"),
    "oversized": Odd(200, bytes(3 << 20)),
    "truncated": Odd(200, b'{"offer"', content_length="1000"),
    "a wrong length": Odd(200, b"{}", content_length="-5"),
    "a length that is none": Odd(200, b"[", content_length="many"),
    "reset": Odd(raw=b""),
    "no HTTP": Odd(raw=b"SSH-2.0-OpenSSH_9.6\r\n"),
    "half a status": Odd(raw=b"HTTP/1.1 2"),
    "a status that is none": Odd(raw=b"HTTP/1.1 abc OK\r\n\r\n"),
    "an endless header": Odd(raw=b"HTTP/1.1 200 OK\r\na: " + bytes(1 << 20)),
    "many headers": Odd(raw=b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000 + b"\r\n"),
    "bytes that are no text": Odd(raw=b"HTTP/1.1 200 \xff\xfe\r\n\xe9: \xe9\r\n\r\n"),
    "a bad chunk": Odd(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
    "a chunk below 0": Odd(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\nab"),
}  # fmt: skip
OF_JSON = {
    "empty": Odd(200, b""),
    "204": Odd(204, b""),
    "a list": Odd(200, []),
    "null": Odd(200, None),
    "a text": Odd(200, "offer"),
    "gzip": Odd(200, gzip.compress(b"{}"), content_encoding="gzip"),
    "UTF-16": Odd(200, '{"offer": null, "retry_after": 0}'.encode("utf-16")),
    "no UTF-8": Odd(200, b'{"offer": "\xff"}'),
    "deep": Odd(200, b'{"a":' * 5000),
    "deep lists": Odd(200, b"[" * 100_000),
    "NaN": Odd(200, b'{"offer": null, "retry_after": NaN}'),
    "1e999": Odd(200, b'{"offer": null, "retry_after": 1e999}'),
    "a number of 5000 digits": Odd(200, b'{"offer": null, "retry_after": ' + b"9" * 5000 + b"}"),
    "a key twice": Odd(200, b'{"offer": null, "offer": 1, "retry_after": 0}'),
}
OF_OFFERS = {
    f"offer {found!r:.40}": Odd(200, found)
    for found in (
        {},
        {"offer": None},
        {"offer": None, "retry_after": -1},
        {"offer": None, "retry_after": "soon"},
        {"offer": None, "retry_after": True},
        {"offer": None, "retry_after": 10**9},
        {"offer": [], "retry_after": 0},
        {"offer": {}, "retry_after": 0},
        {"offer": "none", "retry_after": 0},
        {"offer": {"round": "3", "release": []}, "retry_after": 0},
        {"offer": {"round": -3, "release": {}}, "retry_after": 0},
    )
}
CASES = [
    *((path, name, odd) for path in (DEVICE, OFFER) for name, odd in ANYWHERE.items()),
    *((path, name, odd) for path in (DEVICE, OFFER) for name, odd in OF_JSON.items()),
    *((OFFER, name, odd) for name, odd in OF_OFFERS.items()),
]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(Gateway()) as server:
        yield server


def run(
    gateway: Gateway, arguments: JoinOptions, pauses: int, paused: Callable[[int], None]
) -> list[float]:
    """Run the command for so many pauses, which are told to ``paused`` by their number and
    returned."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        paused(len(slept))
        if len(slept) >= pauses:
            raise Stopped

    url = f"http://127.0.0.1:{gateway.server_port}"
    with GatewayConnection(url, os.urandom(32), attempts=1, seconds=30.0) as connection:
        participation = Participation(connection, arguments.state)
        with pytest.raises(Stopped):
            command._rounds(participation, arguments, sleep, lambda: 0.0)
    return slept


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        pytest.param(p, o, id=f"{p} {name}", marks=pytest.mark.slow if p == DEVICE else [])
        for p, name, o in CASES
    ],
)
def test_an_odd_answer_is_told_and_asked_for_again(
    gateway: Gateway,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    odd: Odd,
) -> None:
    gateway.path, gateway.odd, gateway.times = path, odd, 3
    gateway.files = {}
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path})
    assert run(gateway, arguments, 4, lambda number: None) == [30, 60, 120, 7]
    assert gateway.times == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) in (1, 3)  # of a gateway that is away once
    assert all(line.startswith(("unusable: ", "unreachable: ")) for line in lines)
    assert all(line.isprintable() for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", ["attestation", "attestation_needed"])
def test_a_wish_for_evidence_is_answered(gateway: Gateway, tmp_path: Path, code: str) -> None:
    gateway.path, gateway.odd, gateway.times = DEVICE, Odd(403, {"code": code, "detail": ""}), 3
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path})
    assert run(gateway, arguments, 4, lambda number: None) == [30, 60, 120, 7]


def test_a_forgetful_gateway_is_asked_with_pauses(gateway: Gateway, tmp_path: Path) -> None:
    odd = Odd(403, {"code": "unknown_device", "detail": ""})
    gateway.path, gateway.odd, gateway.times = OFFER, odd, 3
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path})
    assert run(gateway, arguments, 4, lambda number: None) == [30, 60, 120, 7]


class Registry:
    """Releases and statements for the bundle of an enrolled device, signed with :data:`KEY`."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        bundle = Bundle.open(config["bundle"])
        files = {name: bundle.read(name) for name in bundle.manifest.files}
        write_bundle(folder / "bundle", bundle.manifest, files, signing_key=KEY)
        self.bundle = folder / "bundle"
        self.encoder = load(self.bundle)
        self.release = self.packed("3")

    def packed(self, version: str) -> bytes:
        return pack_adapter(self.encoder.adapter, manifest=self.encoder.manifest, version=version)

    def lineage(self, sequence: int, release: bytes, version: str, key: bytes = KEY) -> bytes:
        encoder = self.encoder.manifest.files["encoder.onnx"].sha256
        target = Target(version, sha256_bytes(release))
        keys = (StatementKey(public_key_of(key)),)
        said = Statement(self.encoder.space_id, encoder, sequence, keys, target)
        return pack_lineage([said.signed(key)])

    def current(self, release: bytes, lineage: bytes) -> dict[str, Any]:
        return {
            "version": "3",
            "sha256": sha256_bytes(release),
            "bytes": len(release),
            "path": "",
            "lineage": base64.b64encode(lineage).decode(),
        }


@pytest.fixture(scope="module")
def registry(supernode: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return Registry(supernode, tmp_path_factory.mktemp("registry"))


ODD_NAMES: tuple[Any, ...] = (
    "\u00e9" * 10, "\u0663" * 64, "../../secret", "A" * 64, "", 7, None, [],
)  # fmt: skip
NAMES = {f"named {name!r:.20}": name for name in ODD_NAMES}
RELEASES = [
    *NAMES,
    "no lineage's base64", "a lineage that is no text", "a lineage of noise",
    "an older lineage", "a fork", "another key's lineage", "a newer format",
    "another file", "a file of another bundle", "half a file", "no file",
    "the place is taken", "the disk is full",
    *ANYWHERE, *OF_JSON,
]  # fmt: skip
FAST = ("a fork", "half a file", "the disk is full")


@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=[] if one in FAST else pytest.mark.slow) for one in RELEASES]
)
def test_no_release_that_is_odd_is_put_in_force(
    gateway: Gateway,
    supernode: dict[str, Any],
    registry: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    case: str,
) -> None:
    """Version 3 is in force, version 4 comes in an odd way three times, and then as it should."""
    newer = registry.packed("4")
    old, current = registry.release, registry.current
    good = current(newer, registry.lineage(4, newer, "4"))
    path, bad = CURRENT, dict(good)
    gateway.path = ""
    kept = tmp_path / RELEASE
    file = f"/v1/releases/{sha256_bytes(newer)}"
    gateway.files = {
        CURRENT: json.dumps(current(old, registry.lineage(3, old, "3"))).encode(),
        f"/v1/releases/{sha256_bytes(old)}": old,
        file: newer,
    }
    if case in NAMES:
        bad |= {"sha256": NAMES[case], "lineage": ""}
    elif "lineage" in case or case in ("a fork", "a newer format"):
        older = registry.lineage(2, newer, "4")
        bad["lineage"] = {
            "no lineage's base64": "!!!",
            "a lineage that is no text": 7,
            "a lineage of noise": base64.b64encode(os.urandom(300)).decode(),
            "an older lineage": base64.b64encode(older).decode(),
            "a fork": base64.b64encode(registry.lineage(3, newer, "4")).decode(),
            "another key's lineage": base64.b64encode(
                registry.lineage(4, newer, "4", bytes(32))
            ).decode(),
            "a newer format": base64.b64encode(b'{"format": 99}\n').decode(),
        }[case]
    odd = Odd(200, bad)
    if case in ("another file", "a file of another bundle", "half a file", "no file"):
        path = file
        body = {"another file": old, "half a file": newer[:99]}.get(case, os.urandom(999))
        odd = Odd(404 if case == "no file" else 200, body)
    elif case in ANYWHERE or case in OF_JSON:
        odd = {**ANYWHERE, **OF_JSON}[case]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    is_local = case in ("the place is taken", "the disk is full")

    def paused(number: int) -> None:
        if number == 1:
            assert kept.read_bytes() == old
            gateway.path, gateway.odd, gateway.times = path, odd, 0 if is_local else 99
            gateway.files[CURRENT] = json.dumps(good).encode()
            if case == "the place is taken":
                kept.unlink()
                kept.mkdir()
            elif is_local:
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        elif number < 5:
            assert kept.is_dir() or kept.read_bytes() == old
            gateway.times = gateway.times if number < 4 else 0
            if number == 4 and is_local:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                shutil.rmtree(kept, ignore_errors=True)
        else:
            assert kept.read_bytes() == newer

    options = {name: supernode[name] for name in ("index", "policy")}
    options |= {"bundle": registry.bundle, "state": tmp_path}
    options |= {"public-key": public_key_of(KEY).hex()}
    try:
        assert run(gateway, parsed(options), 5, paused) == [7, 30, 60, 120, 7]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) in (1, 3)
    assert all(line.isprintable() for line in lines)
