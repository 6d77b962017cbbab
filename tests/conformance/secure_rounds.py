"""Write conformance/secure: whole private rounds, and what a device answers; see secure.py."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pocketquery.client.device import Declined
from pocketquery.client.private.binding import Privacy, settings_digest
from pocketquery.client.private.keys import AgreementKey
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.replies import Ready
from pocketquery.client.private.state_file import SecureState, StateFile
from pocketquery.server.private.coordinator import SecureSum
from pocketquery.server.private.unmasking import Unmasked, unmask
from tests.client.private.group import (
    ANNOUNCER,
    FEDERATION,
    NARROW,
    NOW,
    OFFER,
    PUBLIC,
    SMALL,
    WIDE,
    Group,
    Member,
    announce,
    drawn,
    member,
    ready_group,
)
from tests.conformance.secure_bodies import NOISY, outcome, text_of

__all__ = ["answers", "ready_devices", "rounds"]

_RULES = ("least", "least_noisy", "neighbours", "privacy")  # that are not the defaults
RULES = replace(SMALL, neighbours=4)
GONE = 2  # the position that sends nothing after it dealt


def _played(group: Group) -> Iterator[tuple[str, Any]]:
    """A round of ``group`` to its end, as it is written."""
    stages: list[dict[str, Any]] = []
    down: dict[int, str] = {}
    while True:
        silent = {GONE} if group.sum.stage >= Stage.COLLECT else set()
        down = {
            one: text_of(group.sum.message(one)) for one in group.sum.asked if one not in silent
        }
        up: dict[int, str] = {}
        for position in down:
            reply = group.answer(position)
            assert isinstance(reply, bytes), reply
            up[position] = text_of(reply)
            group.sum, reason = group.sum.receive(group.sum.stage, position, reply)
            assert reason is None
        stages.append({"stage": int(group.sum.stage), "down": down, "up": up})
        if group.sum.stage is Stage.UNMASK:
            break
        assert group.close() is None
    ended = unmask(group.sum)
    assert isinstance(ended, Unmasked), ended
    survivors = [one for one in range(len(group.members)) if one != GONE]
    assert (ended.totals == group.plain_sum(survivors)).all()
    yield "stages", stages
    yield "total", ended.totals.tolist()


def _group(number: int) -> tuple[Group, Privacy]:
    size, degree, threshold, encoding, privacy = (
        (4, 3, 2, WIDE, Privacy()),
        (7, 4, 3, NARROW, NOISY),
        (6, 5, 4, replace(NARROW, size=300), replace(NOISY, counted_on=3)),
    )[number]
    group = ready_group(
        size, degree, threshold, seed=number, rules=RULES, encoding=encoding, privacy=privacy
    )
    return group, privacy


def _devices(group: Group, seed: int) -> list[dict[str, Any]]:
    return [
        {
            "key": drawn("device", seed, n).hex(),
            "certificate": one.certificate.to_bytes().hex(),
            "ready": text_of(_ready(one)),
            "secret": drawn("secret", seed, n, group.binding.digest).hex(),
            "change": {
                name: text_of(values.astype("<f4").tobytes())
                for name, values in one.trainer.change.items()
            },
        }
        for n, one in enumerate(group.members)
    ]


def _ready(one: Member) -> bytes:
    """What a device that has trained said."""
    state = one.file.load()
    assert state is not None
    return state.replies[Stage.OFFER]


def rounds() -> Iterator[dict[str, Any]]:
    """Three groups, from their devices to the sum."""
    for number in range(3):
        group, privacy = _group(number)
        devices = _devices(group, number)
        yield {
            "authority": PUBLIC.hex(),
            "announcer": ANNOUNCER.private.hex(),
            "announcement": text_of(announce(privacy)),
            "binding": group.binding.to_bytes().decode(),
            "release": text_of(OFFER.release),
            "settings": settings_digest(OFFER.config),
            "round": OFFER.round,
            "clip_norm": OFFER.clip_norm,
            "now": NOW,
            "rules": {name: getattr(RULES, name) for name in _RULES},
            "devices": devices,
            "gone": GONE,
        } | dict(_played(group))


def ready_devices() -> Iterator[dict[str, Any]]:
    """Replies to an announcement, and whether they prove what they should: by the certified key and
    by another one, damaged, and to another announcer, federation and round."""
    one, other, number = member(0), member(1), OFFER.round

    def case(key: AgreementKey, body: bytes, announcer: bytes, *where: Any) -> dict[str, Any]:
        federation, of_round = where or (FEDERATION, number)

        def work() -> bool:
            return Ready.parse(body).is_proven(AgreementKey(announcer), federation, of_round)

        return {
            "key": key.private.hex(),
            "announcer": announcer.hex(),
            "announced": AgreementKey(announcer).public.hex(),
            "federation": federation.hex(),
            "round": of_round,
            "body": body.hex(),
        } | outcome(work)

    for of_round in (0, number, 2**53 - 1):
        said = Ready.prove(one.key, one.certificate, ANNOUNCER.public, FEDERATION, of_round)
        yield case(one.key, said.to_bytes(), ANNOUNCER.private, FEDERATION, of_round)
    said = Ready.prove(one.key, one.certificate, ANNOUNCER.public, FEDERATION, number)
    sound = said.to_bytes()
    stolen = Ready.prove(other.key, one.certificate, ANNOUNCER.public, FEDERATION, number)
    yield case(other.key, stolen.to_bytes(), ANNOUNCER.private)
    yield case(one.key, sound, other.key.private)
    yield case(one.key, sound, ANNOUNCER.private, bytes(16), number)
    yield case(one.key, sound, ANNOUNCER.private, FEDERATION, number + 1)
    for at in (33, 60, 100, 115):
        changed = sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]
        yield case(one.key, changed, ANNOUNCER.private)
    for body in (b"", sound[:100], sound[:115], sound + b"0", sound[:100] + bytes(16)):
        yield case(one.key, body, ANNOUNCER.private)
    small = bytes(32) + sound[32:]
    yield case(one.key, small, ANNOUNCER.private)


def answers() -> Iterator[dict[str, Any]]:
    """A device's answers in each stage, to what the server sends and to what it should not."""
    group, _ = _group(1)
    one, secret = group.members[0], drawn("secret", 1, 0, group.binding.digest)
    one.secret = lambda beta: secret  # of another binding, too
    while True:
        stage = group.sum.stage
        before = one.file.load()
        assert before is not None
        sound = group.sum.message(0)
        bodies = []
        for name, body in _bodies(group.sum, sound):
            one.back_to(before)
            found = one.participant.answer(stage, body)
            bodies.append(
                {
                    "name": name,
                    "body": text_of(body),
                    "reply": None if isinstance(found, Declined) else sha256(found).hexdigest(),
                    "forgotten": one.file.load() is None,
                }
            )
        yield {"stage": int(stage), "state": _kept(before), "bodies": bodies}
        one.back_to(before)
        group.exchange(silent={GONE} if stage >= Stage.COLLECT else ())
        if stage is Stage.UNMASK:
            return
        assert group.close() is None


def _kept(state: SecureState) -> str:
    """``state`` as it is kept."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        StateFile(path).keep(state)
        return text_of(path.read_bytes())


def _bodies(found: SecureSum, sound: bytes) -> Iterator[tuple[str, bytes]]:
    yield "sound", sound
    yield "of another position", found.message(found.asked[-1])
    for cut in (0, 1, 31, 32, 40, len(sound) // 2, len(sound) - 1):
        yield f"its first {cut} bytes", sound[:cut]
    yield "a byte more", sound + b"\0"
    for at in sorted({*range(0, 48, 3), *range(48, len(sound), max(1, len(sound) // 40))}):
        yield f"byte {at} changed", sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]
    if found.stage is Stage.INVITE:
        binding = found.binding
        for name, other in (
            ("another release", replace(binding, release_sha256="0" * 64)),
            ("other settings", replace(binding, settings_sha256="0" * 64)),
            ("another size", replace(binding, encoding=replace(binding.encoding, size=23))),
            ("another clip", replace(binding, encoding=replace(binding.encoding, clip=2.0))),
            ("a low threshold", replace(binding, threshold=2)),
            ("little noise", replace(binding, privacy=replace(NOISY, noise_multiplier=1.5))),
            ("noise counted on twice", replace(binding, privacy=replace(NOISY, counted_on=7))),
            ("another round", replace(binding, round=8)),
            ("another federation", replace(binding, federation=bytes(16))),
            ("expired", replace(binding, expiry=int(NOW))),
        ):
            head = len(binding.to_bytes()) + 6
            text = other.to_bytes()
            yield name, sound[:4] + len(text).to_bytes(2, "big") + text + sound[head:]
