"""``pocketquery join`` opens the device that its options describe."""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.client.device_files import _RULES
from pocketquery.client.gateway import join_command
from pocketquery.client.gateway.connection import GatewayConnection
from pocketquery.client.gateway.outcome import Outcome
from pocketquery.client.gateway.participation import Participation
from pocketquery.client.secure.rules import Trained
from pocketquery.client.secure.state_file import SecureProgress, SecureState, StateFile
from pocketquery.client.store.file import SECURE
from pocketquery.sdk.errors import InvalidInputError
from tests.client.secure.test_transport import supernode

__all__ = ["supernode"]


def parsed(options: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    join_command.join(parser.add_subparsers())
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return parser.parse_args(["join", "--gateway", "https://gateway.test", *given])


def test_every_rule_of_a_supernodes_configuration_is_an_option() -> None:
    assert [name for name, _, _ in join_command._RULES] == list(_RULES)


def test_an_enrolled_device_is_opened_with_what_it_insists_on(supernode: dict[str, Any]) -> None:
    arguments = parsed(supernode | {"least": 30, "collusion": 0.1, "secure": "allowed"})
    with join_command._opened(arguments) as (device, participant):
        assert participant is not None
        rules = participant._rules
        assert (rules.least, rules.collusion, rules.privacy) == (30, 0.1, "any")
        assert participant.round is None
        assert device._plain
    with join_command._opened(parsed(supernode)) as (device, _):
        assert not device._plain


def test_a_device_that_is_not_enrolled_takes_part_in_plain_rounds(
    supernode: dict[str, Any],
) -> None:
    names = ("bundle", "index", "state", "policy")
    arguments = parsed({name: supernode[name] for name in names})
    with join_command._opened(arguments) as (device, participant):
        assert participant is None
        assert device._plain


def test_an_unset_enrolment_ends_before_the_gateway_is_asked(supernode: dict[str, Any]) -> None:
    arguments = parsed(supernode | {"enrolment": "", "certificate": ""})
    with pytest.raises(InvalidInputError, match="enrolment and certificate missing"):
        join_command._run(arguments)


class Silent(ThreadingHTTPServer):
    """A gateway without an offer, to which round 6 is over; it remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Silent

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        over = {"code": "round_over", "detail": ""}
        is_over = self.path == "/v1/rounds/6/secure"
        self.answer(409 if is_over else 200, over if is_over else {"offer": None, "retry_after": 9})

    def answer(self, status: int, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def silent() -> Iterator[Silent]:
    with Silent() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("number", "kept"), [(6, 1e12), (None, 0.0), (None, 1e12)])
def test_a_turn_forgets_a_private_round_that_is_over(
    silent: Silent, tmp_path: Path, number: int | None, kept: float
) -> None:
    arguments = parsed({"bundle": "none", "index": "none", "state": tmp_path})
    file = StateFile(tmp_path / SECURE)
    trained = Trained(bytes(16), 6, "", "", 3, 1.0)
    change = np.ones(3, np.float32)
    file.keep(SecureState(SecureProgress.READY, "", trained, kept, {}, {}, change))
    url = f"http://127.0.0.1:{silent.server_port}"
    with GatewayConnection(url, os.urandom(32), attempts=1) as connection:
        participation = Participation(connection, tmp_path)
        participation.private.round = number
        assert join_command._turn(participation, arguments) == Outcome("idle", retry_after=9)
    assert (tmp_path / SECURE).exists() == (number is None and kept > 0)
    assert silent.asked[-1] == "/v1/offer"
