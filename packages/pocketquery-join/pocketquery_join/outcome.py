"""The outcome of a device's turn at its gateway."""

from __future__ import annotations

from dataclasses import dataclass

from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError
from pocketquery_join.connection import GatewayConnection, Refused

__all__ = ["Outcome", "send"]

_BINARY = {"content-type": "application/octet-stream"}


@dataclass(frozen=True)
class Outcome:
    """The reply to a request for an offer, or for what is to be answered.

    Attributes:
        what: "idle" (there was none), "declined", "accepted", "left out" or "over"; in a private
            round also "ready", "waiting" and "answered"; of ``pocketquery join`` "unreachable" and
            "unusable" (an answer that no gateway gives).
        detail: why, in words; for this device's log alone.
        retry_after: seconds until asking again is of use.
    """

    what: str
    detail: str = ""
    retry_after: int = 0


def send(
    connection: GatewayConnection,
    path: str,
    success: Outcome,
    body: bytes = b"",
    *,
    verdict: str = "",
    figures: str | None = None,
) -> Outcome:
    """``success``, where the gateway takes what is put there; else "over" or "left out".

    Args:
        connection: to the gateway.
        path: where ``body`` goes.
        success: what comes of it where it is taken.
        body: what is sent.
        verdict: that the gateway gives then; "": none, and an answer without a body.
        figures: how a training went.

    Raises:
        Refused: it says no for another reason.
        CorruptArtifactError: what answers is no gateway, or one of another version.
        ArtifactError: it cannot be reached.
    """
    try:
        headers = _BINARY if body else None
        answer = connection.ask("PUT", path, body, figures=figures, headers=headers)
    except Refused as error:
        if error.code == "round_over":  # somebody else was faster, or the time was up
            return Outcome("over", str(error))
        if error.status == 422 and error.code:
            return Outcome("left out", str(error))
        raise
    except ArtifactError as error:
        cause = error.__cause__
        if isinstance(cause, Refused) and cause.code == "between_steps":  # the next one never began
            return Outcome("over", str(error))
        raise
    if verdict:
        answer.json("the gateway's verdict").choice("verdict", (verdict,))
    elif answer.status != 204:
        raise CorruptArtifactError(
            f"the gateway answered PUT {path} with status {answer.status}, expected 204"
        )
    return success
