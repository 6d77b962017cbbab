"""Runs private rounds over a gateway's journal many times, each killed (SIGKILL) at another SQLite
statement; after each, server and devices go on as they do: the server asks the stage that it was
in, devices answer what they are asked.

    python -m relay_kill_points FOLDER STEP

STEP 1 walks every statement, 4 every fourth.

The replies of all stages must be those of a journal that nobody killed, and the key that devices
are told stays the same. What was acknowledged is not asked for again, but masked changes; those are
in no file at any moment, and at the end nothing is. Prints what it saw.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from small_gateway import asked_for, small_release

from pocketquery.client.private.keys import AgreementKey, Certificate, sign_certificate
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.replies import Ready
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.server.private.settings import SecureSettings
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.stage_bundle import StageBundle
from pocketquery_gateway.journal import GatewayJournal
from pocketquery_gateway.rounds.errors import RoundOverError
from tests.kills import killed, statements_of

AUTHORITY = bytes(range(32))
SECURE = SecureSettings(federation="clinics", enrolment=public_key_of(AUTHORITY).hex(), least=2)
NOW = 1_800_000_000.0
_ROUNDS = 2
_DEVICES = 5
_WANTED = 4
_TOGETHER = ((0,), (1, 2), (3, 4))
_GONE = 2  # declines in the fourth stage of the first round


def key_of(device: int) -> bytes:
    return bytes([device]) * 32


@cache
def certificate_of(device: int) -> bytes:
    key = agreement_key_of(device).public
    return sign_certificate(AUTHORITY, SECURE.federation_id, key, int(NOW) + 1000).to_bytes()


def agreement_key_of(device: int) -> AgreementKey:
    return AgreementKey(hashlib.sha256(key_of(device)).digest())


def ready_of(device: int, announced: bytes, number: int) -> bytes:
    """What a device says that is ready for a round in which this key was announced."""
    key, certificate = agreement_key_of(device), Certificate.parse(certificate_of(device))
    return Ready.prove(key, certificate, announced, SECURE.federation_id, number).to_bytes()


def private_offer(number: int, wanted: int = _WANTED) -> CohortOffer:
    """What the server asks: the fourth device that is ready completes the cohort."""
    asked = asked_for(small_release(str(number + 1)), wanted=wanted, number=number)
    return replace(asked, secure=SECURE)


def body_of(*of: object) -> bytes:
    """200 bytes that nothing else holds."""
    return hashlib.shake_256(repr(of).encode()).digest(200)


class Server:
    """What the server has on disk: the replies of the stages that are over."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_suffix(".server")
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.over = {tuple(map(int, line.split()[:2])): line.split()[2] for line in lines}

    def keep(self, number: int, stage: Stage, replies: object) -> None:
        digest = hashlib.sha256(repr(replies).encode()).hexdigest()
        self.over[(number, int(stage))] = digest
        with self._path.open("a") as file:
            file.write(f"{number} {int(stage)} {digest}\n")


def serve(path: Path) -> dict[tuple[int, ...], str]:
    """All rounds from where server and gateway stand; digests of the replies by round and stage."""
    server = Server(path)
    with GatewayJournal.open(path, clock=lambda: 0.0) as journal:
        announced = path.with_suffix(".announced")
        if not announced.exists():
            announced.write_bytes(journal.key.public)
        assert announced.read_bytes() == journal.key.public
        with journal.batch():
            for device in range(_DEVICES):
                journal.register(key_of(device), 1, 100)
        for number in range(_ROUNDS):
            if (number, int(Stage.UNMASK)) in server.over:
                continue
            asked = private_offer(number)
            with journal.batch():
                journal.begin(asked)
            for stage in Stage:
                if (number, int(stage)) not in server.over:
                    server.keep(number, stage, _run_stage(path, journal, asked, stage))
        with journal.batch():
            journal.cohort_round.relay.clear()
    return server.over


def _run_stage(path: Path, journal: GatewayJournal, asked: CohortOffer, stage: Stage) -> object:
    current, number = journal.cohort_round, asked.offer.round
    seats = range(_WANTED)
    if stage > Stage.OFFER:
        bodies = {seat: body_of(number, stage, "down", seat) for seat in seats}
        with journal.batch():
            journal.seats.begin_stage(StageBundle(number, stage, bodies))
    for together in _TOGETHER:
        told = []
        with journal.batch():
            for device in together:
                told += [device] if take_part(journal, device, number, stage) else []
        with path.with_suffix(".promises").open("a") as file:
            file.writelines(f"{number} {int(stage)} {device}\n" for device in told)
    if stage is Stage.OFFER:
        found = current.answer(asked.digest)
        assert found is not None
        return StageBundle.from_bytes(found).bodies
    found_replies, gone = current.relay.replies(stage, seats)
    assert len(found_replies) + len(gone) == len(seats), (number, stage, gone)
    return found_replies, gone


def take_part(journal: GatewayJournal, device: int, number: int, stage: Stage) -> bool:
    """One device's turn; whether it was acknowledged."""
    current, key = journal.cohort_round, key_of(device)
    try:
        if stage is Stage.OFFER:
            data = ready_of(device, journal.key.public, number)
            digest = hashlib.sha256(data).digest()
            reason = journal.seats.ready(
                key, number, data, digest, announcer=journal.key, most_uploads=1000, today=1,
                now=NOW,
            )  # fmt: skip
            return reason is None
        if (number, stage, device) == (0, Stage.CONFIRM, _GONE):
            current.decline(key, number)
            return False
        message = journal.seats.message(key, number)
        if message is None:
            return False
        assert message == (stage, body_of(number, stage, "down", device))
        data = body_of(number, stage, "up", device)
        digest = hashlib.sha256(data).digest()
        return journal.seats.reply(key, number, stage, data, digest) is None
    except RoundOverError:
        assert device == _WANTED or (number, device) == (0, _GONE)
        return False


def check(path: Path) -> str:
    """What was acknowledged is there; where the journal stands."""
    promises = path.with_suffix(".promises")
    lines = promises.read_text().splitlines() if promises.exists() else []
    with GatewayJournal.open(path, clock=lambda: 0.0) as journal:
        current = journal.cohort_round
        at = current.opened.state.round if current.opened else -1
        for number, stage, device in (map(int, line.split()) for line in lines):
            here = at == number and current.relay.stage == stage
            if here and stage not in (Stage.OFFER, Stage.COLLECT):
                assert device not in current.relay.awaited, (number, stage, device)
            if here and stage == Stage.OFFER and current.relay.seats:
                assert current.relay.seat_of(key_of(device)) == device
        return current.relay.stage.name if current.relay.seats else "none"


def held(path: Path) -> bytes:
    """All that is in the journal's files."""
    return b"".join(one.read_bytes() for one in path.parent.glob(f"{path.name}*"))


def replies_to(stage: Stage) -> Iterator[bytes]:
    for number in range(_ROUNDS):
        for device in range(_WANTED):
            yield body_of(number, stage, "up", device)[40:80]


def main(folder: Path, step: int) -> None:
    """Walk the statements."""
    wanted = serve(folder / "whole.sqlite")
    assert len(wanted) == _ROUNDS * len(Stage)
    seen: Counter[str] = Counter()
    statements = statements_of(lambda: serve(folder / "counted.sqlite"))
    for statement in range(1, statements + 1, step):
        path = folder / f"at-{statement}.sqlite"
        killed(lambda: statements_of(lambda: serve(path), statement))  # noqa: B023
        left = held(path)
        assert not any(one in left for one in replies_to(Stage.COLLECT)), statement
        seen["boxes"] += any(one in left for one in replies_to(Stage.INVITE))
        seen[check(path)] += 1
        assert serve(path) == wanted, f"killed at statement {statement}"
        left = held(path)
        for stage in Stage:
            assert not any(one in left for one in replies_to(stage)), (statement, stage)
        for file in folder.glob(f"at-{statement}.*"):
            file.unlink()
    print(dict(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
