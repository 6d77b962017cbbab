"""The device's privacy ledger: charged before anything is stored or sent, and never refunded."""

from __future__ import annotations

import json
import math
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from pocketquery.client.private.binding import Binding, Privacy
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.ledger import Account, Ledger, cost_of, epsilon_of
from pocketquery.client.private.noise import rho
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from tests.client.private.group import FEDERATION, OFFER, binding_of, full_disk, member

NOISE = Privacy("devices", 2.0, 640, "one", 5)
ENCODING = Encoding(2304, 32, 10, 0.0125, 1.0)
MEMBERS = [member(n) for n in range(4)]
CENT = 125_000  # millionths that z = 2 costs, less what the sum of discrete noise adds


def binding(number: int, season: str = "one", nonce: bytes = bytes(32)) -> Binding:
    return binding_of(
        MEMBERS,
        3,
        2,
        offer=replace(OFFER, round=number),
        encoding=ENCODING,
        privacy=replace(NOISE, season=season),
        nonce=nonce,
    )


def test_a_charge_is_rho_in_millionths_rounded_up() -> None:
    assert cost_of(NOISE, ENCODING) == math.ceil(1e6 * rho(2.0, ENCODING, 640)) == CENT
    assert cost_of(Privacy(), ENCODING) == 0
    third = replace(NOISE, noise_multiplier=3.0)
    assert cost_of(third, ENCODING) == math.ceil(1e6 / 18)
    assert cost_of(third, None) == math.ceil(1e6 / 18)  # before it is known


@pytest.mark.parametrize(
    ("noise", "times", "expected"),
    [(1, 1, 5.22), (2, 1, 2.42), (2, 5, 5.93), (4, 10, 4.01), (8, 2, 0.79)],
)
def test_epsilon_is_that_of_the_tables(noise: float, times: int, expected: float) -> None:
    assert round(epsilon_of(times / (2 * noise**2), 1e-6), 2) == expected


def test_epsilon_lies_between_that_of_one_gaussian_and_that_of_fewer_orders() -> None:
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    for value in (1e-4, 0.01, 0.125, 0.5, 3.0, 40.0):
        for delta in (1e-9, 1e-6, 1e-3):
            theirs = RdpAccountant()
            theirs.compose(accounting.ZCDpEvent(value, 0.0))
            exact = accounting.get_epsilon_gaussian(math.sqrt(1 / (2 * value)), delta)
            assert exact <= epsilon_of(value, delta) <= 1.001 * theirs.get_epsilon(delta)
    assert epsilon_of(0.0, 1e-6) == 0.0


def test_charges_add_up_and_a_round_is_charged_once(tmp_path: Path) -> None:
    path = tmp_path / "privacy.json"
    for number in (3, 11):
        for _ in range(2):  # charged, killed, charged again
            ledger = Ledger(path)
            ledger.begin(binding(number))
            ledger.charge(binding(number))
    found = Ledger(path).account(FEDERATION)
    assert found == Account(11, binding(11).digest.hex(), 11, "one", 1, 2, 2 * CENT, 2 * CENT)
    assert found.rho == 0.25
    assert Ledger(path).account(bytes(16)) == Account()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_season_begins_at_nothing_and_what_was_ever_spent_stays() -> None:
    ledger = Ledger()
    for number, season in ((0, "one"), (8, "two"), (16, "one")):
        ledger.charge(binding(number, season))
    found = ledger.account(FEDERATION)
    assert (found.season, found.seasons, found.participations) == ("one", 3, 1)
    assert (found.spent, found.spent_ever) == (CENT, 3 * CENT)


def test_a_round_without_noise_costs_nothing_but_is_remembered() -> None:
    ledger = Ledger()
    ledger.charge(replace(binding(4), privacy=Privacy()))
    assert ledger.account(FEDERATION) == Account(last_masked=4)


def test_the_same_round_is_begun_under_one_binding_and_an_older_one_never(tmp_path: Path) -> None:
    path = tmp_path / "privacy.json"
    Ledger(path).begin(binding(5))
    Ledger(path).begin(binding(5))
    for bad in (binding(5, nonce=b"n" * 32), binding(4)):
        with pytest.raises(InvalidInputError, match="took part in round 5"):
            Ledger(path).begin(bad)
    Ledger(path).begin(binding(6))


def test_a_ledger_that_cannot_be_written_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "privacy.json"
    ledger = Ledger(path)
    ledger.charge(binding(3))
    before = path.read_bytes()
    with full_disk(), pytest.raises(OSError, match="larger than the disk allows"):
        ledger.charge(binding(11))
    assert path.read_bytes() == before
    assert ledger.account(FEDERATION).last_masked == 3
    ledger.charge(binding(11))
    assert ledger.account(FEDERATION).participations == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 5000,
        '{"format": "pocketquery-privacy-ledger", "version": 2, "accounts": {}, "sha256": ""}',
        '{"format": "pocketquery-privacy-ledger", "version": 1, "accounts": [], "sha256": ""}',
        '{"format": "pocketquery-privacy-ledger", "version": 1, "accounts": {}, "sha256": "0"}',
    ],
)
def test_what_is_no_ledger_is_an_error_and_is_not_begun_anew(text: str, tmp_path: Path) -> None:
    path = tmp_path / "privacy.json"
    path.write_text(text)
    for act in (lambda: Ledger(path).account(FEDERATION), lambda: Ledger(path).charge(binding(3))):
        with pytest.raises(CorruptArtifactError, match="Private rounds are declined"):
            act()
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["participations", "spent", "spent_ever", "last_round", "season"])
def test_a_ledger_that_was_changed_by_hand_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "privacy.json"
    Ledger(path).charge(binding(3))
    found = json.loads(path.read_text())
    account = found["accounts"][FEDERATION.hex()]
    account[name] = "two" if name == "season" else 0
    path.write_text(json.dumps(found))
    if name != "last_round":
        with pytest.raises(CorruptArtifactError, match="was changed"):
            Ledger(path).account(FEDERATION)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(CorruptArtifactError):
        Ledger(path).account(FEDERATION)
