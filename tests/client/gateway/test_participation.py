"""Offers that a device declines by itself, told to a server on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pocketquery.client.device import Answer, Offer
from pocketquery.client.gateway.connection import GatewayConnection
from pocketquery.client.gateway.messages import offer_message
from pocketquery.client.gateway.outcome import Outcome, sent
from pocketquery.client.gateway.participation import Participation
from pocketquery.sdk.errors import ArtifactError


class Gateway(ThreadingHTTPServer):
    """Answers GET with the offer, everything else with 204, and remembers what was asked."""

    def __init__(self, offer: dict[str, Any]) -> None:
        self.offer = json.dumps({"offer": offer, "retry_after": 0}).encode()
        self.refusals: list[tuple[int, str]] = []  # of the next requests
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Gateway

    def do_GET(self) -> None:
        self.answer(200, self.server.offer)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.refusals:
            status, code = self.server.refusals.pop(0)
            self.answer(status, json.dumps({"code": code, "detail": ""}).encode())
        else:
            self.answer(204, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


class Trained:
    """A device that must not be asked."""

    def answer(self, offer: Offer) -> Answer:
        raise AssertionError("it was trained")


def offered(**changes: Any) -> dict[str, Any]:
    return offer_message(Offer(round=7, release=b"a release"), "4") | changes


@pytest.fixture(params=["a private round", "unusable settings"])
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    if request.param == "a private round":
        return offered(secure={"announcement": ""}), "a private round was offered"
    local = offered()["local"] | {"steps": 0}
    return offered(local=local), "steps is 0, expected a whole number from 1 to 10000"


@pytest.fixture
def gateway(case: tuple[dict[str, Any], str]) -> Iterator[Gateway]:
    with serving(case[0]) as server:
        yield server


@contextlib.contextmanager
def serving(offer: dict[str, Any]) -> Iterator[Gateway]:
    with Gateway(offer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_what_it_cannot_take_part_in_is_declined_without_a_training(
    gateway: Gateway, case: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{gateway.server_port}"
    with GatewayConnection(url, os.urandom(32), attempts=1) as connection:
        outcome = Participation(connection, tmp_path).take_part(Trained())
    assert outcome.what == "declined"
    assert outcome.detail.startswith(case[1])
    assert gateway.asked == ["GET /v1/offer", "PUT /v1/rounds/7/declined"]


@pytest.mark.parametrize(
    ("code", "times", "what"),
    [("between_steps", 2, "accepted"), ("between_steps", 3, "over"), ("journal", 3, "")],
)
def test_an_update_between_two_steps_is_kept_and_sent_again(
    code: str, times: int, what: str
) -> None:
    """It is given up where no step begins; what the gateway suffers from ends the turn."""
    with serving(offered()) as gateway:
        gateway.refusals = [(503, code)] * times
        url = f"http://127.0.0.1:{gateway.server_port}"
        with GatewayConnection(
            url, os.urandom(32), attempts=3, sleep=lambda seconds: None
        ) as connection:
            raises = contextlib.nullcontext() if what else pytest.raises(ArtifactError)
            with raises:
                path = "/v1/rounds/7/update"
                assert sent(connection, path, Outcome("accepted"), b"update").what == what
        assert gateway.asked == ["PUT /v1/rounds/7/update"] * 3
