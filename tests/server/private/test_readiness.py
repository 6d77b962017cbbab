"""Who is ready counts once, by a certificate of the authority and a proof that it holds the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketquery.server.federation.orchestration.journal import Journal
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.secure_round import (
    SecureRound,
    SeededSource,
    SystemSource,
    announcement,
    begin,
    ready,
)
from tests.server.federation.replies import SETTINGS, small_state
from tests.server.private.ready_devices import (
    NOW,
    PLAIN,
    certificate,
    key_of,
    ready_of,
)

ROUND = 5


@pytest.fixture
def begun() -> SecureRound:
    return begin(PLAIN, ROUND, SystemSource())


def test_a_certificate_counts_once_and_only_the_authoritys(begun: SecureRound) -> None:
    found, reason = ready(begun, 100, ready_of(begun, 1, ROUND), ROUND, NOW)
    assert reason is None
    assert list(found.ready) == [100]
    wrong: list[dict[str, Any]] = [
        {"authority_private": bytes(32)}, {"federation": bytes(16)}, {"expiry": int(NOW)},
    ]  # fmt: skip
    for one in wrong:
        body = ready_of(begun, 5, ROUND, **one)
        assert ready(found, 7, body, ROUND, NOW) == (found, SecureReason.BAD_CERTIFICATE)
    for node, number in ((7, 1), (100, 6)):
        body = ready_of(begun, number, ROUND)
        assert ready(found, node, body, ROUND, NOW) == (found, SecureReason.DUPLICATE)


def test_anothers_certificate_takes_no_seat_and_the_device_itself_still_does(
    begun: SecureRound,
) -> None:
    """As a neighbour of an earlier round can send it: the certificate, with any key but the one."""
    alone = certificate(1).to_bytes()
    true = ready_of(begun, 1, ROUND)
    own = ready_of(begun, 1, ROUND, key=key_of(2))
    changed = true[:-1] + bytes([true[-1] ^ 1])
    for body in (b"", alone, alone + bytes(16), own, changed, true[:-1], true + b"0"):
        assert ready(begun, 7, body, ROUND, NOW) == (begun, SecureReason.BAD_PROOF)
    found, reason = ready(begun, 100, true, ROUND, NOW)
    assert (list(found.ready), reason) == ([100], None)


def test_what_was_said_in_another_round_counts_in_none(begun: SecureRound) -> None:
    other = begin(PLAIN, ROUND + 1, SystemSource())
    assert other.private != begun.private
    for body, number in (
        (ready_of(begun, 1, ROUND), ROUND + 1),  # as it was sent before
        (ready_of(other, 1, ROUND), ROUND + 1),  # were the number all that differs
        (ready_of(begun, 1, ROUND + 1), ROUND + 1),  # were the key all that differs
    ):
        assert ready(other, 7, body, number, NOW) == (other, SecureReason.BAD_PROOF)
    elsewhere = SecureRound(PLAIN, begun.private)
    assert ready(elsewhere, 7, ready_of(begun, 1, ROUND), ROUND, NOW)[1] is None


def test_of_a_gateway_the_certificate_is_enough_and_of_nobody_else(begun: SecureRound) -> None:
    alone = certificate(1).to_bytes()
    found, reason = ready(begun, 100, alone, ROUND, NOW, vouched=True)
    assert (list(found.ready), reason) == ([100], None)
    for body in (b"", b"x" * 100, ready_of(begun, 2, ROUND)):
        refused = (found, SecureReason.BAD_CERTIFICATE)
        assert ready(found, 101, body, ROUND, NOW, vouched=True) == refused


def test_a_server_that_is_started_again_goes_on_with_the_key_that_it_announced(
    begun: SecureRound, tmp_path: Path
) -> None:
    path = tmp_path / "rounds.sqlite"
    with Journal.open(path) as journal:
        journal.begin(small_state(), SETTINGS, secure=begun, now=0.0)
    with Journal.open(path) as journal:
        assert journal.open_round is not None
        again = journal.open_round.secure
    assert again == begun
    key = again.key.public
    assert announcement(PLAIN, key) == announcement(PLAIN, begun.key.public)
    assert ready(again, 100, ready_of(begun, 1, ROUND), ROUND, NOW)[1] is None


def test_a_rounds_key_is_drawn_for_it_and_is_in_no_text_of_it(begun: SecureRound) -> None:
    seeded = [begin(PLAIN, number, SeededSource(seed)).private for number, seed in
              ((1, 1), (1, 1), (2, 1), (1, 2))]  # fmt: skip
    assert seeded[0] == seeded[1]
    assert len(set(seeded)) == 3
    assert repr(begun.private) not in repr(begun)
