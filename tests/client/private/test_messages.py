"""The bodies of private rounds: what comes out is what went in, and damage is a typed error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketquery.client.local_config import LocalConfig
from pocketquery.client.private.binding import Binding, Privacy, roster_digest, settings_digest
from pocketquery.client.private.commitments import commitments
from pocketquery.client.private.encoding import Encoding
from pocketquery.client.private.keys import Certificate
from pocketquery.client.private.layout import members_of, to_bitmap
from pocketquery.client.private.messages import (
    BOX_BYTES,
    Announcement,
    CollectedBoxes,
    Confirmation,
    Invitation,
    Unmasking,
    survivors_digest,
)
from pocketquery.client.private.replies import (
    READY_BYTES,
    Boxes,
    Confirmed,
    Kind,
    Masked,
    Ready,
    Share,
    Shares,
)
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError

NOISE = Privacy("devices", 2.4, 38, "2026-summer", 1)
BINDING = Binding(
    federation=bytes(range(16)),
    round=7,
    nonce=bytes(range(32)),
    group=0,
    size=60,
    neighbours=10,
    threshold=7,
    ring_seed=bytes(range(32, 64)),
    roster_sha256="ab" * 32,
    release_sha256="cd" * 32,
    settings_sha256="ef" * 32,
    encoding=Encoding(size=9, bits=32, exponent=14, range=0.0125, clip=1.0),
    privacy=NOISE,
    expiry=1_900_000_000,
)
BETA = BINDING.digest


RANDOM = np.random.default_rng(0)


def marks(count: int) -> tuple[bytes, ...]:
    return tuple(RANDOM.bytes(16) for _ in range(count))


CERTIFICATES = tuple(Certificate(bytes([n]) * 32, 2_000_000_000, bytes(64)) for n in range(10))
BOXES = tuple(RANDOM.bytes(BOX_BYTES) for _ in range(10))
U2, U3 = tuple(range(0, 60, 2)), tuple(range(0, 60, 4))
CODES = (np.arange(9, dtype=np.uint64) << 28).astype(np.uint32)
BODIES: dict[str, tuple[Any, bytes, Callable[[bytes], Any]]] = {}


def body(name: str, value: Any, data: bytes, parse: Callable[[bytes], Any]) -> None:
    BODIES[name] = (value, data, parse)


def of(kind: Any, value: Any, *more: int) -> None:
    """A body whose bytes and reading need the binding."""
    data = value.to_bytes(BINDING) if kind in (CollectedBoxes, Confirmation, Unmasking) else None
    body(
        kind.__name__,
        value,
        value.to_bytes() if data is None else data,
        lambda found: kind.parse(found, BINDING, *more),
    )


announcement = Announcement(bytes(range(16)), bytes(range(32)), NOISE)
body("Announcement", announcement, announcement.to_bytes(), Announcement.parse)
invitation = Invitation(59, BINDING, CERTIFICATES)
ready = Ready(CERTIFICATES[9], RANDOM.bytes(16))
body("Ready", ready, ready.to_bytes(), Ready.parse)
body("Invitation", invitation, invitation.to_bytes(), Invitation.parse)
COMMITTED = tuple(RANDOM.bytes(32) for _ in range(10))
of(Boxes, Boxes(BETA, 3, RANDOM.bytes(32), RANDOM.bytes(32), BOXES, COMMITTED))
of(CollectedBoxes, CollectedBoxes(BETA, (0, 3, 9), BOXES[:3]))
of(Masked, Masked(BETA, 3, marks(3), COMMITTED[:3], CODES), 3)
of(Confirmation, Confirmation(BETA, U2, U3, survivors_digest(BETA, U2, U3, 60)))
of(Confirmed, Confirmed(BETA, 3, marks(3)), 3)
of(Unmasking, Unmasking(BETA, (1, 2, 8), marks(3), (2, 9), marks(2)))
shares = [Share(Kind.SELF, RANDOM.bytes(32)), Share(Kind.MASK, RANDOM.bytes(32)), Share(Kind.NONE)]
of(Shares, Shares(BETA, 3, (*shares, *shares, *shares, shares[0])))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, Masked):
        values = np.array_equal(left.codes, right.codes) and left.codes.dtype == right.codes.dtype
        return values and vars(left) | {"codes": None} == vars(right) | {"codes": None}
    return bool(left == right)


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_read_as_it_was_written(name: str) -> None:
    value, data, parse = BODIES[name]
    assert same(value, parse(data))


@pytest.mark.parametrize("name", BODIES)
@given(data=st.data())
@settings(deadline=None)
def test_a_damaged_body_is_refused_or_another(name: str, data: st.DataObject) -> None:
    value, good, parse = BODIES[name]
    place = data.draw(st.integers(0, len(good) - 1))
    change = data.draw(st.sampled_from(["cut", "drop", "grow", "insert", "flip"]))
    extra = data.draw(st.binary(min_size=1, max_size=40))
    changed = {
        "cut": good[:place],
        "drop": good[:place] + good[place + len(extra) :],
        "grow": good + extra,
        "insert": good[:place] + extra + good[place:],
        "flip": good[:place] + bytes([good[place] ^ extra[0] | 1]) + good[place + 1 :],
    }[change]
    try:
        found = parse(changed)
    except CorruptArtifactError:
        return
    written = found.to_bytes(BINDING) if hasattr(found, "digest") or _needs(found) else None
    assert (found.to_bytes() if written is None else written) == changed
    if changed != good:
        assert not same(found, value)
    if change != "flip" and name not in (
        "Announcement",
        "Unmasking",
    ):  # the season's length is free
        assert len(changed) == len(good)


def _needs(found: Any) -> bool:
    return isinstance(found, (CollectedBoxes, Confirmation, Unmasking))


@pytest.mark.parametrize("name", BODIES)
@given(data=st.binary(max_size=400))
@settings(deadline=None)
def test_any_bytes_are_refused(name: str, data: bytes) -> None:
    _, _, parse = BODIES[name]
    if name == "Announcement":  # short, and most of it may be anything
        data = data[:68]
    with pytest.raises(CorruptArtifactError):
        parse(data)


def test_noise_by_the_server_is_refused_by_name() -> None:
    """As whoever announces such a round, or binds its devices to it, is told."""
    other = bytearray(announcement.to_bytes())
    other[48] = 2
    with pytest.raises(CorruptArtifactError, match=r"noise mode is 2, expected .* from 0 to 1"):
        Announcement.parse(bytes(other))
    with pytest.raises(CorruptArtifactError, match="mode is 'server', expected one of off, dev"):
        Binding.parse(BINDING.to_bytes().replace(b'"mode":"devices"', b'"mode":"server"'))


def test_the_fields_lie_where_the_layout_says() -> None:
    data = BODIES["Masked"][1]
    assert data[:32] == BETA
    assert data[32:36] == (3).to_bytes(4, "big")
    assert data[36 + 48 + 96 :] == CODES.astype("<u4").tobytes()
    assert len(BODIES["Invitation"][1]) == 6 + len(BINDING.to_bytes()) + 10 * 100
    assert len(BODIES["Ready"][1]) == READY_BYTES == 116
    assert BODIES["Ready"][1][:100] == CERTIFICATES[9].to_bytes()
    assert BODIES["Announcement"][1][16:48] == bytes(range(32))
    assert len(BODIES["Announcement"][1]) == 16 + 32 + 17 + len(NOISE.season)
    assert len(BODIES["Boxes"][1]) == 100 + 10 * (112 + 32)
    assert len(BODIES["Shares"][1]) == 36 + 10 * 33
    assert len(BODIES["Confirmation"][1]) == 32 + 8 + 8 + 32


def test_a_commitment_is_of_one_share_of_one_neighbour_in_one_round() -> None:
    """Known answer: SHA-256 of what the module's text says, half of it."""
    found = commitments(BETA, 3, 8, bytes(32), bytes(range(32)))
    places = b"\0\0\0\3\0\0\0\x08"
    for part, share, half in (("self", bytes(32), 0), ("mask", bytes(range(32)), 1)):
        text = b"pocketquery-secure-1 share " + part.encode() + b" " + BETA + places + share
        assert found[16 * half : 16 * half + 16] == sha256(text).digest()[:16]
    others = {
        commitments(BETA, 8, 3, bytes(32), bytes(range(32))),
        commitments(BETA, 3, 9, bytes(32), bytes(range(32))),
        commitments(bytes(32), 3, 8, bytes(32), bytes(range(32))),
        commitments(BETA, 3, 8, bytes(range(32)), bytes(32)),
    }
    assert len(others | {found}) == 5
    assert len({one[place : place + 16] for one in others | {found} for place in (0, 16)}) == 10


def test_a_bitmap_has_its_first_member_at_the_least_bit() -> None:
    assert to_bitmap((0, 3, 8), 10) == bytes([0b1001, 1])
    assert members_of(bytes([0b1001, 1]), "it", 10) == (0, 3, 8)
    with pytest.raises(CorruptArtifactError, match="bit 10 set, of 10"):
        members_of(bytes([0, 4]), "it", 10)


def test_a_share_of_no_kind_or_an_absent_one_that_says_something_is_refused() -> None:
    good = bytearray(BODIES["Shares"][1])
    for place, value in ((36, 3), (36 + 33 * 2 + 5, 1)):
        bad = good.copy()
        bad[place] = value
        with pytest.raises(CorruptArtifactError, match="a share of kind"):
            Shares.parse(bytes(bad), BINDING)


def test_a_binding_is_canonical_json_and_its_digest_is_of_these_bytes() -> None:
    data = BINDING.to_bytes()
    text = json.loads(data)
    assert text["protocol"] == "pocketquery-secure-1"
    assert text["nonce"] == BINDING.nonce.hex()
    assert data == json.dumps(text, sort_keys=True, separators=(",", ":")).encode()
    assert Binding.parse(data) == BINDING
    assert Binding.parse(data).digest == BETA
    for other in (json.dumps(text, sort_keys=True), json.dumps(text, separators=(", ", ":"))):
        with pytest.raises(CorruptArtifactError, match="canonical"):
            Binding.parse(other.encode())


def altered(name: str, value: object) -> bytes:
    text: dict[str, Any] = json.loads(BINDING.to_bytes())
    part, _, field = name.rpartition(".")
    (text[part] if part else text)[field] = value
    return json.dumps(text, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("protocol", "pocketquery-secure-2"),
        ("federation", "00" * 15),
        ("federation", "AB" * 16),
        ("round", -1),
        ("round", 7.0),
        ("round", True),
        ("nonce", 5),
        ("size", 1),
        ("size", 10**9),
        ("neighbours", 9),
        ("neighbours", 60),
        ("neighbours", 0),
        ("threshold", 11),
        ("threshold", 0),
        ("roster_sha256", "ab" * 31),
        ("expiry", 2**32),
        ("expiry", 1e300),
        ("encoding", None),
        ("encoding.bits", 8),
        ("encoding.bits", 16.0),
        ("encoding.size", 0),
        ("encoding.range", float("nan")),
        ("encoding.extra", 1),
        ("privacy.mode", "maybe"),
        ("privacy.noise_multiplier", 0.0),
        ("privacy.noise_multiplier", 2),
        ("privacy.noise_multiplier", float("inf")),
        ("privacy.counted_on", 0),
        ("privacy.season", ""),
        ("privacy.season", "a b"),
        ("privacy.participations", 0),
        ("extra", 1),
    ],
)
def test_a_binding_with_a_field_out_of_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(CorruptArtifactError):
        Binding.parse(altered(name, value))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", b"[" * 5000, b"\xff", b"{" * 4000, b"1" * 4000]
)
def test_what_is_no_binding_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptArtifactError):
        Binding.parse(data)


def test_every_field_of_the_binding_changes_its_digest() -> None:
    changes: dict[str, Any] = {
        "federation": bytes(16),
        "round": 8,
        "nonce": bytes(32),
        "group": 1,
        "size": 61,
        "neighbours": 12,
        "threshold": 8,
        "ring_seed": bytes(32),
        "roster_sha256": "00" * 32,
        "release_sha256": "00" * 32,
        "settings_sha256": "00" * 32,
        "encoding": replace(BINDING.encoding, range=0.013),
        "privacy": replace(NOISE, noise_multiplier=2.5),
        "expiry": 1,
    }
    assert changes.keys() == BINDING.__dataclass_fields__.keys()
    digests = {replace(BINDING, **{name: value}).digest for name, value in changes.items()}
    assert len(digests | {BETA}) == len(changes) + 1


def test_a_binding_made_with_values_out_of_range_names_them() -> None:
    for name, value in (("size", 0), ("nonce", b"x"), ("threshold", 0), ("neighbours", 7)):
        with pytest.raises(InvalidInputError, match=f"{name} is"):
            replace(BINDING, **{name: value})  # type: ignore[arg-type]


def test_the_digests_of_settings_and_roster() -> None:
    assert settings_digest(LocalConfig()) == settings_digest(LocalConfig())
    assert settings_digest(LocalConfig()) != settings_digest(LocalConfig(steps=11))
    assert roster_digest([b"a", b"b"]) == roster_digest((b"ab",))


def test_the_place_of_a_share_is_the_neighbours_in_the_list_of_its_dealer() -> None:
    near = BINDING.ring[5]
    assert [BINDING.place(5, one) for one in near] == list(range(1, 11))
