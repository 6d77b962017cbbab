"""A gateway of one private round, on loopback: it relays, and checks no signature."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pocketquery.client.gateway.messages import offer_message
from pocketquery.client.private.binding import Privacy
from pocketquery.client.private.messages import Stage
from pocketquery.client.private.replies import Ready
from pocketquery.sdk.files import sha256_bytes
from pocketquery.server.private.coordinator import SecureSum, Skipped
from tests.client.private.group import ANNOUNCER, FEDERATION, OFFER, announce

__all__ = ["Relay", "relaying"]

_KEY = re.compile('keyid="([0-9a-f]{64})"')
_PRIVATE = re.compile(r"/v1/rounds/(\d+)/secure(?:/([1-5]))?")


class Relay:
    """One round for the devices that are ready, and for those that are not behind HTTP.

    Args:
        size: how many are ready when the round begins.
        privacy: as it is announced.
        begin: makes the round's value of the devices' certificates, in the order in which they
            came; called once.
        gone: positions that nobody waits for from stage 3 on.
    """

    def __init__(
        self, size: int, privacy: Privacy, begin: Callable[[list[bytes]], SecureSum], gone: set[int]
    ) -> None:
        self._size, self._begin, self._gone = size, begin, gone
        self._announcement = announce(privacy)
        self._lock = threading.RLock()
        self._ready: dict[str, bytes] = {}
        self._answered: dict[tuple[str, int], bytes] = {}
        self.sum: SecureSum | None = None
        self.declined: list[str] = []
        self.over = threading.Event()

    def position(self, name: str) -> int:
        """Of a device in the group."""
        return list(self._ready).index(name)

    def message(self, name: str) -> tuple[Stage, bytes] | None:
        """What there is for a device, the same as often as it asks; None: nothing new."""
        with self._lock:
            if self.sum is None or self.position(name) not in self.sum.waiting:
                return None
            return self.sum.stage, self.sum.message(self.position(name))

    def reply(self, name: str, stage: int, body: bytes) -> int:
        """Take a reply; the status of the answer."""
        with self._lock:
            if stage == Stage.OFFER:
                said = Ready.parse(body)
                if not said.is_proven(ANNOUNCER, FEDERATION, OFFER.round):
                    return 422
                self._join(name, said.certificate.to_bytes())
            elif (name, stage) in self._answered:
                return 200 if self._answered[name, stage] == body else 422
            else:
                assert self.sum is not None
                self.sum, reason = self.sum.receive(Stage(stage), self.position(name), body)
                if reason is not None:
                    return 409
                self._answered[name, stage] = body
                self._close()
            return 200

    def offer(self, name: str) -> bytes:
        """The offer, for those that are not in the round."""
        offered = replace(OFFER, announcement=self._announcement) if self.sum is None else None
        return json.dumps(offer_message(offered, 0)).encode()

    def _join(self, name: str, certificate: bytes) -> None:
        self._ready.setdefault(name, certificate)
        if len(self._ready) == self._size and self.sum is None:
            self.sum = self._begin(list(self._ready.values()))

    def _close(self) -> None:
        assert self.sum is not None
        if set(self.sum.waiting) - (self._gone if self.sum.stage > Stage.INVITE else set()):
            return
        if self.sum.stage is Stage.UNMASK:
            self.over.set()
            return
        after = self.sum.close()
        assert not isinstance(after, Skipped), after
        self.sum = after


@contextmanager
def relaying(relay: Relay) -> Iterator[str]:
    """Its address, as long as it is served."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if self.path == "/v1/offer":
                return self._answer(200, relay.offer(self._name()))
            if self.path == f"/v1/releases/{sha256_bytes(OFFER.release)}":
                return self._answer(200, OFFER.release)
            found = _PRIVATE.fullmatch(self.path)
            said = relay.message(self._name()) if found else None
            if said is None:
                return self._answer(204 if found else 404)
            return self._answer(200, said[1], **{"pocketquery-stage": str(int(said[0]))})

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            found = _PRIVATE.fullmatch(self.path)
            if found and found[2]:
                return self._answer(
                    relay.reply(self._name(), int(found[2]), body), b'{"verdict": "received"}'
                )
            if self.path.endswith("/declined"):
                relay.declined.append(self._name())
            return self._answer(204)

        def _name(self) -> str:
            found = _KEY.search(self.headers["signature-input"])
            assert found
            return found[1]

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if status != 204 else b"")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
