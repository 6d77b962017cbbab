"""Runs rounds over a gateway's journal many times, each killed (SIGKILL) at another SQLite
statement; after each, devices and server send again what was not acknowledged, as they do.

    python -m gateway_kill_points FOLDER STEP [buffered]

STEP 1 walks every statement, 4 every fourth. The sums of all rounds must be those of a journal that
nobody killed, to the bit, and what was acknowledged must be there. Of buffered rounds two devices
send in the second what they began in the first. Prints what it saw.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from small_gateway import (
    ROUND,
    asked_for,
    small_release,
    state_of,
    update_for,
)

from pocketquery.server.federation.rounds.settings import RoundSettings
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.cohort_sum import CohortSum
from pocketquery_gateway.journal import GatewayJournal
from pocketquery_gateway.rounds.errors import BetweenStepsError, RoundOverError
from pocketquery_gateway.rounds.upload import Upload
from pocketquery_gateway.rounds.verdicts import UpdateVerdict
from tests.kills import killed, statements_of

_ROUNDS = 2
_DEVICES = 7
_WANTED = 5
_DAY = 20_000
_TOGETHER = ((0,), (1, 2, 3), (4, 5, 6))
_SLOW = (3, 4)
BUFFERED = replace(ROUND, mode="buffered", clients_per_round=_WANTED)


def key_of(device: int) -> bytes:
    return bytes([device]) * 32


def offer_of(number: int, settings: RoundSettings = ROUND) -> CohortOffer:
    """What the server asks: the fifth good update completes the cohort."""
    release = small_release(str(number + 1))
    asked = asked_for(release, wanted=_WANTED, number=number, settings=settings)
    bases = {one: str(one + 1) for one in range(number)} if settings.is_buffered else {}
    return replace(asked, bases=bases)


def update_of(device: int, number: int, began: int) -> bytes:
    """What a device sends in round ``number``; one of them is no update."""
    state = state_of(small_release(str(began + 1)), began)
    return b"noise" if device == 2 else update_for(state, 20 * number + device)


def began_in(device: int, number: int, settings: RoundSettings) -> int:
    """The round whose offer a device answers in round ``number``."""
    return number - 1 if settings.is_buffered and number and device in _SLOW else number


class Promises:
    """What devices and server were told, in a file beside the journal; it may not be lost."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_suffix(".promises")

    def add(self, devices: int, number: int, accepted: int) -> None:
        with self.path.open("a") as file:
            file.write(f"{devices} {number} {accepted}\n")

    def check(self, journal: GatewayJournal) -> None:
        opened = journal.cohort_round.opened
        found = (opened.state.round, opened.accepted) if opened else (-1, 0)
        closed = opened is not None and not journal.cohort_round.is_open
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        for devices, number, accepted in (map(int, line.split()) for line in lines):
            assert journal.devices >= devices
            assert found[0] > number or closed or found >= (number, accepted), (found, number)


def serve(path: Path, settings: RoundSettings = ROUND) -> list[bytes]:
    """All rounds from where the journal stands; the sums, without their nonces, of those that are
    run to the end here."""
    promises = Promises(path)
    sums = []
    with GatewayJournal.open(path, clock=lambda: 0.0) as journal:
        with journal.batch():
            for device in range(_DEVICES):
                journal.register(key_of(device), 1, 100)
        current = journal.cohort_round.opened
        first = 0 if current is None else current.state.round
        promises.add(_DEVICES, first - 1, 0)
        for number in range(first, _ROUNDS):
            asked = offer_of(number, settings)
            with journal.batch():
                journal.begin(asked)
            promises.add(_DEVICES, number, 0)
            for together in _TOGETHER:
                send(journal, number, together, settings)
                assert journal.cohort_round.opened is not None
                promises.add(_DEVICES, number, journal.cohort_round.opened.accepted)
            found = journal.cohort_round.answer(asked.digest)
            assert found is not None
            check_uploads(journal, number)
            sums.append(replace(CohortSum.from_bytes(found), nonce="0" * 32).to_bytes())
            assert CohortSum.from_bytes(found).count == _WANTED
            stale = len(_SLOW) if settings.is_buffered and number else 0
            assert CohortSum.from_bytes(found).staleness == stale
    return sums


def check_uploads(journal: GatewayJournal, number: int) -> None:
    """Each device's uploads of the rounds before ``number`` are counted once in its row."""
    for device in range(_DEVICES):
        row = journal.device(key_of(device))
        assert row is not None
        # The last comes too late, when the cohort is complete.
        wanted = 0 if device == _DEVICES - 1 else number
        assert row.used == wanted, (number, device, row)


def send(
    journal: GatewayJournal,
    number: int,
    together: Sequence[int],
    settings: RoundSettings = ROUND,
) -> None:
    """Some devices' updates, in one batch; who comes too late is told so."""
    with journal.batch():
        told = receive(journal, together, number, settings)
    for device, one in zip(together, told, strict=True):
        if isinstance(one, Exception):
            assert isinstance(one, BetweenStepsError if settings.is_buffered else RoundOverError)
            assert device == 6


def receive(
    journal: GatewayJournal,
    devices: Sequence[int],
    number: int = 0,
    settings: RoundSettings = ROUND,
) -> list[tuple[UpdateVerdict, str] | Exception]:
    """Devices' updates, in a batch."""
    uploads = []
    for device in devices:
        began = began_in(device, number, settings)
        data = update_of(device, number, began)
        digest, figures = hashlib.sha256(data).digest(), {"loss": 0.5}
        uploads.append(Upload(key_of(device), began, data, digest, _DAY, figures))
    return journal.updates.receive_all(uploads, most_uploads=1000)


def main(folder: Path, step: int, settings: RoundSettings) -> None:
    """Walk the statements."""
    wanted = serve(folder / "whole.sqlite", settings)
    assert len(wanted) == _ROUNDS
    seen: Counter[str] = Counter()
    statements = statements_of(lambda: serve(folder / "counted.sqlite", settings))
    for statement in range(1, statements + 1, step):
        path = folder / f"at-{statement}.sqlite"
        killed(lambda: statements_of(lambda: serve(path, settings), statement))  # noqa: B023
        with GatewayJournal.open(path, clock=lambda: 0.0) as journal:
            Promises(path).check(journal)
            closed = "idle" if journal.cohort_round.opened is None else "closed"
            seen["open" if journal.cohort_round.is_open else closed] += 1
        found = serve(path, settings)
        assert found == wanted[-len(found) :], f"killed at statement {statement}"
        for file in folder.glob(f"at-{statement}.*"):
            file.unlink()
    print(dict(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), BUFFERED if sys.argv[3:] == ["buffered"] else ROUND)
