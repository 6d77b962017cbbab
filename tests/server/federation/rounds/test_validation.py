from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.transforms import SCALES
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.server.federation.rounds.nonces import NonceSet
from pocketquery.server.federation.rounds.open_round import open_round
from pocketquery.server.federation.rounds.validation import Quarantined, Reason, Valid, validate
from tests.server.federation.chaos.lies import forged
from tests.server.federation.replies import (
    SETTINGS,
    SHAPES,
    header,
    reply,
    small_change,
    small_state,
)

EXPECTED = open_round(small_state(), SETTINGS).expected
HONEST = reply()
NAME = sorted(SHAPES)[0]


def _without(name: str) -> bytes:
    tensors = {key: value for key, value in parse(HONEST).items() if key != name}
    tensors[SCALES] = tensors[SCALES][1:]
    return serialize(tensors, parse_metadata(HONEST))


def _lossless(value: float) -> bytes:
    """Float32 tensors, one value of them replaced."""
    change = small_change(0)
    change[NAME][0, 0] = value
    return forged(reply(compress=False), change)


def _scaled(norm: float) -> bytes:
    return reply(change=small_change(0, scale=9.0), clip_norm=norm)


BAD: list[tuple[Reason, bytes]] = [
    (Reason.MALFORMED, b""),
    (Reason.MALFORMED, b"\x00" * 64),
    (Reason.MALFORMED, HONEST[:-1]),
    (Reason.MALFORMED, HONEST + b"\x00"),
    (Reason.MALFORMED, b"\xff" * 1_000_000),
    (Reason.MALFORMED, HONEST.ljust(1_000_000, b"\x00")),
    (Reason.WRONG_SCHEMA, forged(HONEST, format="another")),
    (Reason.WRONG_SCHEMA, forged(HONEST, version="2")),
    (Reason.WRONG_SCHEMA, forged(HONEST, query="where is the nearest clinic")),
    (Reason.WRONG_SCHEMA, forged(HONEST, round="-1")),
    (Reason.WRONG_SCHEMA, forged(HONEST, nonce="1")),
    (Reason.WRONG_SCHEMA, forged(HONEST, weight="many")),
    (Reason.WRONG_SCHEMA, forged(HONEST, {SCALES: np.ones(1, np.float32)})),
    (Reason.WRONG_SCHEMA, forged(HONEST, {NAME: np.full(SHAPES[NAME], -128, np.int8)})),
    (Reason.WRONG_SCHEMA, serialize(parse(HONEST))),
    (Reason.WRONG_SCHEMA, serialize({}, parse_metadata(HONEST))),
    (Reason.WRONG_SPACE, reply(space_id="space-b")),
    (Reason.WRONG_SPACE, reply(space_id="räume \u202e 空間")),
    (Reason.WRONG_SPACE, reply(space_id="\x1b[2J\nround 0: accepted")),
    (Reason.WRONG_SPACE, HONEST.replace(b"space-a", rb"\ud83da")),
    (Reason.WRONG_ENCODER, reply(encoder_sha256="cd" * 32)),
    (Reason.WRONG_KEYS, reply(change={"other": np.ones(3, np.float32)})),
    (Reason.WRONG_KEYS, reply(change=small_change(0) | {"z": np.ones(3, np.float32)})),
    (Reason.WRONG_KEYS, _without(NAME)),
    (Reason.WRONG_SHAPE, reply(change=small_change(0) | {NAME: np.ones((6, 2), np.float32)})),
    (Reason.WRONG_SHAPE, reply(change=small_change(0) | {NAME: np.ones(12, np.float32)})),
    (Reason.WRONG_DTYPE, forged(HONEST, {NAME: np.ones(SHAPES[NAME], np.int16)})),
    (Reason.WRONG_DTYPE, forged(reply(compress=False), {NAME: np.ones(SHAPES[NAME])})),
    (Reason.NOT_FINITE, _lossless(np.nan)),
    (Reason.NOT_FINITE, _lossless(np.inf)),
    (Reason.NOT_FINITE, _lossless(-np.inf)),
    (Reason.NOT_FINITE, forged(HONEST, {SCALES: np.array([np.nan, 1], np.float32)})),
    (Reason.NOT_FINITE, forged(HONEST, {SCALES: np.array([3e38, 1], np.float32)})),
    (Reason.ZERO, reply(change={name: np.zeros(s, np.float32) for name, s in SHAPES.items()})),
    (Reason.ZERO, forged(HONEST, {SCALES: np.zeros(2, np.float32)})),
    (Reason.NORM_OUT_OF_BOUNDS, _scaled(1.2)),
    (Reason.NORM_OUT_OF_BOUNDS, _lossless(3.4e38)),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="-1.0")),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="0.0")),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="1e-300")),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="256.5")),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="1e308")),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="inf")),
    (Reason.BAD_WEIGHT, forged(HONEST, weight="nan")),
    (Reason.STALE_ROUND, reply(base_version="0")),
    (Reason.FUTURE_ROUND, reply(round=1)),
    (Reason.FUTURE_ROUND, reply(round=10**17)),
]
# Told by a round's history and clock, not by the bytes: here and in test_rounds.py.
BY_HISTORY = {Reason.DUPLICATE, Reason.REPLAY, Reason.TOO_LATE}


def test_an_honest_update_is_valid_whether_compressed_or_not() -> None:
    for data in (reply(compress=True), reply(compress=False)):
        found = validate(data, EXPECTED)
        assert isinstance(found, Valid)
        change = small_change(0)
        wanted = np.concatenate([change[name].ravel() for name in sorted(change)])
        np.testing.assert_allclose(found.values, wanted, atol=0.002)
        assert found.norm == pytest.approx(np.linalg.norm(found.values))
        assert found.header == header()


@pytest.mark.parametrize(("reason", "data"), BAD)
def test_a_bad_reply_is_quarantined_with_its_reason(reason: Reason, data: bytes) -> None:
    found = validate(data, EXPECTED)
    assert isinstance(found, Quarantined), reason
    assert found.reason == reason, found
    assert found.detail
    assert found.detail.isascii()
    assert found.detail.isprintable()  # it goes to logs and reports
    assert len(found.detail) <= 300


def test_every_reason_is_tested() -> None:
    assert {reason for reason, _ in BAD} | BY_HISTORY == set(Reason)


def test_a_stale_round_is_one_before() -> None:
    later = small_state()
    expected = open_round(later.__class__(**{**vars(later), "round": 3}), SETTINGS).expected
    found = validate(HONEST, expected)
    assert isinstance(found, Quarantined)
    assert found.reason == Reason.STALE_ROUND
    assert found.detail == "found round 0, expected 3"


def test_a_nonce_of_this_round_is_a_duplicate_and_of_an_earlier_one_a_replay() -> None:
    nonces = NonceSet().add(header().nonce)
    duplicate = validate(HONEST, EXPECTED, seen=nonces)
    replay = validate(HONEST, EXPECTED, earlier=nonces)
    assert isinstance(duplicate, Quarantined)
    assert isinstance(replay, Quarantined)
    assert (duplicate.reason, replay.reason) == (Reason.DUPLICATE, Reason.REPLAY)


def test_up_to_the_slack_a_long_change_is_valid() -> None:
    found = validate(_scaled(1.09), EXPECTED)
    assert isinstance(found, Valid)
    assert 1.08 < found.norm <= 1.09


def test_the_header_of_a_bomb_is_not_even_read() -> None:
    shapes = {f"t{i}": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]} for i in range(99_999)}
    text = json.dumps(shapes).encode()
    found = validate(len(text).to_bytes(8, "little") + text, EXPECTED)
    assert isinstance(found, Quarantined)
    assert found.reason == Reason.MALFORMED
    assert "at most" in found.detail


@given(st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    assert isinstance(validate(data, EXPECTED), Quarantined)


@given(st.integers(0, len(HONEST) - 1), st.integers(1, 255))
def test_a_changed_byte_never_raises_and_never_passes_the_bounds(place: int, flip: int) -> None:
    data = bytearray(HONEST)
    data[place] ^= flip
    found = validate(bytes(data), EXPECTED)
    if isinstance(found, Valid):  # a change of values, of the nonce or of the weight
        assert np.isfinite(found.values).all()
        assert 0 < found.norm <= EXPECTED.largest_norm
        assert 0 < found.header.weight <= EXPECTED.largest_weight
        assert found.header.round == EXPECTED.round


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=12))
def test_no_metadata_raises(metadata: dict[str, str]) -> None:
    data = serialize(parse(HONEST), parse_metadata(HONEST))
    surrogates_too = {key: value for key, value in metadata.items() if key}
    assert isinstance(validate(forged(data, None, **surrogates_too), EXPECTED), Valid | Quarantined)
