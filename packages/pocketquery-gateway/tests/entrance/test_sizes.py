"""Requests that are too large, or none, before anybody looks at them: real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import time
from collections.abc import Iterator

import pytest
from entrance.test_connections import PATIENCE, ended, read, until
from serve_gateway import Served, serving

from pocketquery.client.gateway.signing import signed_headers
from tests.short_folder import short_folder

GET = b"GET /v1/health HTTP/1.1\r\nhost: here\r\n"
POST = b"POST /v1/challenge HTTP/1.1\r\nhost: here\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
LONG = b"x" * 65_536
SIZES = "431 headers"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    limits = {"metrics": metrics, "body-megabytes": 1}
    with short_folder() as folder, serving(folder, **limits) as found:
        yield found


def connected(served: Served, listener: str) -> socket.socket:
    if listener == "control":
        control = socket.socket(socket.AF_UNIX)
        control.settimeout(PATIENCE)
        control.connect(str(served.folder / "gateway.sock"))
        return control
    port = served.port
    if listener == "metrics":
        config = (served.folder.parent / "gateway.toml").read_text()
        port = int(re.findall(r'metrics = "127.0.0.1:(\d+)"', config)[0])
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def pushed(one: socket.socket, data: bytes, more: bytes) -> tuple[str, int]:
    """What a connection answers to ``data`` and then ``more`` without an end, and the bytes that it
    took; "" where it ends without an answer."""
    size = 0
    with one:
        try:
            one.sendall(data)
            one.setblocking(False)
            end = time.monotonic() + PATIENCE
            while more:
                assert time.monotonic() < end, "the gateway goes on listening"
                with contextlib.suppress(BlockingIOError):
                    size += one.send(more)
                    continue
                time.sleep(0.005)
        except ConnectionError:
            pass
        one.setblocking(True)
        one.settimeout(PATIENCE)
        return told(read(one)), size


def told(answer: bytes) -> str:
    head, _, body = answer.rpartition(b"\r\n\r\n")
    if not head:
        return ""
    return f"{head.split()[1].decode()} {json.loads(body).get('code', 'ok')}"


@pytest.mark.parametrize(
    ("data", "more"),
    [
        (GET + b"a: ", LONG),
        (GET, b"a: " + LONG + b"\r\n"),
        (GET, b"a: b\r\n" * 10_000),
        (b"", LONG),
        (b"GET /", LONG),
        (b"GET /v1/health?", LONG),
        (b"", b"\r\n" * 32_768),
        (CHUNKED + b"1;", LONG),
        (CHUNKED + b'1;a="', LONG),
        (CHUNKED + b"0\r\na: ", LONG),
        (CHUNKED, b"1\r\nx\r\n" * 10_000),
        (CHUNKED + b"0\r\n", b"a: b\r\n" * 10_000),
        (GET + b"\r\n" + GET + b"a: ", LONG),
        (b"\x16\x03\x01\x02\x00\x01\x00", LONG),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", LONG),
        (b"", (GET + b"\r\n") * 2000),
        (b"", (POST + b"content-length: 0\r\n\r\n") * 2000),
    ],
)
@pytest.mark.parametrize("listener", ["devices", "control", "metrics"])
def test_what_has_no_end_is_ended(served: Served, listener: str, data: bytes, more: bytes) -> None:
    """The kernel's buffers take some of it beside what the gateway reads."""
    _, size = pushed(connected(served, listener), data, more)
    assert size < 16 << 20
    assert served.process.poll() is None


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (GET + b"a: " + b"x" * 16_000 + b"\r\n\r\n", "200 ok"),
        (GET + b"a: b\r\n" * 99 + b"\r\n", "200 ok"),
        (GET + b"a: " + b"x" * 16_400 + b"\r\n\r\n", SIZES),
        (GET + (b"a: " + b"x" * 1000 + b"\r\n") * 17 + b"\r\n", SIZES),
        (GET + b"a: b\r\n" * 100 + b"\r\n", SIZES),
        (b"GET /v1/health?" + b"x" * 16_400 + b" HTTP/1.1\r\nhost: here\r\n\r\n", SIZES),
        (GET + b"a: " + b"x" * 30_000, SIZES),
        (b"nonsense\r\n\r\n", "400 malformed"),
        (b"CONNECT here:80 HTTP/1.1\r\nhost: here\r\n\r\n", "400 malformed"),
        (b"OPTIONS * HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n", "404 no_path"),
        (b"GET /\xff HTTP/1.1\r\nhost: here\r\n\r\n", "400 malformed"),
        (GET + b"bad header\r\n\r\n", "400 malformed"),
        (POST + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", "400 malformed"),
        (GET + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n", "200 ok"),
        (GET + b"connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n\r\n", "200 ok"),
    ],
)
def test_a_request_has_so_many_headers(served: Served, data: bytes, answer: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as one:
        if not answer.startswith("200"):
            one.sendall(data)
            assert told(read(one)) == answer
            return
        for _ in range(2):  # and the connection goes on
            one.sendall(data)
            response = http.client.HTTPResponse(one)
            response.begin()
            assert (response.status, json.loads(response.read())) == (200, {"status": "ok"})


@pytest.mark.parametrize("listener", ["devices", "control", "metrics"])
def test_a_few_requests_may_wait_for_others(served: Served, listener: str) -> None:
    closing = GET + b"connection: close\r\n\r\n"
    with connected(served, listener) as one:
        one.sendall((GET + b"\r\n") * 16 + closing)
        assert read(one).count(b"HTTP/1.1 ") == 17
    before = ended(served, "waiting")
    with connected(served, listener) as one:
        one.sendall((GET + b"\r\n") * 1000)
        with contextlib.suppress(ConnectionError):
            assert read(one).count(b"HTTP/1.1 ") <= 17
    assert ended(served, "waiting") == before + 1


def head(served: Served, key: bytes, size: int, **change: str) -> bytes:
    """The headers of a registration whose body has ``size`` bytes."""
    host = f"127.0.0.1:{served.port}"
    headers = signed_headers(
        key, "PUT", host, "/v1/device", bytes(size), created=int(time.time()), nonce=os.urandom(16)
    )
    lines = {"host": host, "content-length": str(size), **headers, **change}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return b"PUT /v1/device HTTP/1.1\r\n" + text.encode() + b"\r\n"


def test_bodies_have_a_room_that_an_address_cannot_fill(served: Served) -> None:
    """It has a quarter of one megabyte, and each of these nearly a quarter of that."""
    size = 60_000
    time.sleep(1.1)  # what is signed before the gateway's start is refused
    garbage = {"signature": "sig1=:" + "A" * 86 + "==:"}
    kept = []
    for change, answer in ((garbage, "401 signature"), ({}, "")):
        for _ in range(4):
            one = socket.create_connection(("127.0.0.1", served.port), PATIENCE)
            kept.append(one)
            one.sendall(head(served, os.urandom(32), size, **change))
            if answer:
                got = http.client.HTTPResponse(one)
                got.begin()
                assert f"{got.status} {json.loads(got.read())['code']}" == answer
            one.sendall(bytes(size - 1))

    def is_full() -> bool:
        with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as one:
            with contextlib.suppress(ConnectionError):
                one.sendall(head(served, os.urandom(32), size) + bytes(size - 1))
            got = http.client.HTTPResponse(one)
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                one.settimeout(1.0)
                got.begin()
                return bool(got.status == 503 and json.loads(got.read())["code"] == "busy")
            return False

    with contextlib.suppress(TimeoutError):
        until(is_full)
    assert ended(served, "bodies") >= 1
    for one in kept:
        one.close()
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE) as one:

        def is_free() -> bool:
            one.sendall(head(served, os.urandom(32), 2) + b"{}")
            got = http.client.HTTPResponse(one)
            got.begin()
            got.read()
            return got.status != 503

        until(is_free)
