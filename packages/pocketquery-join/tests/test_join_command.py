"""``pocketquery join`` opens the device that its options describe."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quiet_server import QuietHandler, serving

from pocketquery.client.device_files import _RULES
from pocketquery.client.private.rules import Trained
from pocketquery.client.private.state_file import SecureProgress, SecureState, StateFile
from pocketquery.client.store.file import SECURE
from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery.sdk.settings.command_line import add_options, read_options
from pocketquery_join import command
from pocketquery_join.command import JoinOptions
from pocketquery_join.connection import GatewayConnection, UnreachableError
from pocketquery_join.outcome import Outcome
from pocketquery_join.participation import Participation
from tests.client.private.test_transport import supernode

__all__ = ["supernode"]


def parsed(options: dict[str, Any]) -> JoinOptions:
    parser = argparse.ArgumentParser()
    add_options(parser, JoinOptions)
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    words = ["--gateway", "https://gateway.test", *given]
    return read_options(JoinOptions, parser.parse_args(words))


def test_every_rule_of_a_supernodes_configuration_is_an_option() -> None:
    config = command._config(parsed({"state": "s", "bundle": "b", "index": "i", "least": 30}))
    assert config.keys() >= _RULES.keys()


def test_an_enrolled_device_is_opened_with_what_it_insists_on(supernode: dict[str, Any]) -> None:
    arguments = parsed(supernode | {"least": 30, "collusion": 0.1, "secure": "allowed"})
    with command._opened(arguments) as (device, participant):
        assert participant is not None
        rules = participant._rules
        assert (rules.least, rules.collusion, rules.privacy) == (30, 0.1, "any")
        assert participant.round is None
        assert device._plain
    with command._opened(parsed(supernode)) as (device, _):
        assert not device._plain


def test_a_device_not_enrolled_takes_part_in_plain_rounds(
    supernode: dict[str, Any],
) -> None:
    names = ("bundle", "index", "state", "policy")
    arguments = parsed({name: supernode[name] for name in names})
    with command._opened(arguments) as (device, participant):
        assert participant is None
        assert device._plain


def test_an_unset_enrolment_ends_before_the_gateway_is_asked(supernode: dict[str, Any]) -> None:
    arguments = parsed(supernode | {"enrolment": "", "certificate": ""})
    with pytest.raises(InvalidInputError, match="enrolment and certificate missing"):
        command._run(arguments)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"bundle": "/nowhere/bundle"}, ArtifactError, "/nowhere/bundle"),
        ({"index": "/nowhere/index"}, ArtifactError, "/nowhere/index"),
        ({"gateway": "https://a b"}, InvalidInputError, "the gateway is 'https://a b'"),
        ({"authority": "/nowhere.pem"}, InvalidInputError, "the authority /nowhere.pem cannot be"),
    ],
)
def test_what_is_wrong_with_a_device_is_told_before_it_is_registered(
    supernode: dict[str, Any], changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        command._run(parsed(supernode | changes))


class Silent(ThreadingHTTPServer):
    """A gateway without an offer, to which round 6 is over; it remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refusals: list[tuple[int, str]] = []  # of the next requests
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(QuietHandler):
    server: Silent

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/v1/rounds/6/secure":
            self.answer(409, {"code": "round_over", "detail": ""})
        elif self.path == "/v1/releases/current":
            self.answer(404, {"code": "no_release", "detail": ""})
        else:
            self.answer(200, {"offer": None, "retry_after": 9})

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append(self.path)
        self.answer(200, {"registered": True})

    def answer(self, status: int, said: dict[str, Any]) -> None:
        if self.server.refusals:
            status, code = self.server.refusals.pop(0)
            said = {"code": code, "detail": "", "registered": True}
        wait = {"retry_after": "3600"} if status == 429 else {}
        self.send(status, json.dumps(said).encode(), **wait)


@pytest.fixture
def silent() -> Iterator[Silent]:
    with serving(Silent()) as server:
        yield server


def connected(silent: Silent, attempts: int = 1) -> GatewayConnection:
    def sleep(seconds: float) -> None:
        raise AssertionError("it tries again")

    url = f"http://127.0.0.1:{silent.server_port}"
    return GatewayConnection(url, os.urandom(32), attempts=attempts, sleep=sleep)


@pytest.mark.parametrize(("number", "kept"), [(6, 1e12), (None, 0.0), (None, 1e12)])
def test_a_turn_forgets_a_private_round_that_is_over(
    silent: Silent, tmp_path: Path, number: int | None, kept: float
) -> None:
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path})
    file = StateFile(tmp_path / SECURE)
    trained = Trained(bytes(16), 6, "", "", 3, 1.0)
    change = np.ones(3, np.float32)
    file.keep(SecureState(SecureProgress.READY, "", trained, kept, {}, {}, change))
    with connected(silent) as connection:
        participation = Participation(connection, tmp_path)
        participation.private.round = number
        assert command._turn(participation, arguments) == Outcome("idle", retry_after=9)
    assert (tmp_path / SECURE).exists() == (number is None and kept > 0)
    assert silent.asked[-1] == "/v1/offer"


class Stopped(Exception):
    """Somebody ended the command."""


def test_a_gateway_that_is_away_is_told_of_once_and_waited_for(
    silent: Silent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = [30, 60, 120, 240, 480, 900, 900, 900, 9, 30, 60, 9]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 9:  # it was there, and goes again
            silent.refusals = [(503, "busy")] * 2
        if len(slept) == len(waits):
            raise Stopped

    silent.refusals = [(503, "busy")] * 8
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path})
    with connected(silent) as connection, pytest.raises(Stopped):
        command._rounds(Participation(connection, tmp_path), arguments, sleep)
    assert all(wait <= found <= 1.5 * wait for wait, found in zip(waits, slept, strict=True))
    assert (slept[8], slept[-1]) == (9, 9)
    assert silent.asked.count("/v1/device") == 9  # registered once
    assert capsys.readouterr().out.count("unreachable: ") == 2
    arguments, silent.refusals = replace(arguments, times=3), [(503, "busy")]
    with connected(silent) as connection, pytest.raises(UnreachableError, match="did not answer"):
        command._rounds(Participation(connection, tmp_path), arguments, sleep)


def test_a_used_up_quota_is_waited_for_and_not_asked_again(
    silent: Silent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent.refusals = [(200, ""), (429, "quota")]  # registered, and then
    slept: list[float] = []
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path, "times": 2})
    with connected(silent, attempts=6) as connection:
        joined = Participation(connection, tmp_path)
        assert command._rounds(joined, arguments, slept.append) == 0
    assert slept == [3600]
    turn = ["/v1/offer", "/v1/releases/current"]
    assert silent.asked == ["/v1/device", *turn, *turn]
    assert capsys.readouterr().out.startswith("left out: the gateway refuses (429 quota)")
