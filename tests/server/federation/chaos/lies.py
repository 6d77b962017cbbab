"""What hostile devices send, made of the honest reply that they would have sent.

Of a plain round a lie is told of an update's bytes; of a private one, of the body of one stage.
Each says what must become of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pocketquery.client.private.keys import CERTIFICATE_BYTES, MARK_BYTES
from pocketquery.client.private.messages import Invitation, Stage
from pocketquery.client.private.replies import Kind, Shares
from pocketquery.client.transforms import SCALES
from pocketquery.client.update import decode_update, encode_update
from pocketquery.sdk.bundle.safetensors import parse, parse_metadata, serialize
from pocketquery.server.federation.rounds.settings import RoundSettings

__all__ = ["Lie", "StageLie", "forged", "plain_lies", "stage_lies"]


@dataclass(frozen=True)
class Lie:
    """What a device sends in the place of its update.

    Attributes:
        tell: its update and its node id to the bytes it sends.
        reason: what it is quarantined for; None: it is a valid update.
        repeats: whether it is quarantined only from the round on after which its sender's first was
            taken.
    """

    tell: Callable[[bytes, int], bytes]
    reason: str | None
    repeats: bool = False


@dataclass(frozen=True)
class StageLie:
    """What a device sends in the place of its reply in one stage of a private round.

    Attributes:
        stage: which.
        tell: the honest body, and the device's invitation (None in the first stage), to the bytes
            it sends.
        reason: what it, or its group, is left out for.
        effect: "absent": the round is one in which the device was silent in that stage; "spoils":
            its group gives no sum; "none": the sum is that of an honest round.
    """

    stage: Stage
    tell: Callable[[bytes, Invitation | None], bytes]
    reason: str
    effect: Literal["absent", "spoils", "none"]


def forged(
    update: bytes, tensors: Mapping[str, NDArray[Any]] | None = None, **metadata: str
) -> bytes:
    """``update`` with tensors added or replaced, and fields of its header, unchecked."""
    return serialize(parse(update) | dict(tensors or {}), parse_metadata(update) | metadata)


def plain_lies(settings: RoundSettings) -> dict[str, Lie]:
    """By name, what hostile devices send in plain rounds of these settings."""

    def negated(update: bytes, _: int) -> bytes:
        """As long and as heavy as it may be."""
        change = {name: -1000 * value for name, value in _as_float(update).items()}
        header = replace(decode_update(update).header, weight=settings.largest_weight)
        longest = 0.999 * settings.clip_norm * settings.norm_slack
        return encode_update(change, header=header, clip_norm=longest)[0]

    return {
        "nan": Lie(_not_a_number, "not_finite"),
        "norm": Lie(_huge, "norm_out_of_bounds"),
        "shape": Lie(_wrong_shape, "wrong_shape"),
        "dtype": Lie(_wrong_dtype, "wrong_dtype"),
        "replay": Lie(lambda update, node: forged(update, nonce=f"{node:032x}"), "replay", True),
        "stale": Lie(_of_the_round_before, "stale_round"),
        "negated": Lie(negated, None),
        "weight": Lie(lambda update, _: forged(update, weight="1e9"), "bad_weight"),
        "oversized": Lie(lambda update, _: update.ljust(1_000_000, b"\0"), "malformed"),
        "garbage": Lie(lambda update, _: _random_bytes(500), "malformed"),
    }


def stage_lies() -> dict[str, StageLie]:
    """By name, what hostile devices send in private rounds."""
    return {
        "certificate": StageLie(Stage.OFFER, _forged_certificate, "bad_certificate", "absent"),
        "proof": StageLie(Stage.OFFER, _without_proof, "bad_proof", "absent"),
        "shape": StageLie(Stage.COLLECT, lambda body, _: body[:-1], "malformed", "absent"),
        "replay": StageLie(Stage.COLLECT, _of_another_round, "malformed", "absent"),
        "garbage": StageLie(Stage.COLLECT, _noise, "sum_out_of_range", "spoils"),
        "norm": StageLie(Stage.COLLECT, _far_away, "sum_out_of_range", "spoils"),
        "wrong shares": StageLie(Stage.UNMASK, _wrong_shares, "bad_share", "none"),
    }


def _as_float(update: bytes) -> dict[str, Any]:
    return {name: value.copy() for name, value in decode_update(update).change.items()}


def _not_a_number(update: bytes, _: int) -> bytes:
    change = _as_float(update)
    next(iter(change.values())).flat[0] = np.nan
    plain, _residual = encode_update(
        {name: np.nan_to_num(value) for name, value in change.items()},
        header=decode_update(update).header,
        clip_norm=1.0,
        compress=False,
    )
    return forged(plain, change)


def _huge(update: bytes, _: int) -> bytes:
    tensors = parse(update)
    if SCALES in tensors:
        return forged(update, {SCALES: tensors[SCALES] * np.float32(1e6)})
    return forged(update, {name: value * np.float32(1e6) for name, value in tensors.items()})


def _first(update: bytes) -> str:
    return min(parse(update).keys() - {SCALES})


def _wrong_shape(update: bytes, _: int) -> bytes:
    name = _first(update)
    return forged(update, {name: parse(update)[name].reshape(-1)})


def _wrong_dtype(update: bytes, _: int) -> bytes:
    name = _first(update)
    return forged(update, {name: parse(update)[name].astype(np.int16)})


def _of_the_round_before(update: bytes, _: int) -> bytes:
    number = decode_update(update).header.round
    return forged(update, round=str(number - 1)) if number else forged(update, base_version="0")


def _forged_certificate(body: bytes, _: Invitation | None) -> bytes:
    """Signed by nobody: the signature is what the certificate ends with."""
    last = CERTIFICATE_BYTES - 1
    return body[:last] + bytes([body[last] ^ 1]) + body[last + 1 :]


def _without_proof(body: bytes, _: Invitation | None) -> bytes:
    """What a neighbour of an earlier round could send, who has seen the certificate alone."""
    return body[:CERTIFICATE_BYTES] + bytes(MARK_BYTES)


def _of_another_round(body: bytes, _: Invitation | None) -> bytes:
    """Under another binding's digest, with which every body begins."""
    return bytes(32) + body[32:]


def _codes_at(body: bytes, invitation: Invitation | None) -> tuple[int, str]:
    """Where the masked values begin in ``body``, and their type."""
    assert invitation is not None
    encoding = invitation.binding.encoding
    return len(body) - encoding.size * encoding.bits // 8, f"<u{encoding.bits // 8}"


def _noise(body: bytes, invitation: Invitation | None) -> bytes:
    at, _ = _codes_at(body, invitation)
    return body[:at] + _random_bytes(len(body) - at)


def _random_bytes(count: int) -> bytes:
    return np.random.default_rng(0).bytes(count)


def _far_away(body: bytes, invitation: Invitation | None) -> bytes:
    """Every value nearly as large as its words can hold, under honest masks."""
    at, kind = _codes_at(body, invitation)
    codes = np.frombuffer(body[at:], kind)
    moved: bytes = (codes + np.array(9 * (np.iinfo(codes.dtype).max // 20), kind)).tobytes()
    return body[:at] + moved


def _wrong_shares(body: bytes, invitation: Invitation | None) -> bytes:
    assert invitation is not None
    found = Shares.parse(body, invitation.binding)
    wrong = tuple(
        one if one.kind is Kind.NONE else replace(one, value=hashlib.sha256(one.value).digest())
        for one in found.shares
    )
    return replace(found, shares=wrong).to_bytes()
