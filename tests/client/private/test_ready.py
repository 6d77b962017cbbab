"""What a device says that is ready: who holds the certified key says it, in this round."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from pocketquery.client.device import Declined
from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.keys import AgreementKey, Certificate
from pocketquery.client.private.messages import Announcement, Stage
from pocketquery.client.private.replies import Ready
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from tests.client.private.group import ANNOUNCER, FEDERATION, OFFER, announce, is_ready, member

ONE, OTHER = member(0), member(1)


def said_by(key: AgreementKey, certificate: Certificate, number: int = 7) -> Ready:
    return Ready.prove(key, certificate, ANNOUNCER.public, FEDERATION, number)


def test_a_device_proves_that_it_holds_the_certified_key() -> None:
    device = member(0)
    found = device.participant.answer(Stage.OFFER, announce(), OFFER)
    assert is_ready(device, found)
    assert found == said_by(device.key, device.certificate).to_bytes()
    device.restart()
    assert device.participant.answer(Stage.OFFER, announce(), OFFER) == found


def test_another_key_announced_is_answered_with_another_proof() -> None:
    device, other = member(0), AgreementKey(bytes(range(64, 96)))
    first = device.participant.answer(Stage.OFFER, announce(), OFFER)
    body = Announcement(FEDERATION, other.public, Privacy()).to_bytes()
    second = device.participant.answer(Stage.OFFER, body, OFFER)
    assert isinstance(second, bytes)
    assert second != first
    assert Ready.parse(second).is_proven(other, FEDERATION, OFFER.round)
    assert not Ready.parse(second).is_proven(ANNOUNCER, FEDERATION, OFFER.round)


def test_the_proof_is_the_mark_that_the_layout_says() -> None:
    """HKDF and HMAC spelled out, of what docs/formats/private-rounds.md says."""
    said = said_by(ONE.key, ONE.certificate)
    label = b"pocketquery-secure-1 ready " + FEDERATION + ONE.key.public + ANNOUNCER.public
    secret = HKDF(hashes.SHA256(), 32, None, label).derive(ANNOUNCER.agree(ONE.key.public))
    message = (7).to_bytes(8, "big") + ONE.certificate.to_bytes()
    assert said.proof == hmac.new(secret, message, hashlib.sha256).digest()[:16]
    assert said.to_bytes() == ONE.certificate.to_bytes() + said.proof


def test_a_proof_is_of_one_key_round_federation_certificate_and_announcer() -> None:
    said = said_by(ONE.key, ONE.certificate)
    assert said.is_proven(ANNOUNCER, FEDERATION, 7)
    assert not said_by(OTHER.key, ONE.certificate).is_proven(ANNOUNCER, FEDERATION, 7)
    assert not said.is_proven(ANNOUNCER, FEDERATION, 8)
    assert not said.is_proven(ANNOUNCER, bytes(16), 7)
    assert not said.is_proven(OTHER.key, FEDERATION, 7)
    renewed = replace(ONE.certificate, expiry=ONE.certificate.expiry + 1)
    assert not replace(said, certificate=renewed).is_proven(ANNOUNCER, FEDERATION, 7)


@given(st.binary(max_size=20))
def test_nothing_else_proves_it(proof: bytes) -> None:
    said = said_by(ONE.key, ONE.certificate)
    assert not replace(said, proof=proof).is_proven(ANNOUNCER, FEDERATION, 7)


@pytest.mark.parametrize("length", [0, 15, 99, 100, 115, 117, 132])
def test_a_body_of_another_length_is_refused(length: int) -> None:
    whole = said_by(ONE.key, ONE.certificate).to_bytes()
    with pytest.raises(CorruptArtifactError, match=f"{length} bytes where 116 belong"):
        Ready.parse((whole + bytes(16))[:length])


@pytest.mark.parametrize("announced", [bytes(32), (1).to_bytes(32, "little"), b"\xff" * 32])
def test_a_key_of_low_order_proves_and_trains_nothing(
    announced: bytes,
) -> None:
    device = member(0)
    body = Announcement(FEDERATION, announced, Privacy()).to_bytes()
    found = device.participant.answer(Stage.OFFER, body, OFFER)
    assert isinstance(found, Declined)
    assert f"the public key {announced.hex()}" in found.reason
    assert device.trainer.trained == 0
    with pytest.raises(InvalidInputError, match="the public key"):
        Ready.prove(ONE.key, ONE.certificate, announced, FEDERATION, 7)
