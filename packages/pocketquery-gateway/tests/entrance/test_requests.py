"""Every request counts, whatever its path and method: for its address, in the metrics and the
log."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from entrance.test_connections import PATIENCE, health, read
from serve_gateway import Served, serving
from small_gateway import opened

from tests.short_folder import short_folder

_NUMBERS = itertools.count(1)  # each case has an address of its own
ORIGIN = "https://app.example.org"
HOST = b"host: here\r\n"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    limits = {"address-requests-per-minute": 2, "origins": [ORIGIN]}
    with short_folder() as folder, serving(folder, **limits) as found:
        yield found


@pytest.mark.parametrize(
    ("request_", "route", "status"),
    [
        (b"GET /v1/health HTTP/1.1\r\n" + HOST, "/v1/health", 200),
        (b"HEAD /v1/health HTTP/1.1\r\n" + HOST, "/v1/health", 200),
        (b"GET /v1/health HTTP/1.0\r\n", "/v1/health", 200),
        (b"GET /nope HTTP/1.1\r\n" + HOST, "none", 404),
        (b"GET /v1/health/ HTTP/1.1\r\n" + HOST, "none", 404),
        (b"GET / HTTP/1.1\r\n" + HOST, "none", 404),
        (b"POST /v1/offer HTTP/1.1\r\ncontent-length: 0\r\n" + HOST, "/v1/offer", 405),
        (b"PROPFIND /v1/offer HTTP/1.1\r\n" + HOST, "/v1/offer", 405),
        (b"OPTIONS /v1/offer HTTP/1.1\r\n" + HOST, "/v1/offer", 405),
        (b"GET /v1/offer HTTP/1.1\r\n" + HOST, "/v1/offer", 401),
        (b"OPTIONS /v1/offer HTTP/1.1\r\naccess-control-request-method: GET\r\norigin: "
         + ORIGIN.encode() + b"\r\n" + HOST, "preflight", 200),
        (b"OPTIONS /nope HTTP/1.1\r\naccess-control-request-method: GET\r\norigin: "
         b"https://else.test\r\n" + HOST, "preflight", 400),
        (b"nonsense HTTP/1.1\r\n", "unread", 400),
        (b"CONNECT here:80 HTTP/1.1\r\n" + HOST, "unread", 400),
        (b"GET /v1/health HTTP/1.1\r\n" + b"a: b\r\n" * 200, "unread", 431),
        (b"GET /v1/health HTTP/1.1\r\na: " + b"x" * 30_000, "unread", 431),
    ],
)  # fmt: skip
def test_every_request_counts(served: Served, request_: bytes, route: str, status: int) -> None:
    """Four are let through at once; whatever follows is refused, and counted as well."""
    number, before = next(_NUMBERS), counted(served, route, status)
    log = served.folder.parent / "log.jsonl"
    lines = len(log.read_text().splitlines())
    for attempt in range(6):
        with connected(served, f"127.0.1.{number}") as one:
            one.sendall(request_ + b"connection: close\r\n\r\n")
            code = int(read(one).split(maxsplit=2)[1])
        if attempt < 4:
            assert code == status
    assert code == 429
    assert health(served, f"127.0.1.{number}") == 429
    written = [json.loads(line) for line in log.read_text().splitlines()[lines:]]
    written = [line for line in written if line["event"] == "request"]
    assert len(written) == 7
    logged = sum((line["route"], line["status"]) == (route, status) for line in written)
    assert 4 <= logged == counted(served, route, status) - before <= 5  # a token came back


def counted(served: Served, route: str, status: int) -> int:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(served.folder / "gateway.sock"))) as at:
        lines = at.get("http://gateway/metrics").text.splitlines()
    total = f'gateway_requests_total{{route="{route}",status="{status}"}} '
    return sum(int(float(line.removeprefix(total))) for line in lines if line.startswith(total))


def connected(served: Served, source: str) -> socket.socket:
    try:
        return socket.create_connection(("127.0.0.1", served.port), PATIENCE, (source, 0))
    except OSError:
        pytest.skip(f"this machine has no {source}")


def test_a_page_can_read_why_it_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, origins=(ORIGIN,), address_requests_per_minute=0.5) as at:
        for status in (200, 429):
            found = at.client.get("/v1/health", headers={"origin": ORIGIN})
            assert found.status_code == status
            assert found.headers["access-control-allow-origin"] == ORIGIN


def test_metrics_have_a_limit_of_their_own(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    limits = {"address-requests-per-minute": 1, "metrics": f"127.0.0.1:{port}"}
    with serving(tmp_path, **limits) as served:
        begun = time.monotonic()
        found = [httpx.get(f"http://127.0.0.1:{port}/metrics").status_code for _ in range(3)]
        assert found == [200, 200, 429] or time.monotonic() - begun > 30
        assert health(served) == 200
