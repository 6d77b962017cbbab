"""Requests to a gateway that goes away in the middle of its answer."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest
from quiet_server import QuietHandler, serving

from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery_join.connection import GatewayConnection

BODY = bytes(range(256)) * 40


class Gateway(ThreadingHTTPServer):
    """Sends ``sent`` bytes of the body in each of the first ``cut`` answers, then the whole."""

    cut = 0
    sent = 0
    asked = 0
    slow = False  # it says that the first request took too long to come

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(QuietHandler):
    server: Gateway

    def do_GET(self) -> None:
        self.server.asked += 1
        is_late = self.server.slow and self.server.asked == 1
        self.send_response(408 if is_late else 200)
        self.send_header("content-length", str(len(BODY)))
        self.end_headers()
        whole = self.server.asked > self.server.cut
        self.wfile.write(BODY if whole else BODY[: self.server.sent])
        self.close_connection = True


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving(Gateway()) as server:
        yield server


def connection(gateway: Gateway) -> GatewayConnection:
    url = f"http://127.0.0.1:{gateway.server_port}"
    return GatewayConnection(url, os.urandom(32), attempts=3, sleep=lambda _: None)


@pytest.mark.parametrize("sent", [0, 1, len(BODY) - 1])
def test_an_answer_cut_short_is_asked_for_again(gateway: Gateway, sent: int) -> None:
    gateway.cut, gateway.sent = 2, sent
    with connection(gateway) as opened:
        assert opened.ask("GET", "/v1/releases/1").body == BODY
    assert gateway.asked == 3


def test_what_came_too_slowly_is_sent_again(gateway: Gateway) -> None:
    gateway.slow = True
    with connection(gateway) as at:
        assert at.ask("GET", "/v1/offer").body == BODY
    assert gateway.asked == 2


def test_answers_always_cut_short_are_no_answer(gateway: Gateway) -> None:
    gateway.cut = 9
    said = "did not answer 3 times"
    with connection(gateway) as opened, pytest.raises(ArtifactError, match=said):
        opened.ask("GET", "/v1/releases/1")


RECORD = b"\x16\x03\x03\x40\x00"  # of a handshake, 16 KiB


@pytest.mark.parametrize(
    ("scheme", "begin", "drop"),
    [
        ("http", b"", b"H"),
        ("http", b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
        ("http", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        ("https", RECORD, b"\0"),
        ("https", b"", b"\x15\x03\x03\x00\x02\x01\x00"),  # warnings
    ],
)
def test_an_answer_that_drips_is_cut(scheme: str, begin: bytes, drop: bytes) -> None:
    drops, most = 0, 300
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            nonlocal drops
            one, _ = server.accept()
            with one, contextlib.suppress(OSError):
                one.recv(1000)
                one.sendall(begin)
                for drops in range(most):  # noqa: B007
                    one.sendall(drop)
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        with (
            GatewayConnection(url, os.urandom(32), attempts=1, seconds=0.5) as opened,
            pytest.raises(ArtifactError, match="did not answer 1 times"),
        ):
            opened.ask("GET", "/v1/offer")
        thread.join()
    assert drops < most - 1


@pytest.mark.parametrize(
    "url",
    ["https://host:84x43", "https://host:99999", "https://[::1", "https://", "http://host", "host"],
)
def test_what_is_no_url_of_a_gateway_is_told(url: str) -> None:
    with pytest.raises(InvalidInputError, match=r"expected https://host or https://host:port"):
        GatewayConnection(url, bytes(32))
