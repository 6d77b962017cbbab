"""The node's end of a gateway's socket (control.py is the gateway's).

Flower starts a process for each message, so what this imports is little.
"""

from __future__ import annotations

import http.client
import socket
import time
from pathlib import Path

from pocketquery.sdk.errors import ArtifactError, InvalidInputError
from pocketquery_gateway.cohorts.announced_release import AnnouncedRelease
from pocketquery_gateway.cohorts.cohort_offer import CohortOffer
from pocketquery_gateway.cohorts.stage_bundle import StageBundle

__all__ = ["Control"]

_LONGEST_WAIT = 20.0
_TIMEOUT = 60.0
_RETRY_SECONDS = 0.5


class Control:
    """The other end of the socket.

    Args:
        path: of the gateway's socket.
        patience: seconds for which a gateway that does not answer is tried again: it may be
            restarting.
    """

    def __init__(self, path: Path | str, *, patience: float = 60.0) -> None:
        self._path = Path(path)
        self._patience = patience

    def answer_to(self, asked: CohortOffer) -> bytes:
        """Have the gateway run its part of a round; the cohort's sum, or of a private round a
        StageBundle of who is ready.

        Raises:
            InvalidInputError: the gateway refuses the offer.
            ArtifactError: it cannot be reached, or did not answer in time.
        """
        end = time.monotonic() + asked.seconds + self._patience
        self._begin(asked)
        while time.monotonic() < end:
            status, body = self._ask("GET", f"/round/{asked.digest}?wait={_LONGEST_WAIT:.0f}")
            if status == 200:
                return body
            if status == 409:  # it was begun anew from an older file
                self._begin(asked)
        raise ArtifactError(
            f"{self._path}: the gateway did not answer in {asked.seconds + self._patience:.0f} s"
        )

    def replies_to(self, bundle: StageBundle) -> bytes:
        """Have the gateway's devices answer one stage of a private round; a StageBundle of the
        replies that came within its seconds. Raises as :meth:`answer_to`."""
        end, path = time.monotonic() + bundle.seconds, f"/stage/{bundle.digest}"
        self._begin_stage(bundle)
        while True:
            remaining = end - time.monotonic()
            asked = f"?wait={min(remaining, _LONGEST_WAIT):.3f}" if remaining > 0 else "?last=1"
            status, body = self._ask("GET", path + asked)
            if status == 200:
                return body
            if status == 409:  # it was restarted
                self._begin_stage(bundle)
            elif remaining <= 0:
                self._check(status, body)

    def announce(self, announced: AnnouncedRelease) -> None:
        """Tell the gateway what is in force. Raises as :meth:`answer_to`."""
        self._check(*self._ask("PUT", "/release", announced.to_bytes()))

    def is_healthy(self) -> bool:
        """Whether the gateway answers and can write."""
        try:
            return self._once("GET", "/health", b"")[0] == 200
        except OSError:
            return False

    def _begin(self, asked: CohortOffer) -> None:
        self._check(*self._ask("PUT", "/round", asked.to_bytes()))

    def _begin_stage(self, bundle: StageBundle) -> None:
        self._check(*self._ask("PUT", "/stage", bundle.to_bytes()))

    def _check(self, status: int, body: bytes) -> None:
        if status >= 300:
            reason = body[:500].decode("utf-8", "replace")
            raise InvalidInputError(f"{self._path}: the gateway refuses ({status}): {reason}")

    def _ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        end = time.monotonic() + self._patience
        while True:
            try:
                status, answer = self._once(method, path, body)
                if status != 503:
                    return status, answer
                error: Exception = ArtifactError("it cannot write its journal")
            except (OSError, http.client.HTTPException) as failed:
                error = failed
            if time.monotonic() > end:
                raise ArtifactError(
                    f"{self._path}: the gateway does not answer ({error}); start it with "
                    "pocketquery gateway"
                ) from error
            time.sleep(_RETRY_SECONDS)

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        connection = _SocketConnection(self._path)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT)
        self.sock.connect(str(self._socket_path))
