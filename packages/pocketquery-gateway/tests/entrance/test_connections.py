"""Connections that say nothing, or little at a time, and many from one address: real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from serve_gateway import Served, serving

from pocketquery_gateway.settings import GatewaySettings

SHORT = 0.2  # seconds, of a limit that passes
LONG = 3600.0  # seconds in which nothing ends by itself
PATIENCE = 120.0  # of a test, for what comes at once on a machine that is free
ELSEWHERE = "127.0.0.2"


Connect: TypeAlias = Callable[..., socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens connections to a gateway, from an address; they are closed at the end."""
    made: list[socket.socket] = []

    def open_one(served: Served, source: str = "127.0.0.1") -> socket.socket:
        try:
            to = ("127.0.0.1", served.port)
            made.append(socket.create_connection(to, PATIENCE, (source, 0)))
        except OSError:
            if source == ELSEWHERE:
                pytest.skip(f"this machine has no {ELSEWHERE}")
            raise
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def read(one: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := one.recv(65_536):
            received += data
    return received


def asked(one: socket.socket, more: bytes = b"") -> int:
    """Ask for health on a connection that goes on: the status, once the answer is read."""
    one.sendall(b"GET /v1/health HTTP/1.1\r\nhost: here\r\n" + more + b"\r\n")
    answer = http.client.HTTPResponse(one)
    answer.begin()
    answer.read()
    return answer.status


def asking(connect: Connect, served: Served, more: bytes = b"") -> socket.socket:
    """A connection whose first request was answered; another where it came too late."""
    for _ in range(100):
        one = connect(served)
        with contextlib.suppress(ConnectionError):
            assert asked(one, more) == 200
            return one
    pytest.fail("no request is answered")


def said(one: socket.socket) -> tuple[int, str]:
    """Status and code of the problem that a connection ends with; (0, "") where it just ends."""
    head, _, body = read(one).partition(b"\r\n\r\n")
    if not head:
        return 0, ""
    assert b"application/problem+json" in head
    assert b"connection: close" in head.lower()
    problem = json.loads(body)
    assert head.split()[1] == str(problem["status"]).encode()
    return problem["status"], problem["code"]


def dribble(one: socket.socket, data: bytes = b"x") -> None:
    """Send a byte now and then, until the other end says something or closes."""
    for _ in range(int(PATIENCE / 0.05)):
        if select.select([one], [], [], 0.05)[0]:
            return
        try:
            one.sendall(data)
        except ConnectionError:
            return
    pytest.fail("the gateway goes on listening")


def health(served: Served, source: str = "127.0.0.1") -> int:
    """The status that one more connection gets."""
    asked = http.client.HTTPConnection(
        "127.0.0.1", served.port, PATIENCE, source_address=(source, 0)
    )
    try:
        asked.request("GET", "/v1/health", headers={"connection": "close"})
        return asked.getresponse().status
    except ConnectionError:  # it was refused before the request was read
        return 0
    finally:
        asked.close()


def until(happens: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE / 0.1)):
        if happens():
            return
        time.sleep(0.1)
    pytest.fail("it does not happen")


def ended(served: Served, reason: str) -> float:
    """How many connections were ended for a reason, as the metrics say."""
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(served.folder / "gateway.sock"))) as at:
        lines = at.get("http://gateway/metrics").text.splitlines()
    name = f'gateway_connections_ended_total{{reason="{reason}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def test_connections_that_say_nothing_end(tmp_path: Path, connect: Connect) -> None:
    silent = {"connections": 5, "address-connections": 0, "header-seconds": SHORT}
    with serving(tmp_path, **silent) as served:
        idle = [connect(served) for _ in range(6)]
        assert [read(one) for one in idle] == [b""] * 6
        until(lambda: health(served) == 200)
        assert ended(served, "headers") == 6


def test_headers_and_bodies_that_come_slowly_end(tmp_path: Path, connect: Connect) -> None:
    """Tried again where this process itself is too slow, and so says nothing in time."""
    with serving(tmp_path, **{"header-seconds": SHORT, "body-seconds": SHORT}) as served:

        def slow(begin: bytes, then: bytes) -> Callable[[], bool]:
            def is_told() -> bool:
                one = connect(served)
                with contextlib.suppress(ConnectionError):
                    one.sendall(begin)
                    if then:
                        dribble(one, then)
                return said(one) == (408, "slow")

            return is_told

        until(slow(b"GET /v1/health HTTP/1.1\r\nhost: here\r\nx-long: ", b"x"))
        until(slow(b"\r\n", b"\r\n"))  # before a request, and none of it
        until(slow(b"POST /v1/challenge HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n"
                   b"\r\n", b""))  # fmt: skip


def test_a_second_request_is_not_waited_for_longer(tmp_path: Path, connect: Connect) -> None:
    """uvicorn's own timer ends with its first byte."""
    with serving(tmp_path, **{"header-seconds": SHORT}) as served:
        again = asking(connect, served)
        again.sendall(b"\r\n")
        dribble(again, b"\r\n")
        assert said(again) == (408, "slow")


def test_a_body_that_nobody_reads_is_not_waited_for(tmp_path: Path, connect: Connect) -> None:
    with serving(tmp_path, **{"body-seconds": SHORT}) as served:
        unread = asking(connect, served, b"content-length: 100000\r\n")
        dribble(unread)
        assert read(unread) == b""
        assert ended(served, "body") == 1


def test_a_connection_is_kept_between_requests_but_not_after_a_body_that_came_late(
    tmp_path: Path,
    connect: Connect,
) -> None:
    """uvicorn's own timer begins at the answer, and ends with the next byte."""
    with serving(tmp_path, **{"header-seconds": SHORT, "body-seconds": LONG}) as served:
        late = asking(connect, served, b"content-length: 3\r\n")
        late.sendall(b"xyz")
        assert read(late) == b""
        kept = asking(connect, served)
        for _ in range(2):
            time.sleep(2 * SHORT)  # longer than headers may take: it is idle, and said nothing yet
            assert asked(kept) == 200


def test_an_answer_that_nobody_takes_is_not_waited_for(tmp_path: Path, connect: Connect) -> None:
    """Tried again where this process asks faster than the gateway answers."""
    asks = 8 * b"GET /v1/openapi.json HTTP/1.1\r\nhost: h\r\n\r\n"
    limits = {"body-seconds": SHORT, "address-requests-per-minute": 100_000}
    with serving(tmp_path, **limits) as served:

        def is_ended() -> bool:
            deaf = connect(served)
            with contextlib.suppress(OSError):
                for _ in range(40):  # four megabytes of answers fill the buffers between
                    deaf.send(asks)
                    time.sleep(0.02)
            time.sleep(SHORT)
            return ended(served, "answer") > 0

        until(is_ended)
        assert health(served) == 200


def test_an_address_has_so_many_connections(tmp_path: Path, connect: Connect) -> None:
    limits = {"connections": 8, "header-seconds": LONG}
    with serving(tmp_path, **limits) as served:
        mine = [connect(served) for _ in range(2)]  # a quarter of all
        until(lambda: health(served) != 200)
        assert said(connect(served)) == (429, "address_connections")
        assert health(served, ELSEWHERE) == 200
        mine.pop().close()
        until(lambda: health(served) == 200)
        assert ended(served, "address") >= 2


def test_a_trusted_proxy_has_as_many_as_it_likes(tmp_path: Path, connect: Connect) -> None:
    limits = {"behind-proxy": True, "trusted-proxies": ["127.0.0.0/31"], "address-connections": 1}
    with serving(tmp_path, **limits) as served:
        kept = [connect(served) for _ in range(4)]
        for one in kept:
            assert asked(one) == 200
        other = connect(served, ELSEWHERE)
        assert asked(other) == 200
        assert said(connect(served, ELSEWHERE)) == (429, "address_connections")


def test_an_address_has_a_quarter_of_the_connections_where_nothing_is_said(tmp_path: Path) -> None:
    def most(**given: int) -> int:
        return GatewaySettings(folder=tmp_path, **given).most_of_address  # type: ignore[arg-type]

    assert most() == 500
    assert most(connections=3) == 1
    assert most(connections=3, address_connections=9) == 9
    assert most(address_connections=0) == 0
