"""Limits of one connection: how long it may be idle or slow, how large a request it may send, and
how many connections an address has.

uvicorn waits for a request without a limit and keeps its headers, however long they are; its one
timer begins after an answer. Whoever opens connections and stays silent, or sends headers forever,
could use up all connections of a gateway. Here each request has a time in which its headers
have come, another for its body, and its answer one in which it is taken. What is no body (request
line, headers, sizes and extensions of chunks, trailers) has 16 KiB and 100 headers, counted as they
are parsed; bodies have a room of their own that all connections share. Requests that are sent
before others are answered wait, sixteen of a connection at most. A connection that passes a limit
ends.

A request that is refused here counts against its address and has its line in the log, as one that
is answered. A connection that ends without one is counted in the metrics, and is in no log: a line
for each would be one more thing to flood.
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pocketquery_gateway.body_limits import BodyBytes
from pocketquery_gateway.entrance.requests import FULL, note
from pocketquery_gateway.limits import network_of
from pocketquery_gateway.metrics import Metrics
from pocketquery_gateway.problems import Problem
from pocketquery_gateway.settings import GatewaySettings

__all__ = ["limited_protocol"]

_MOST_HEAD_BYTES = 16_384  # of a request: all of it that is no body
_MOST_HEADERS = 100
_MOST_WAITING = 16  # requests of one connection, for those before them to be answered
_SEPARATORS = 4  # bytes of a header beside name and value
_PIECE_BYTES = 4096  # that are parsed before they are counted
_FULL_RETRY_S = 10.0
_AFTER = 5.0  # seconds at most: who reads the body has its own limit, and answers first


def limited_protocol(
    settings: GatewaySettings,
    metrics: Metrics,
    admit: Callable[[str | None], None] | None = None,
    *,
    most_body_bytes: int | None = None,
) -> type[asyncio.Protocol]:
    """A class for uvicorn's ``http``: HTTP/1.1 within the limits of ``settings``.

    Args:
        settings: how the gateway is run.
        metrics: where connections that were ended, and requests that were refused, are counted.
        admit: takes an address, and raises a Problem where it asks too often; None: each may.
        most_body_bytes: of bodies in memory at once, in place of that of ``settings``; an address
            then may fill it alone.
    """
    proxies = settings.trusted_proxies if settings.behind_proxy else ()
    addresses = _Addresses(settings.most_of_address, proxies)
    bodies = BodyBytes(*settings.body_bytes)
    if most_body_bytes is not None:
        bodies = BodyBytes(most_body_bytes, most_body_bytes)
    made = _Limits(settings, addresses, bodies, metrics, admit)

    class LimitedProtocol(_Limited):
        limits = made

    return LimitedProtocol


class _Addresses:
    """How many connections each address has.

    Args:
        most: of one; 0: as many as it likes.
        exempt: addresses and networks that may have more; "*" is all of them.
    """

    def __init__(self, most: int, exempt: Sequence[str]) -> None:
        self._most = 0 if "*" in exempt else most
        self._exempt = [network for one in exempt if (network := _network(one)) is not None]
        self._open: Counter[bytes] = Counter()

    def enter(self, address: str | None) -> bytes | None:
        """Whom one more connection counts for, b"" for nobody; None where it is one too many."""
        if not self._most or self.is_exempt(address):
            return b""
        who = network_of(address)
        if self._open[who] >= self._most:
            return None
        self._open[who] += 1
        return who

    def leave(self, who: bytes) -> None:
        """A connection has ended that counted for ``who``."""
        if who:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    def is_exempt(self, address: str | None) -> bool:
        """Whether what comes from an address may be many devices'."""
        own = _network(address or "")
        return own is not None and any(own[0] in network for network in self._exempt)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The network, or the address as one; None where it is neither."""
    try:
        return ipaddress.ip_network(text.partition("%")[0], strict=False)
    except ValueError:
        return None


class _Limits:
    """What all connections of a gateway have in common."""

    def __init__(
        self,
        settings: GatewaySettings,
        addresses: _Addresses,
        bodies: BodyBytes,
        metrics: Metrics,
        admit: Callable[[str | None], None] | None,
    ) -> None:
        self.connections = settings.connections
        self.header_seconds = settings.header_seconds
        self.body_seconds = settings.body_seconds
        self.addresses = addresses
        self.bodies = bodies
        self.metrics = metrics
        self.admit = admit
        text = f"the request's headers took more than {self.header_seconds:g} s; send them at once"
        self.slow = Problem(408, "slow", text)
        text = "too many connections from this address; use one for many requests"
        again = self.header_seconds
        self.many = Problem(429, "address_connections", text, retry_after=again)
        self.malformed = Problem(400, "malformed", "this is no HTTP/1.1 request; mend it")
        text = f"found more than {_MOST_HEADERS} headers or {_MOST_HEAD_BYTES} bytes of them"
        self.large = Problem(431, "headers", f"{text}, expected at most that many")
        text = f"found over {_MOST_WAITING} requests that wait; send them when others are answered"
        self.hasty = Problem(429, "waiting", text, retry_after=again)
        text = "the bodies of too many requests are here already; send it again later"
        self.full = Problem(503, "busy", text, retry_after=_FULL_RETRY_S)


def _raw(problem: Problem) -> bytes:
    """A problem as bytes on a connection that then closes."""
    answer = problem.response()
    answer.headers["connection"] = "close"
    reason = http.HTTPStatus(problem.status).phrase.encode()
    lines = [b"HTTP/1.1 %d %s" % (problem.status, reason)]
    lines += [b"%s: %s" % pair for pair in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


class _LimitError(Exception):
    """A limit was passed inside a callback of the parser."""


class _Limited(HttpToolsProtocol):
    """One connection."""

    limits: _Limits

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._who: bytes | None = None
        self._sender = b""  # whose bodies these are; b"": many devices'
        self._request: asyncio.TimerHandle | None = None  # until it is here
        self._answer: asyncio.TimerHandle | None = None  # until more of it can be written
        self._came = False  # any byte of the request
        self._is_body = False  # of the newest request, that is not whole yet
        self._is_new = False  # a request began or ended in the piece that is parsed
        self._line_bytes = 0  # the newest request's line and headers, as far as they are parsed
        self._framing_bytes = 0  # all of the newest request that is no body
        self._body_bytes = 0  # of all requests
        self._held: deque[int] = deque()  # bytes of bodies, of each request not answered yet
        self._fault: tuple[str, Problem] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else None
        if address is not None and not self.limits.addresses.is_exempt(address):
            self._sender = network_of(address)
        self._who = self.limits.addresses.enter(address)
        if self._who is None:
            self._end("address", self.limits.many)
        else:
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._request, self._answer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        self._request = self._answer = None
        if self._who is not None:
            self.limits.addresses.leave(self._who)
            self._who = None
        while self._held:
            self.limits.bodies.release(self._sender, self._held.popleft())
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._came = True
        if self._request is None:
            self._await_headers()
        self._unset_keepalive_if_required()
        heard = self.cycle
        for start in range(0, len(data), _PIECE_BYTES):
            if not self._feed(memoryview(data)[start : start + _PIECE_BYTES]):
                return
        if self._is_body and self.cycle is not heard and not self.cycle.response_complete:
            self.flow.pause_reading()  # until the application has looked at the headers

    def _feed(self, piece: memoryview) -> bool:
        """Parse what came; whether the connection goes on."""
        framing, before, self._is_new = len(piece), self._body_bytes, False
        while piece:
            try:
                self.parser.feed_data(piece)
                break
            except httptools.HttpParserUpgrade as upgrade:  # it is not upgraded
                piece = piece[max(1, upgrade.args[0]) :]
            except httptools.HttpParserError:
                self._refuse(*(self._fault or ("malformed", self.limits.malformed)))
                return False
        if self.transport.is_closing():
            return False
        framing -= self._body_bytes - before
        self._framing_bytes = framing if self._is_new else self._framing_bytes + framing
        if self._framing_bytes > _MOST_HEAD_BYTES + _PIECE_BYTES:
            self._refuse("large", self.limits.large)
            return False
        return True

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MOST_WAITING:
            self._fail("waiting", self.limits.hasty)
        super().on_message_begin()
        self._is_new, self._line_bytes = True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_line(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_line(len(name) + len(value) + _SEPARATORS)
        if len(self.headers) > _MOST_HEADERS:
            self._fail("large", self.limits.large)

    def on_headers_complete(self) -> None:
        self.scope["state"][FULL] = len(self.connections) > self.limits.connections
        super().on_headers_complete()
        self._is_body = True
        self._held.append(0)
        self._await("body", self.limits.body_seconds + min(_AFTER, self.limits.body_seconds))

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self.cycle.response_complete:  # what comes still goes
            return
        if not self.limits.bodies.hold(self._sender, len(body)):
            self._fail("bodies", self.limits.full)
        self._held[-1] += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        if self._held:
            self.limits.bodies.release(self._sender, self._held.popleft())
        super().on_response_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._came = self._is_body = False
        self._is_new = True
        if self._request is not None:
            self._request.cancel()
            self._request = None
        if self.cycle.response_complete:  # before its body was here: uvicorn's timer began too soon
            self._await_headers()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._answer is None:
            self._answer = self.loop.call_later(self.limits.body_seconds, self._end, "answer")

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that is idle after an answer, whether that was read or not."""
        if self.transport.get_write_buffer_size():
            self._end("answer")
        else:
            super().timeout_keep_alive_handler()

    def _await_headers(self) -> None:
        self._await("headers", self.limits.header_seconds)

    def _await(self, what: str, seconds: float) -> None:
        if self._request is not None:
            self._request.cancel()
        self._request = self.loop.call_later(seconds, self._late, what)

    def _late(self, what: str) -> None:
        """The request did not come in time."""
        self._request = None
        is_answered = self.cycle is None or self.cycle.response_complete
        if what == "headers" and not is_answered:  # of the next, while the last is being answered
            self._await_headers()
        elif what == "headers" and self._came:
            self._refuse(what, self.limits.slow)
        else:
            self._end(what)

    def _count_line(self, size: int) -> None:
        self._line_bytes += size
        if self._line_bytes > _MOST_HEAD_BYTES:
            self._fail("large", self.limits.large)

    def _fail(self, reason: str, problem: Problem) -> NoReturn:
        """Have the parser end."""
        self._fault = reason, problem
        raise _LimitError

    def _refuse(self, reason: str, problem: Problem) -> None:
        """Answer what is no request, or none that is taken. Where its headers were read, the
        application has counted it."""
        if not self._is_body:
            if self.limits.admit is not None and self._sender:
                try:
                    self.limits.admit(self.client[0] if self.client else None)
                except Problem as many:
                    problem = many
            note(self.limits.metrics, "", "unread", problem)
        self._end(reason, problem)

    def _end(self, reason: str, last: Problem | None = None) -> None:
        """End the connection: what it was waiting for goes, as if the device had gone."""
        self.limits.metrics.ended.labels(reason).inc()
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering:
            # Another answer is on its way, or comes first, where this request is not its own.
            if cycle.response_started or self.pipeline or not self._is_body:
                last = None
            cycle.disconnected = True
            cycle.message_event.set()
        if last is None:
            self.transport.abort()
        else:
            self.transport.write(_raw(last))
            self.transport.close()
            # Who does not read it is not waited for.
            self.loop.call_later(_AFTER, self.transport.abort)
