"""What is looked at in Google's answer, and what a device is told."""

from __future__ import annotations

import base64
import copy
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attestation.evidence import challenge_of, with_evidence
from small_gateway import SmallDevice, opened

from pocketquery.sdk.errors import InvalidInputError
from pocketquery_attestation.play_integrity import PlayIntegrity
from pocketquery_gateway.attestation import AttestationError

PACKAGE = "org.example.app"
CERTIFICATE = hashlib.sha256(b"the publisher's certificate").digest()
BOUND = bytes(range(32))
HASH = base64.urlsafe_b64encode(BOUND).decode()
AS_SHOWN = ":".join(f"{one:02X}" for one in CERTIFICATE)


class PlayServer:
    """Google's server: it knows what it said of each token."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Any]] = {}

    def token(self, bound: bytes, changes: Mapping[str, Any] | None = None) -> str:
        """A token of a genuine app on a genuine device, but for ``changes``: by "part.name"."""
        payload: dict[str, Any] = {
            "requestDetails": {
                "requestPackageName": PACKAGE,
                "requestHash": base64.urlsafe_b64encode(bound).decode().rstrip("="),
                "timestampMillis": "1800000000000",
            },
            "appIntegrity": {
                "appRecognitionVerdict": "PLAY_RECOGNIZED",
                "packageName": PACKAGE,
                "certificateSha256Digest": [
                    base64.urlsafe_b64encode(CERTIFICATE).decode().rstrip("=")
                ],
                "versionCode": "42",
            },
            "deviceIntegrity": {"deviceRecognitionVerdict": ["MEETS_DEVICE_INTEGRITY"]},
            "accountDetails": {"appLicensingVerdict": "LICENSED"},
        }
        for place, value in (changes or {}).items():
            part, _, name = place.partition(".")
            if name:
                payload[part][name] = value
            else:
                payload[part] = value
        token = f"token-{len(self._said)}"
        self._said[token] = payload
        return token

    def decode(self, token: str) -> Mapping[str, Any]:
        """What ``decodeIntegrityToken`` answers."""
        if token not in self._said:
            raise AttestationError("Play Integrity does not know this token")
        return {"tokenPayloadExternal": copy.deepcopy(self._said[token])}


def checker(google: PlayServer, **how: Any) -> PlayIntegrity:
    given: dict[str, Any] = {"package_name": PACKAGE, "certificates": [AS_SHOWN]} | how
    return PlayIntegrity(google.decode, **given)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"requestDetails.requestHash": HASH},  # with padding
        {"requestDetails.requestHash": None, "requestDetails.nonce": HASH},  # a classic request
        {"accountDetails": {}},
        {"deviceIntegrity.deviceRecognitionVerdict": ["MEETS_BASIC_INTEGRITY",
                                                      "MEETS_DEVICE_INTEGRITY"]},
    ],
)  # fmt: skip
def test_a_genuine_app_is_taken(changes: Mapping[str, Any]) -> None:
    google = PlayServer()
    checker(google).check(BOUND, {"token": google.token(BOUND, changes)})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"requestDetails.requestHash": HASH[:-2]}, "not made over"),
        ({"requestDetails.requestHash": "é" * 43}, "not made over"),
        ({"requestDetails.requestHash": 7}, "not made over"),
        ({"requestDetails": None}, "not made over"),
        ({"requestDetails.requestPackageName": "org.example.other"}, "another app's"),
        ({"appIntegrity.packageName": "org.example.other"}, "another app's"),
        ({"appIntegrity": {"packageName": PACKAGE}}, "does not know this version"),
        ({"appIntegrity.appRecognitionVerdict": "UNRECOGNIZED_VERSION"}, "does not know"),
        ({"appIntegrity.certificateSha256Digest": ["AAAA", 7]}, "another certificate"),
        ({"appIntegrity.certificateSha256Digest": None}, "another certificate"),
        ({"deviceIntegrity": {}}, "MEETS_DEVICE_INTEGRITY"),
        ({"deviceIntegrity.deviceRecognitionVerdict": "MEETS_DEVICE_INTEGRITY"}, "MEETS_DEVICE"),
        ({"deviceIntegrity.deviceRecognitionVerdict": ["MEETS_BASIC_INTEGRITY"]}, "MEETS_DEVICE"),
        ({"accountDetails.appLicensingVerdict": "UNLICENSED"}, "from Play"),
    ],
)
def test_another_app_or_device_is_refused(changes: Mapping[str, Any], said: str) -> None:
    google = PlayServer()
    with pytest.raises(AttestationError, match=said):
        checker(google, licensed=True).check(BOUND, {"token": google.token(BOUND, changes)})


@pytest.mark.parametrize("evidence", [{}, {"token": ""}, {"token": 3}, {"token": ["a"]}])
def test_evidence_without_a_token_is_refused(evidence: Mapping[str, Any]) -> None:
    with pytest.raises(AttestationError, match="expected token"):
        checker(PlayServer()).check(BOUND, evidence)


def test_what_is_not_asked_is_not_looked_at() -> None:
    google = PlayServer()
    token = google.token(BOUND, {"deviceIntegrity": {}, "accountDetails": {}})
    checker(google, device_verdict="").check(BOUND, {"token": token})


@pytest.mark.parametrize("certificates", [[], ["AB:CD"], ["xyz"], [None], AS_SHOWN])
def test_certificates_are_digests(certificates: Any) -> None:
    with pytest.raises(InvalidInputError, match="certificate"):
        checker(PlayServer(), certificates=certificates)


def test_a_device_registers_with_a_token_for_its_own_key(tmp_path: Path) -> None:
    google = PlayServer()
    with opened(tmp_path, attestation=checker(google)) as small:
        device, other = SmallDevice(small), SmallDevice(small)
        challenge, bound = challenge_of(small, device)
        body = with_evidence(challenge, {"token": google.token(bound)})
        assert other.register(body).status_code == 403  # the token is not for its key
        assert device.register(with_evidence(challenge, {"token": "made up"})).status_code == 403
        assert device.register(body).status_code == 201
