"""A device's connection to its gateway: signed requests, repeated where that helps.

Every request may be sent twice without harm: an update counts once, a key is registered once. So
what is lost on the way, or told to wait, is tried again, with a pause that grows and is not the
same on all devices.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import os
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pocketquery.client.gateway.messages import STAGE_HEADER
from pocketquery.client.gateway.signing import signed_headers
from pocketquery.sdk.bundle.signature import public_key_of
from pocketquery.sdk.errors import ArtifactError, CorruptArtifactError, InvalidInputError
from pocketquery.sdk.fields import Fields
from pocketquery.sdk.files import write_atomic

__all__ = [
    "GATEWAY_KEY",
    "Answer",
    "GatewayConnection",
    "Refused",
    "UnreachableError",
    "device_key",
]

GATEWAY_KEY = "gateway.key"
"""The file of a device's private key for its gateway, in its state folder."""

_KEY_BYTES = 32
_LARGEST_ANSWER = 2 << 20
_LARGEST_JSON = 1 << 20
_PIECE_BYTES = 65_536
_SUCCESS_STATUSES = (200, 201, 204)
_NOT_MODIFIED = 304
_LAST_CREATED = 10**11 - 1  # that a signature can say
_RETRY_STATUSES = (408, 429, 502, 503, 504)
_QUOTA_CODE = "quota"  # comes with 429 too, and is so until tomorrow
_LONGEST_PAUSE, _LONGEST_ASKED = 60.0, 3600.0
_CUT_INTERVAL_S = 1.0  # seconds
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CODE = re.compile("[a-z_]{1,40}")
_ETAG = re.compile(r'(?:W/)?"[!#-~]{1,128}"')


class Refused(ArtifactError):
    """The gateway refuses a request.

    Attributes:
        status: of HTTP.
        code: the gateway's word for why, see docs/gateway.md; empty where it gives none.
        retry_after: seconds that it asks to wait for; 0 where it does not say.
    """

    def __init__(self, status: int, code: str, detail: str, retry_after: float = 0.0) -> None:
        super().__init__(f"the gateway refuses ({status} {code}): {detail}")
        self.status = status
        self.code = code
        self.retry_after = retry_after


class UnreachableError(ArtifactError):
    """The gateway did not answer, or was too busy, however often it was asked."""


@dataclass(frozen=True)
class Answer:
    """What the gateway answered.

    Attributes:
        status: of HTTP.
        body: its bytes.
        etag: empty where it names none.
        stage: of a private round, that the body is of; 0 where it names none.
        retry_after: seconds that it asks to wait for; 0 where it does not say.
    """

    status: int
    body: bytes
    etag: str = ""
    stage: int = 0
    retry_after: float = 0.0

    def json(self, source: str) -> Fields:
        """The JSON object in the body; ``source`` names it in errors.

        Raises:
            CorruptArtifactError: it is none, or longer than 1 MiB.
        """
        return Fields.of_json(self.body, source, most_bytes=_LARGEST_JSON)


def device_key(state: Path | str) -> bytes:
    """The private key in the folder ``state``, 32 bytes; made where there is none.

    Raises:
        CorruptArtifactError: the file is no key.
    """
    path = Path(state) / GATEWAY_KEY
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.is_file():
        write_atomic(path, os.urandom(_KEY_BYTES), mode=0o600)
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise CorruptArtifactError(
            f"{path} has {len(key)} bytes, expected a key of {_KEY_BYTES}; remove it, and the "
            "device registers anew"
        )
    return key


class GatewayConnection:
    """Requests to one gateway.

    Args:
        url: "https://gateway.example.org"; http on this machine alone.
        private_key: the device's.
        authority_file: PEM of the authority whose certificates to trust; None: the system's.
        attempts: how often a request is sent.
        seconds: until an answer is there, whole.
        clock: seconds since 1970.
        sleep: waits.
        draw: a random number from 0 to 1, for how long it waits.

    Raises:
        InvalidInputError: the URL is no such, or the authority's file cannot be used.
    """

    def __init__(
        self,
        url: str,
        private_key: bytes,
        *,
        authority_file: Path | str | None = None,
        attempts: int = 6,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidInputError(
                f"the gateway is {url!r} ({error}), expected https://host or https://host:port"
            ) from error
        plain = parts.scheme == "http" and parts.hostname in _LOOPBACK
        is_secure = parts.scheme == "https" or plain
        is_strange = any(map(str.isspace, url)) or parts.path.strip("/")
        if not parts.hostname or not is_secure or is_strange:
            raise InvalidInputError(
                f"the gateway is {url!r}, expected https://host or https://host:port; http is for "
                "this machine alone"
            )
        self._host, self._port = parts.hostname, port
        self._authority = parts.netloc.rpartition("@")[2].lower()
        self._trust = None if plain else _trusting(authority_file)
        self._key = private_key
        self.public_key = public_key_of(private_key)
        self._attempts = attempts
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._ahead = 0.0  # the gateway's clock, less this device's
        self._open: http.client.HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        signed: bool = True,
        figures: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The answer to one request: 200, 201 or 204, or where ``headers`` has an ETag 304.

        Raises:
            Refused: the gateway says no, and again would not help.
            UnreachableError: it cannot be reached, or is too busy.
            CorruptArtifactError: it answers with more than 2 MiB, or sends this device elsewhere.
        """
        failure: Exception = ArtifactError("it was not asked")
        for attempt in range(self._attempts):
            if attempt:
                self._sleep(_pause(attempt, failure) * (1 + self._draw() / 2))
            try:
                return self._once(method, path, body, signed, figures, headers or {})
            except Refused as error:
                again = error.status in _RETRY_STATUSES or error.code == "not_in_time"
                if not again or error.code == _QUOTA_CODE:
                    raise
                failure = error
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failure = error
        raise UnreachableError(
            f"the gateway {self._authority} did not answer {self._attempts} times ({failure}); try "
            "again later"
        ) from failure

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> GatewayConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _once(
        self,
        method: str,
        path: str,
        body: bytes,
        signed: bool,
        figures: str | None,
        headers: dict[str, str],
    ) -> Answer:
        sent = {"host": self._authority, **headers}
        if signed:
            sent |= signed_headers(
                self._key,
                method,
                self._authority,
                path,
                body,
                created=min(_LAST_CREATED, max(1, int(self._clock() + self._ahead))),
                nonce=os.urandom(16),
                figures=figures,
            )
        response, data = self._exchange(method, path, body, sent)
        wait = _seconds(response.headers.get("retry-after"))
        if response.status in _SUCCESS_STATUSES or (
            response.status == _NOT_MODIFIED and "if-none-match" in sent
        ):
            etag, stage = response.headers.get("etag", ""), response.headers.get(STAGE_HEADER)
            etag = etag if _ETAG.fullmatch(etag) else ""
            return Answer(response.status, data, etag, int(_seconds(stage)), wait)
        if response.status < 400:  # what was signed is for this host alone
            self.close()
            raise CorruptArtifactError(
                f"the gateway answered {method} {path} with status {response.status}, expected one "
                f"of {', '.join(map(str, _SUCCESS_STATUSES))}, or a refusal; is something else in "
                "its place?"
            )
        error = _refusal(response.status, data, wait)
        if error.code == "not_in_time":
            self._note_date(response.headers.get("date"))
        raise error

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request: its answer, and that one's body.

        Raises:
            OSError, http.client.HTTPException: there is none, or it is not here in time.
            CorruptArtifactError: the body is too long.
        """
        connection, data, held = self._connection(), b"", None
        is_over, is_late = threading.Event(), threading.Event()

        def cut() -> None:  # a byte now and then is no answer
            seconds = self._seconds
            while not is_over.wait(seconds):  # again: the connection may only be made later
                is_late.set()
                seconds = _CUT_INTERVAL_S
                if (one := held or connection.sock) is not None:
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=cut, daemon=True).start()
        try:
            connection.request(method, path, body or None, headers)
            held = connection.sock  # it lets go of one that ends with the answer
            with connection.getresponse() as response:
                while len(data) <= _LARGEST_ANSWER and (piece := response.read1(_PIECE_BYTES)):
                    data += piece
        except ValueError as error:  # what is no HTTP, and http.client did not expect
            raise http.client.HTTPException(f"no answer of HTTP: {error}") from error
        finally:
            is_over.set()
        if is_late.is_set():  # one without a length looks whole, too
            raise TimeoutError(f"the answer was not here in {self._seconds:g} s")
        if len(data) > _LARGEST_ANSWER:
            self.close()
            raise CorruptArtifactError(f"the gateway answered more than {_LARGEST_ANSWER} bytes")
        if response.length:  # the connection was lost before its end
            raise http.client.IncompleteRead(data, response.length)
        return response, data

    def _connection(self) -> http.client.HTTPConnection:
        if self._open is None:
            if self._trust is None:
                self._open = http.client.HTTPConnection(
                    self._host, self._port, timeout=self._seconds
                )
            else:
                self._open = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._seconds, context=self._trust
                )
        return self._open

    def _note_date(self, date: str | None) -> None:
        """Sign by the gateway's clock: this device's is off."""
        with contextlib.suppress(TypeError, ValueError, OverflowError, OSError):
            if date is not None:
                self._ahead = email.utils.parsedate_to_datetime(date).timestamp() - self._clock()


def _refusal(status: int, body: bytes, wait: float) -> Refused:
    try:
        problem = json.loads(body)
        code, detail = str(problem["code"]), str(problem["detail"])[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        code, detail = "", "it does not say why"
    return Refused(status, code if _CODE.fullmatch(code) else "", detail, wait)


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() and len(text) < 6 else 0.0


def _pause(attempt: int, failure: Exception) -> float:
    """Seconds before the next attempt, at least: what the gateway says, or a second that doubles.
    Up to half as much comes on top, so that devices do not come back at once."""
    asked = failure.retry_after if isinstance(failure, Refused) else 0.0
    return max(min(_LONGEST_ASKED, asked), min(_LONGEST_PAUSE, 2.0 ** (attempt - 1)))


def _trusting(authority_file: Path | str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority_file)
    except OSError as error:  # an SSLError is one
        raise InvalidInputError(
            f"the authority {authority_file} cannot be used: {error.strerror or error}; expected a "
            "PEM file of its certificate"
        ) from error
