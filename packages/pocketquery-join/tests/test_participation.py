"""Offers that a device declines by itself, told to a server on loopback."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from quiet_server import QuietHandler, serving
from turns import turn

from pocketquery.client.device import Answer, Declined
from pocketquery.client.offer import Offer
from pocketquery.client.private.messages import Stage
from pocketquery.sdk.errors import ArtifactError
from pocketquery_join.connection import GatewayConnection
from pocketquery_join.outcome import Outcome, send
from pocketquery_join.participation import Participation
from pocketquery_join.private_rounds import PrivateRounds, StageMessage


class Gateway(ThreadingHTTPServer):
    """Answers GET with the offer, everything else with 204, and remembers what was asked."""

    def __init__(self, offer: dict[str, Any]) -> None:
        self.offer = json.dumps({"offer": offer, "retry_after": 0}).encode()
        self.refusals: list[tuple[int, str]] = []  # of the next requests
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(QuietHandler):
    server: Gateway

    def do_GET(self) -> None:
        if self.path.endswith("/secure"):
            self.answer(409, json.dumps({"code": "round_over", "detail": ""}).encode())
        else:
            self.answer(200, self.server.offer)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.refusals:
            status, code = self.server.refusals.pop(0)
            self.answer(status, json.dumps({"code": code, "detail": ""}).encode())
        elif self.path.endswith("/declined"):
            self.answer(204, b"")
        else:
            verdict = "received" if "/secure/" in self.path else "accepted"
            self.answer(200, json.dumps({"verdict": verdict}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send(status, body)


class Trained:
    """A device that must not be asked."""

    def answer(self, offer: Offer) -> Answer:
        raise AssertionError("it was trained")


class Enrolled:
    """The same in private rounds, ready in each; it remembers what it was told of them."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def answer(self, stage: int, body: bytes, offer: Offer | None = None) -> bytes | Declined:
        return b"a reply" if body else Declined("there is nothing to answer")

    def give_up(self, round: int) -> None:
        self.told.append(round)


def offered(**changes: Any) -> dict[str, Any]:
    return Offer(round=7, release=b"a release").to_dict() | changes


@pytest.fixture(params=["a private round", "unusable settings"])
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    if request.param == "a private round":
        return offered(announcement="YQ=="), "a private round was offered"
    local = offered()["local"] | {"steps": 0}
    return offered(local=local), "steps is 0, expected a whole number from 1 to 10000"


@pytest.fixture
def gateway(case: tuple[dict[str, Any], str]) -> Iterator[Gateway]:
    with serving(Gateway(case[0])) as server:
        yield server


def test_what_it_cannot_take_part_in_is_declined_without_a_training(
    gateway: Gateway, case: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{gateway.server_port}"
    with GatewayConnection(url, os.urandom(32), attempts=1) as connection:
        outcome = turn(Participation(connection, tmp_path), Trained())
    assert outcome.what == "declined"
    assert outcome.detail.startswith(case[1])
    assert gateway.asked == ["GET /v1/offer", "PUT /v1/rounds/7/declined"]


def test_a_private_round_that_is_over_at_the_gateway_is_given_up(tmp_path: Path) -> None:
    local = offered()["local"] | {"steps": 0}  # what comes next is declined
    with serving(Gateway(offered(local=local))) as gateway:
        url = f"http://127.0.0.1:{gateway.server_port}"
        with GatewayConnection(url, os.urandom(32), attempts=1) as connection:
            enrolled, participation = Enrolled(), Participation(connection, tmp_path)
            participation.private.round = 6
            assert turn(participation, Trained(), enrolled).what == "declined"
            assert participation.private.round is None
        assert enrolled.told == [6]
        assert gateway.asked[0] == "GET /v1/rounds/6/secure"


@pytest.mark.parametrize("refusal", [(409, "round_over"), (422, "invalid"), None])
@pytest.mark.parametrize("stage", [Stage.OFFER, Stage.CONFIRM, Stage.UNMASK])
def test_the_end_of_a_round_is_forgotten(stage: Stage, refusal: tuple[int, str] | None) -> None:
    """A reply that came too late, in the middle, is no end: the next question tells."""
    with serving(Gateway(offered())) as gateway:
        gateway.refusals = [refusal] if refusal else []
        url = f"http://127.0.0.1:{gateway.server_port}"
        with GatewayConnection(url, os.urandom(32), attempts=1) as connection:
            enrolled, rounds = Enrolled(), PrivateRounds(connection)
            if stage is Stage.OFFER:
                rounds.begin(b"announced", Offer(round=7, release=b"a release"), enrolled)
            else:
                rounds.round = 7
                rounds.answer(StageMessage(stage, b"a message"), enrolled)
            ended = refusal is not None and stage is not Stage.CONFIRM
            assert enrolled.told == ([7] if ended else [])
            rounds.round = 7
            assert rounds.answer(StageMessage(stage, b""), enrolled).what == "declined"
            assert enrolled.told[-1] == 7


@pytest.mark.parametrize(
    ("code", "times", "what"),
    [("between_steps", 2, "accepted"), ("between_steps", 3, "over"), ("journal", 3, "")],
)
def test_an_update_between_steps_is_sent_again(code: str, times: int, what: str) -> None:
    """It is given up where no step begins; what the gateway suffers from ends the turn."""
    with serving(Gateway(offered())) as gateway:
        gateway.refusals = [(503, code)] * times
        url = f"http://127.0.0.1:{gateway.server_port}"
        with GatewayConnection(
            url, os.urandom(32), attempts=3, sleep=lambda seconds: None
        ) as connection:
            raises = contextlib.nullcontext() if what else pytest.raises(ArtifactError)
            with raises:
                path = "/v1/rounds/7/update"
                taken = Outcome("accepted")
                assert send(connection, path, taken, b"u", verdict="accepted").what == what
        assert gateway.asked == ["PUT /v1/rounds/7/update"] * 3
