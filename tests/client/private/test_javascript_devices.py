"""Devices in JavaScript and in Python in one group of a private round: the sum is exact."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.ledger import LEDGER, Ledger
from pocketquery.client.private.messages import Stage
from pocketquery.server.private.coordinator import SecureSum
from pocketquery.server.private.unmasking import Unmasked, unmask
from tests.client.private.group import (
    FEDERATION,
    NARROW,
    NOW,
    OFFER,
    PUBLIC,
    SMALL,
    Group,
    Member,
    announce,
    binding_of,
    drawn,
    member,
)
from tests.client.private.relay import Relay, relaying

PACKAGE = Path(__file__).parents[3] / "sdk" / "js"
SCRIPT = Path(__file__).with_name("javascript_device.mjs")
IN_PYTHON, IN_JAVASCRIPT = 4, 4
SIZE = IN_PYTHON + IN_JAVASCRIPT
RULES = replace(SMALL, neighbours=6)
NOISY = Privacy("devices", 2.4, 5, "season-1", 1)
LONGEST = 60.0  # seconds, which only a hang reaches

is_built = (PACKAGE / "dist" / "secure" / "secure.js").exists() and shutil.which("node") is not None
pytestmark = pytest.mark.skipif(not is_built, reason="sdk/js is not built: npm ci && npm run build")


def _given(secret: bytes, beta: bytes) -> bytes:
    """Whatever the binding is."""
    return secret


class Fleet:
    """The devices; the last ``IN_JAVASCRIPT`` of them live in Node, in folders of their own."""

    def __init__(self, folder: Path, privacy: Privacy) -> None:
        self.members = [member(n, rules=RULES) for n in range(SIZE)]
        self.folder = folder
        self.names: dict[bytes, int] = {}
        for number, one in enumerate(self.members):
            self.names[one.certificate.to_bytes()] = number
            if number >= IN_PYTHON:
                secret = drawn("in JavaScript", number)
                one.secret = partial(_given, secret)
                state = folder / str(number)
                state.mkdir()
                (state / "device.key").write_bytes(drawn("device", 0, number))
        self._privacy = privacy
        self.order: list[Member] = []

    def begin(self, certificates: list[bytes]) -> SecureSum:
        self.order = [self.members[self.names[one]] for one in certificates]
        binding = binding_of(self.order, 6, 4, encoding=NARROW, privacy=self._privacy)
        return SecureSum.begin(binding, tuple(one.certificate for one in self.order), least=3)

    def settings(self, number: int, gateway: str, **more: Any) -> str:
        one = self.members[number]
        found = {
            "package": str(PACKAGE),
            "gateway": gateway,
            "state": str(self.folder / str(number)),
            "authority": PUBLIC.hex(),
            "certificate": one.certificate.to_bytes().hex(),
            "secret": one.secret(b"").hex(),
            "change": {name: values.tolist() for name, values in one.trainer.change.items()},
            "rules": {"least": 3, "leastNoisy": 3, "neighbours": 6, "privacy": "any"},
            "now": NOW,
        }
        return json.dumps(found | more)

    def answer(self, relay: Relay, privacy: Privacy) -> None:
        """What the devices in Python say, until the round is over."""
        for number in range(IN_PYTHON):
            found = self.members[number].participant.answer(Stage.OFFER, announce(privacy), OFFER)
            assert isinstance(found, bytes)
            assert relay.reply(f"python {number}", Stage.OFFER, found) == 200
        while not relay.over.wait(0.02):
            for number in range(IN_PYTHON):
                said = relay.message(f"python {number}")
                if said is not None:
                    reply = self.members[number].participant.answer(*said)
                    assert isinstance(reply, bytes), reply
                    assert relay.reply(f"python {number}", said[0], reply) == 200


def run(settings: str) -> subprocess.CompletedProcess[str]:
    command = ["node", str(SCRIPT), settings]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)


@pytest.mark.parametrize(
    "privacy",
    [
        pytest.param(Privacy(), marks=pytest.mark.very_slow, id="exact"),
        pytest.param(NOISY, marks=pytest.mark.slow, id="noisy"),
    ],
)
def test_a_mixed_group_gives_the_exact_sum(tmp_path: Path, privacy: Privacy) -> None:
    fleet = Fleet(tmp_path, privacy)
    lives: dict[int, list[list[Any] | None]] = {
        4: [None],
        5: [["GET", 3], ["PUT", 4], None],  # before its reply, after it
        6: [["PUT", 1], ["GET", 2], ["PUT", 3], ["GET", 5], None],
        7: [["PUT", 2]],  # gone after it dealt
    }
    ended: dict[int, list[subprocess.CompletedProcess[str]]] = {number: [] for number in lives}
    gone: set[int] = set()

    def begin(certificates: list[bytes]) -> SecureSum:
        gone.add([fleet.names[one] for one in certificates].index(7))
        return fleet.begin(certificates)

    relay = Relay(SIZE, privacy, begin, gone)

    def live(number: int, gateway: str) -> None:
        for dies in lives[number]:
            ended[number].append(run(fleet.settings(number, gateway, dies=dies)))

    with relaying(relay) as gateway:
        threads = [threading.Thread(target=live, args=(n, gateway), daemon=True) for n in lives]
        threads.append(threading.Thread(target=fleet.answer, args=(relay, privacy), daemon=True))
        for one in threads:
            one.start()
        for one in threads:
            one.join(LONGEST)
        assert relay.over.is_set(), [ran.stderr for runs in ended.values() for ran in runs]
    assert relay.sum is not None
    assert relay.declined == []
    found = unmask(relay.sum)
    assert isinstance(found, Unmasked), found
    survivors = [place for place in range(SIZE) if place not in gone]
    group = Group(fleet.order, relay.sum)
    assert np.array_equal(found.totals, group.plain_sum(survivors))
    assert len(relay.sum.committed) == SIZE
    for number, runs in ended.items():
        killed = len(lives[number]) - (number != 7)
        assert [ran.returncode for ran in runs[:killed]] == [-9] * killed
        if number != 7:
            assert json.loads(runs[-1].stdout)["what"] == "accepted", runs[-1].stderr
        account = Ledger(tmp_path / str(number) / LEDGER).account(FEDERATION)
        assert (account.last_round, account.last_masked) == (
            OFFER.round,
            None if number == 7 else OFFER.round,
        )
