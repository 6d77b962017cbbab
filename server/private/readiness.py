"""Check that a ready device counts: its certificate, and its proof that it holds the certified key.

The server checks both. Of a device behind a gateway it checks the certificate alone, for the
gateway has checked the proof.
"""

from __future__ import annotations

from pocketquery.client.private.keys import AgreementKey, Certificate, check_certificate
from pocketquery.client.private.replies import Ready
from pocketquery.sdk.errors import CorruptArtifactError, InvalidInputError
from pocketquery.server.private.coordinator import SecureReason
from pocketquery.server.private.settings import SecureSettings

__all__ = ["certified", "proven"]


def certified(
    certificate: bytes, settings: SecureSettings, now: float
) -> Certificate | SecureReason:
    """The certificate, or why it does not count.

    Args:
        certificate: bytes from anywhere.
        settings: of the round; they name authority and federation.
        now: Unix seconds.
    """
    try:
        parsed = Certificate.parse(certificate)
        check_certificate(parsed, settings.enrolment, settings.federation_id, now)
    except InvalidInputError:
        return SecureReason.BAD_CERTIFICATE
    return parsed


def proven(
    body: bytes, announcer: AgreementKey, settings: SecureSettings, number: int, now: float
) -> Certificate | SecureReason:
    """The certificate of the device that sent ``body``, or why it does not count.

    Args:
        body: bytes from anywhere, a :class:`~pocketquery.client.private.replies.Ready`.
        announcer: the key whose public half was announced.
        settings: of the round; they name authority and federation.
        number: of the round.
        now: Unix seconds.
    """
    try:
        ready = Ready.parse(body)
    except CorruptArtifactError:
        return SecureReason.BAD_PROOF
    certificate = certified(ready.certificate.to_bytes(), settings, now)
    if isinstance(certificate, SecureReason) or ready.is_proven(
        announcer, settings.federation_id, number
    ):
        return certificate
    return SecureReason.BAD_PROOF
